"""Ids of traces and spans, made from what is stored, and the header `traceparent` (W3C).

The trace of a message has an id that follows from its MessageId: it survives queue, retries and
restarts without a column, and both MSHs derive the same.
"""

import re
from hashlib import sha256
from typing import NamedTuple

HEADER = "traceparent"
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class Context(NamedTuple):
    """A span of somebody. `sampled`: it is recorded."""

    trace_id: int
    span_id: int
    sampled: bool = True


def trace_of(message_id: str) -> int:
    return _number("trace", message_id, 16)


def root_of(message_id: str) -> int:
    """Return the span of its submit, under which all others are."""
    return _number("submit", message_id, 8)


def copy_of(message_id: str, attempt: int) -> int:
    """Return the span of an attempt to send it."""
    return _number(f"attempt {attempt}", message_id, 8)


def read(traceparent: str) -> Context | None:
    """Return the context; None if it is none: then a request has no trace."""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more):
        return None
    context = Context(int(trace, 16), int(span, 16), bool(int(flags, 16) & 1))
    return context if context.trace_id and context.span_id else None


def write(context: Context) -> str:
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.sampled:02x}"


def _number(what: str, message_id: str, size: int) -> int:
    """Return a number that is never 0, which is no id."""
    digest = sha256(f"msh {what}\0{message_id}".encode()).digest()
    return int.from_bytes(digest[:size], "big") or 1
