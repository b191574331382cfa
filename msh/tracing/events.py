"""The events that spans are made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from opentelemetry.trace import SpanKind

from msh.tracing.context import Context


@dataclass(slots=True)
class Request:
    """The request that this thread answers, and the message in it, once it was read."""

    traceparent: str
    began: int
    message_id: str = ""
    name: str = ""
    partner_id: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened. `begin`, `end`: nanoseconds of the clock. `error` is empty if it
    went well."""

    name: str
    kind: SpanKind
    begin: int
    end: int
    attributes: Mapping[str, str | int]
    link: Context | None = None
    error: str = ""


class Call(NamedTuple):
    """A submit: begin and end as of an Event, and the span of the application around it."""

    begin: int
    end: int
    caller: Context | None
