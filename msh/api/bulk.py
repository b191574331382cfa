"""`POST messages/bulk`: thousands of messages as lines of JSON, kept by one write."""

import json
import zlib
from collections.abc import Iterator
from typing import IO, Any

from django.db import IntegrityError, OperationalError
from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiTypes, extend_schema
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.advance import NewMessage
from msh.flows.bulk import Answer, Result, submit_all
from msh.flows.submit import SubmitRefused
from msh.models import Scope

from . import schema
from .problems import NotNow, Refused, TooLarge, Unreadable
from .room import require_room
from .submission import Agreements, of_json
from .view import ApiView

LINE_LIMIT = 5_000
SIZE_LIMIT = 32 * 1024 * 1024
"""Bytes of the lines, decompressed."""
PIECE = 1 << 18  # bytes read at a time


class NdjsonParser(BaseParser):
    """The lines, as they come; decompressed with Content-Encoding: gzip. Raises Unreadable."""

    media_type = "application/x-ndjson"

    def parse(  # type: ignore[override]
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None
    ) -> list[bytes]:
        encoding = parser_context["request"].META.get("HTTP_CONTENT_ENCODING", "identity").lower()
        match encoding:
            case "identity":
                pieces = _pieces(stream)
            case "gzip":
                pieces = _unzipped(stream)
            case _:
                raise Unreadable("Content-Encoding", f"{encoding}: send gzip, or the lines as is")
        return _lines(pieces)


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    while piece := stream.read(PIECE):
        yield piece


def _unzipped(stream: IO[bytes]) -> Iterator[bytes]:
    """Never more than PIECE at a time, however well it was compressed."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        for piece in _pieces(stream):
            rest = piece
            while rest and not unzip.eof:
                yield unzip.decompress(rest, PIECE)
                rest = unzip.unconsumed_tail
        yield unzip.flush()
    except zlib.error as problem:
        raise Unreadable("", f"The body is not gzip: {problem}") from None
    if not unzip.eof:
        raise Unreadable("", "The gzip of the body ends in the middle: send all of it.")


def _lines(pieces: Iterator[bytes]) -> list[bytes]:
    whole = bytearray()
    for piece in pieces:
        whole += piece
        if len(whole) > SIZE_LIMIT:
            raise TooLarge("", f"A request has at most {SIZE_LIMIT} bytes of lines: split it.")
    lines = bytes(whole).split(b"\n")
    if not lines[-1]:
        lines.pop()
    if len(lines) > LINE_LIMIT:
        raise TooLarge("", f"A request has at most {LINE_LIMIT} lines: split it.")
    return lines


class AnyAnswer(BaseContentNegotiation):
    """The answer is NDJSON, whatever was asked for; a refusal is a problem document."""

    def select_parser(self, request: Request, parsers: Any) -> Any:  # type: ignore[override]
        content_type = (request.content_type or "").partition(";")[0].strip().lower()
        return next((parser for parser in parsers if parser.media_type == content_type), None)

    def select_renderer(  # type: ignore[override]
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type


class BulkView(ApiView):
    scopes = {"POST": Scope.SEND}
    parser_classes = [NdjsonParser]
    content_negotiation_class = AnyAnswer

    @extend_schema(
        operation_id="submit_messages_in_bulk",
        request={"application/x-ndjson": OpenApiTypes.BINARY},
        responses={
            (200, "application/x-ndjson"): OpenApiTypes.BINARY,
            **schema.problems(400, 413, 415, 503),
        },
    )
    def post(self, request: Request) -> StreamingHttpResponse | Response:
        """Submit up to 5,000 messages, one JSON object a line, at most 32 MiB, gzip welcome.

        One answer a line: `{"line": 1, "message_id": "…", "result": "accepted"}`; `known` is the
        same again, `refused` comes with a `reason` and is not to be sent again as it is. All that
        are accepted are committed together. A line needs a `message_id`.
        """
        require_room()
        lines: list[bytes] = request.data  # type: ignore[assignment]
        read = list(_read(lines))
        try:
            answers = iter(submit_all([one for one in read if isinstance(one, NewMessage)]))
        except (IntegrityError, OperationalError) as error:
            raise NotNow("Others write the same: nothing was kept.", 1) from error
        told = _told(read, answers)
        return StreamingHttpResponse(told, content_type="application/x-ndjson")


def _read(lines: list[bytes]) -> Iterator[NewMessage | tuple[str, str]]:
    """What each line holds, or its MessageId, where it could be read, and why it is refused."""
    agreements = Agreements()
    for line in lines:
        message_id = ""
        try:
            submission = of_json(line)
            message_id = submission.message_id
            if not message_id:
                raise Refused("message_id", "message_id is missing: without it a line is doubled")
            yield submission.prepared(agreements)
        except Refused as refused:
            yield message_id, str(refused.detail)
        except SubmitRefused as refused:
            yield message_id, str(refused)


def _told(read: list[NewMessage | tuple[str, str]], answers: Iterator[Answer]) -> Iterator[bytes]:
    block: list[str] = []
    for number, one in enumerate(read, start=1):
        if isinstance(one, NewMessage):
            message_id, answer = one.message.message_id, next(answers)
        else:
            message_id, answer = one[0], Answer(Result.REFUSED, one[1])
        told = {"line": number, "message_id": message_id, "result": answer.result.value}
        if answer.reason:
            told["reason"] = answer.reason
        block.append(json.dumps(told))
        if len(block) == 500:
            yield ("\n".join(block) + "\n").encode()
            block.clear()
    if block:
        yield ("\n".join(block) + "\n").encode()
