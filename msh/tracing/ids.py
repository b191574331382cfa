"""Ids of spans, as OpenTelemetry has them."""

import threading

from opentelemetry import trace
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanContext, TraceFlags

from msh.tracing.context import Context


class Ids(RandomIdGenerator):
    """The ids are random, but for the next span of this thread if its ids are set."""

    def __init__(self) -> None:
        self.next = threading.local()

    def generate_trace_id(self) -> int:
        return getattr(self.next, "trace", None) or super().generate_trace_id()

    def generate_span_id(self) -> int:
        return getattr(self.next, "span", None) or super().generate_span_id()


def span_context(context: Context) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(context.trace_id, context.span_id, is_remote=True, trace_flags=flags)


def current_context() -> Context | None:
    """Return the span that is open in the application that calls us in its own process."""
    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return None
    return Context(found.trace_id, found.span_id, found.trace_flags.sampled)
