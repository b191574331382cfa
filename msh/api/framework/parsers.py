"""Bodies of requests: all of it, or none; in JSON an object each, also each line of NDJSON."""

from typing import IO, Any

import orjson
from rest_framework.parsers import BaseParser

from .problems import Unreadable

_PIECE = 1 << 18  # bytes read at a time


def whole(stream: IO[bytes], parser_context: Any) -> bytes:
    """Read the whole body. Raises Unreadable if less has come than was announced.

    An application that dies while it sends leaves a body that may look complete.
    """
    body = b"".join(iter(lambda: stream.read(_PIECE), b""))
    announced = int(parser_context["request"].META["CONTENT_LENGTH"])
    if len(body) < announced:
        text = (
            f"The body has {len(body)} bytes, {announced} were announced. Send the complete body."
        )
        raise Unreadable("", text)
    return body


def of_json(text: bytes) -> dict[str, object]:
    """Return the JSON object in this text. Raises Unreadable."""
    try:
        values = orjson.loads(text)
    except ValueError as problem:
        raise Unreadable("", f"not JSON in UTF-8: {problem}") from None
    if not isinstance(values, dict):
        raise Unreadable("", "not a JSON object")
    return values


class JsonParser(BaseParser):
    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: object = None
    ) -> dict[str, object]:
        return of_json(whole(stream, parser_context))
