"""An answer as bytes: its head, and the body that follows in pieces."""

import json
import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from io import BytesIO
from typing import IO

from .senders import is_api, is_partner
from .spool import Spool
from .stream import Stream


class Answer:
    """`body` gives the bytes that follow the head; `close` it when they are sent, or never will."""

    __slots__ = ("body", "headers", "is_chunked", "length", "spool", "status", "stream")

    def __init__(
        self,
        status: str,
        headers: Iterable[tuple[str, str]],
        body: IO[bytes] | None = None,
        length: int | None = None,
        spool: Spool | None = None,
        stream: Stream | None = None,
    ) -> None:
        self.status = status
        self.headers = list(headers)
        self.body = body
        self.length = length
        """Bytes of the body, if they were counted."""
        self.spool = spool
        self.stream = stream
        """The body, if it is still being made."""
        self.is_chunked = False

    @classmethod
    def of_text(cls, status: int, text: str, content_type: str) -> "Answer":
        content = text.encode()
        return cls(
            f"{status} {HTTPStatus(status).phrase}",
            [("Content-Type", content_type)],
            BytesIO(content) if content else None,
            len(content),
        )

    @property
    def code(self) -> int:
        return int(self.status[:3])

    @property
    def has_body(self) -> bool:
        return self.code >= 200 and self.code not in (204, 304)

    def head(self, *, keep_alive: bool, is_http_1_0: bool = False) -> tuple[bytes, bool]:
        """Its bytes, and whether the connection is kept: its reader has to see where it ends."""
        lines = [f"HTTP/1.1 {self.status}"]
        has_length = False
        for name, value in self.headers:
            lines.append(f"{name}: {value}")
            has_length = has_length or name.lower() == "content-length"
        if self.has_body and not has_length:
            if self.stream is not None and not is_http_1_0:
                self.is_chunked = True
                lines.append("Transfer-Encoding: chunked")
            elif self.length is None:
                keep_alive = False
            else:
                lines.append(f"Content-Length: {self.length}")
        lines.append(f"Date: {_date()}")
        if not keep_alive:
            lines.append("Connection: close")
        elif is_http_1_0:
            lines.append("Connection: keep-alive")
        return "\r\n".join((*lines, "", "")).encode("latin-1"), keep_alive

    def close(self) -> None:
        if self.body is not None:
            self.body.close()
            self.body = None
        if self.spool is not None:
            self.spool.close()
        if self.stream is not None:
            self.stream.close()
            self.stream, self.is_chunked = None, False


LIVE = json.dumps({"live": True})


def live() -> Answer:
    return Answer.of_text(200, LIVE, "application/json")


def refusal(path: str, status: int, reason: str, *, wait: int | None = None) -> Answer:
    """A refusal as who asks there expects it: a partner has no body, the API a document."""
    if is_partner(path):
        answer = Answer.of_text(status, "", "")
        answer.headers = [("X-MSH-Error", reason)]
    elif is_api(path):
        title = HTTPStatus(status).phrase
        document = {"type": "about:blank", "title": title, "status": status, "detail": reason}
        answer = Answer.of_text(status, json.dumps(document), "application/problem+json")
    else:
        answer = Answer.of_text(status, f"{reason}\n", "text/plain; charset=utf-8")
    if wait is not None:
        answer.headers.append(("Retry-After", str(wait)))
    return answer


_date_of = 0
_date_text = ""


def _date() -> str:
    global _date_of, _date_text
    now = int(time.time())
    if now != _date_of:
        _date_of, _date_text = now, formatdate(now, usegmt=True)
    return _date_text
