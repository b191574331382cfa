"""A request's body: all of it, or none."""

from typing import IO, Any

from .problems import Unreadable

_PIECE = 1 << 18  # bytes read at a time


def whole(stream: IO[bytes], parser_context: Any) -> bytes:
    """What a parser is to read. Raises Unreadable if less came than was announced.

    An application that dies in the middle leaves a body that may look complete.
    """
    body = b"".join(iter(lambda: stream.read(_PIECE), b""))
    announced = int(parser_context["request"].META["CONTENT_LENGTH"])
    if len(body) < announced:
        text = (
            f"The body has {len(body)} bytes, {announced} were announced. Send the complete body."
        )
        raise Unreadable("", text)
    return body
