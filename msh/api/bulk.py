"""`POST messages/bulk`: thousands of messages as lines of JSON, kept by one transaction."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import orjson
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from msh.flows.sending.prepare import SubmitRefused
from msh.flows.sending.submit_many import Answer, Entry, InTheWay, Result, submit_all
from msh.models import Scope
from msh.protocol.message import MESSAGE_ID_LIMIT
from msh.protocol.reason import Refusal

from . import schema
from .documents import ExplainedDocument
from .framework.access import partners_of
from .framework.parsers import of_json, whole
from .framework.problems import NotNow, Refused, TooLarge, Unreadable
from .framework.query import Form, validated_query
from .framework.view import ApiView
from .messages import WhichQuery, explained
from .submission import Agreements, Submission, Values, cut, prepared, printed, require_room

LINE_LIMIT = 5_000
SIZE_LIMIT = 32 * 1024 * 1024
"""Bytes of the lines, decompressed."""
MEDIA_TYPE = "application/x-ndjson"
STOP = "stop"

_PIECE = 1 << 20
"""Bytes of lines that are in memory, checked and copied in at a time."""
_AT_ONCE = 32
"""Lines whose texts are in memory at a time: so few stay in the processor's cache."""
_ANSWERS = 500  # lines of the response that are written at a time


@dataclass(frozen=True, slots=True)
class Lines:
    """The body as it came; iterated, what its lines hold in blocks, as often as need be.

    Never more than a block is unpacked or cut at a time, however well it was compressed and
    however short its lines are. Raises TooLarge or Unreadable at the place that is.
    """

    body: bytes
    gzip: bool
    partners: frozenset[int] | None = None
    """Only agreements with these are there."""

    def __iter__(self) -> Iterator[list[Entry]]:
        agreements = Agreements(self.partners)
        for block in self.blocks():
            entries: list[Entry] = []
            for at in range(0, len(block), _AT_ONCE):
                read = [_read(line) for line in block[at : at + _AT_ONCE]]
                agreements.look_up(one.get("tpa_id") for one in read if not isinstance(one, Answer))
                entries += [
                    one if isinstance(one, Answer) else _prepared(one, agreements) for one in read
                ]
            yield entries

    def blocks(self) -> Iterator[list[bytes]]:
        count = size = 0
        rest = b""  # of a line that goes on in the next piece
        for piece in self._pieces():
            size += len(piece)
            if size > SIZE_LIMIT:
                raise TooLarge("", f"A request has at most {SIZE_LIMIT} bytes of lines. Split it.")
            *block, rest = (rest + piece).split(b"\n", LINE_LIMIT + 1)
            count += len(block)
            if count + bool(rest) > LINE_LIMIT:
                raise TooLarge("", f"A request has at most {LINE_LIMIT} lines. Split it.")
            yield block
        yield [rest] if rest else []

    def _pieces(self) -> Iterator[bytes]:
        pieces = (self.body[at : at + _PIECE] for at in range(0, len(self.body), _PIECE))
        if not self.gzip:
            yield from pieces
            return
        unzip = zlib.decompressobj(wbits=31)
        try:
            for piece in pieces:
                rest = piece
                while rest and not unzip.eof:
                    yield unzip.decompress(rest, _PIECE)
                    rest = unzip.unconsumed_tail
                if unzip.eof and (rest or unzip.unused_data):
                    raise Unreadable(
                        "", "Data follows the end of the gzip stream. Send a single gzip stream."
                    )
        except zlib.error as problem:
            raise Unreadable("", f"The body is not valid gzip: {problem}") from None
        if not unzip.eof:
            raise Unreadable("", "The gzip stream is truncated. Send the complete body.")


class SubmissionLine(Submission):
    """A line of a bulk request: one message to send, as a JSON object."""

    message_id = printed(help_text="Says which message it is, also when the request is repeated.")


class AnswerLine(Form):
    """A line of a bulk response: what became of the message in this line of the request."""

    line = serializers.IntegerField(min_value=1, max_value=LINE_LIMIT)
    message_id = serializers.CharField(
        allow_blank=True, help_text="Empty if the line could not be read."
    )
    result = serializers.ChoiceField([result.value for result in Result])
    reason = serializers.CharField(required=False, help_text="Why not, for people.")
    code = serializers.ChoiceField(
        list(Refusal), required=False, help_text="Why not, for programs."
    )
    field = serializers.CharField(required=False, help_text="Which field is wrong.")


class LinesParser(BaseParser):
    media_type = MEDIA_TYPE

    def parse(  # type: ignore[override]
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None
    ) -> Lines:
        encoding = parser_context["request"].headers.get("Content-Encoding", "identity")
        gzip = encoding.strip().lower() == "gzip"
        return Lines(whole(stream, parser_context), gzip=gzip)


class BytesParser(LinesParser):
    """The same, from clients that know no better name for lines: those that generators make."""

    media_type = "application/octet-stream"


class BulkQuery(Form):
    on_refusal = serializers.ChoiceField(
        ["continue", STOP],
        default="continue",
        help_text="What becomes of the lines behind a refused one of their partner and agreement.",
    )


class BulkView(ApiView):
    scopes = {"POST": Scope.SEND, "GET": Scope.READ}
    narrows = True
    parser_classes = [LinesParser, BytesParser]
    encodings = ("identity", "gzip")

    def body_limit(self) -> int:
        return SIZE_LIMIT

    @extend_schema(
        operation_id="get_message_bulk",
        parameters=[WhichQuery],
        responses={200: ExplainedDocument, **schema.problems(400, 404)},
    )
    def get(self, request: Request) -> Response:
        """The message whose id is that of this path."""
        return explained(request, "bulk")

    @extend_schema(
        operation_id="submit_messages_in_bulk",
        parameters=[
            BulkQuery,
            OpenApiParameter(
                "Content-Encoding",
                location=OpenApiParameter.HEADER,
                enum=["gzip", "identity"],
            ),
        ],
        request={
            MEDIA_TYPE: SubmissionLine(many=True),
            BytesParser.media_type: OpenApiTypes.BINARY,
        },
        responses={
            (200, MEDIA_TYPE): AnswerLine(many=True),
            **schema.problems(400, 411, 413, 415),
        },
    )
    def post(self, request: Request) -> StreamingHttpResponse:
        """Submit up to 5,000 messages, one JSON object a line, at most 32 MiB, gzip welcome. The
        schemas show the lines as an array, as OpenAPI 3.2 does: its items are the lines.

        One answer a line: `{"line": 1, "message_id": "…", "result": "accepted"}`; `known` is the
        same again, `refused` comes with a `reason` and its `code` and is not to be sent again as
        it is; `not_now` (with both) is to be sent again later, for submissions to its partner are
        refused: all lines of this request. All that are accepted are committed together. A line
        needs a `message_id`. With `on_refusal=stop`, lines behind a refused one of their partner
        and agreement are `not_sent`, unless they are known: send them after it, corrected.
        """
        query = validated_query(request, BulkQuery)
        require_room()
        lines: Any = request.data
        if not isinstance(lines, Lines):
            raise Unreadable("", "The body is empty. Send one line per message.")
        try:
            found = replace(lines, partners=partners_of(request))
            answers = submit_all(found, stop_at_refused=query["on_refusal"] == STOP)
        except InTheWay as error:
            raise NotNow(
                "Conflict with a concurrent request; nothing was stored. Retry.", wait=1
            ) from error
        return StreamingHttpResponse(_as_lines(answers), content_type=MEDIA_TYPE)


def _read(line: bytes) -> Values | Answer:
    try:
        return of_json(line)
    except Unreadable as refused:
        return Answer("", Result.REFUSED, str(refused.detail), refused.refusal, meant=None)


def _prepared(values: Values, agreements: Agreements) -> Entry:
    try:
        if not values.get("message_id"):
            raise Refused(
                "message_id", "message_id is required: without it a retry would create a duplicate"
            )
        return prepared(values, agreements)
    except Refused as refused:
        reason, code, field = str(refused.detail), refused.refusal, refused.field
    except SubmitRefused as refused:
        reason, code, field = str(refused), refused.code, refused.field
    message_id = values.get("message_id")
    named = cut(message_id, MESSAGE_ID_LIMIT) if isinstance(message_id, str) else ""
    meant = agreements.meant(values)
    return Answer(named, Result.REFUSED, reason, code, field, meant)


def _as_lines(answers: Sequence[Answer]) -> Iterator[bytes]:
    for start in range(0, len(answers), _ANSWERS):
        rows = []
        for number, answer in enumerate(answers[start : start + _ANSWERS], start=start + 1):
            row = {"line": number, "message_id": answer.message_id, "result": answer.result}
            if answer.reason:
                row |= {"reason": answer.reason, "code": answer.code}
            if answer.field:
                row["field"] = answer.field
            rows.append(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE))
        yield b"".join(rows)
