"""An answer: what an application or a refusal says, before it is sent."""

import json
from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from io import BytesIO
from typing import IO

from multidict import CIMultiDict

from msh.api.framework import request_ids
from msh.api.framework.problems import problem_document

from .senders import is_api, is_partner
from .spool import Spool
from .stream import Stream

PIECE = 64 * 1024
"""Bytes of a body that are handed to the connection at a time."""


class Answer:
    """`body` gives the bytes that follow the head; `close` it when they are sent, or never will."""

    __slots__ = ("body", "code", "headers", "length", "reason", "spool", "stream")

    def __init__(
        self,
        status: str,
        headers: Iterable[tuple[str, str]],
        body: IO[bytes] | None = None,
        length: int | None = None,
        spool: Spool | None = None,
        stream: Stream | None = None,
    ) -> None:
        code, _, self.reason = status.partition(" ")
        self.code = int(code)
        self.headers = list(headers)
        self.body = body
        self.length = length
        """Bytes of the body, if they were counted."""
        self.spool = spool
        self.stream = stream
        """The body, if it is still being made."""

    @classmethod
    def of_text(cls, status: int, text: str, content_type: str) -> "Answer":
        content = text.encode()
        return cls(
            f"{status} {HTTPStatus(status).phrase}",
            [("Content-Type", content_type)] if content else [],
            BytesIO(content) if content else None,
            len(content),
        )

    @property
    def is_small(self) -> bool:
        return self.stream is None and self.length is not None and self.length <= PIECE

    def headers_to_send(self) -> CIMultiDict[str]:
        headers = CIMultiDict((name, sendable(value)) for name, value in self.headers)
        headers.setdefault("Server", "MSH")
        return headers

    def close(self) -> None:
        if self.body is not None:
            self.body.close()
            self.body = None
        if self.spool is not None:
            self.spool.close()
        if self.stream is not None:
            self.stream.close()


def sendable(value: str) -> str:
    """A header's value: WSGI has its bytes in characters up to U+00FF, aiohttp takes text. It would
    refuse a control character, which may come from a message that is quoted."""
    if value.isascii() and value.isprintable():
        return value
    with suppress(UnicodeError):  # it is text already
        value = value.encode("latin-1").decode()
    return "".join(character if character.isprintable() else " " for character in value)


LIVE = json.dumps({"live": True})


def live() -> Answer:
    return Answer.of_text(200, LIVE, "application/json")


def refusal(
    path: str, status: int, reason: str, *, wait: int | None = None, request_id: str = ""
) -> Answer:
    """A refusal as who asks there expects it: a partner has no body, the API a document.
    `request_id`: what the request shows as its own."""
    if is_partner(path):
        answer = Answer.of_text(status, "", "")
    elif is_api(path):
        number = request_ids.id_for(request_id)
        text = json.dumps(problem_document(status, reason) | {"request_id": number})
        answer = Answer.of_text(status, text, "application/problem+json")
        answer.headers.append((request_ids.HEADER, number))
    else:
        answer = Answer.of_text(status, f"{reason}\n", "text/plain; charset=utf-8")
    if not is_api(path):
        answer.headers.append(("X-MSH-Error", reason))
    if wait is not None:
        answer.headers.append(("Retry-After", str(wait)))
    return answer
