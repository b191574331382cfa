"""Bodies in JSON: an object each, here and in each line of NDJSON."""

from typing import IO, Any

import orjson
from rest_framework.parsers import BaseParser

from .body import whole
from .problems import Unreadable


def of_json(text: bytes) -> dict[str, Any]:
    """The object that it is. Raises Unreadable."""
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
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Any = None
    ) -> dict[str, Any]:
        return of_json(whole(stream, parser_context))
