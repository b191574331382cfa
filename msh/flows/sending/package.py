"""A stored message as the transport to its partner transmits it."""

from msh import wire
from msh.transport.registry import transmits_lines_only


def packaged(url: str, content_type: str, body: bytes) -> bytes:
    """`body` itself, or for mail the same package in lines: always the same for the same bytes."""
    return wire.in_lines(content_type, body) if transmits_lines_only(url) else body
