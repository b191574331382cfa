"""Makes spans of what has happened, and sends them by OTLP over HTTP, in a thread of their own.

Whatever fails here is logged and changes nothing else: spans are dropped when they cannot be sent.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.metadata import version
from itertools import islice
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context as OtelContext
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.trace_hook import Headers, Post, harmless
from msh.tracing.context import HEADER, Context, copy_of, read, root_of, trace_of, write
from msh.tracing.events import Call, Event, Request
from msh.tracing.ids import Ids, current_context, span_context

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

SEND_EVERY = 1000
"""Milliseconds: what a process that is killed has not sent yet is lost."""
SEND_WITHIN = 3.0  # seconds, for a batch; also how long the end of a process may take longer
BULK_SPANS = 500
"""Spans `submit` of a bulk request at most: by default 2,048 spans of a process wait to be sent."""
P = ParamSpec("P")
T = TypeVar("T")


def _harmless(function: Callable[P, T]) -> Callable[P, T | None]:
    """An error becomes a line in the log, and None."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T | None:
        result: T | None = None
        with harmless():
            result = function(*args, **kwargs)
        return result  # noqa: RET504  None after an error

    return call


class Recorder:
    """One for each process and its children: the thread that sends starts with the first span."""

    def __init__(self, endpoint: str, share: float, uri: str) -> None:
        self._endpoint = endpoint
        self._sampler = TraceIdRatioBased(share)
        self._uri = uri
        self._ids = Ids()
        self._lock = threading.Lock()
        self._provider: tuple[int, TracerProvider] | None = None
        self._now = threading.local()

    def close(self) -> None:
        """Send what there is, and end the thread. What ends a process does it too."""
        if self._provider is not None:
            self._provider[1].shutdown()

    # --- requests -----------------------------------------------------------------------------
    @_harmless
    def begin(self, environ: "WSGIEnvironment") -> None:
        """This thread answers a request from now on."""
        self._now.request = Request(environ.get("HTTP_TRACEPARENT", ""), time.time_ns())

    @_harmless
    def note_message(
        self, partner_id: int, message_id: str, kind: str = "", ref_to_message_id: str = ""
    ) -> None:
        """The request of this thread is a message or signal of a partner, of this kind."""
        if request := self._request():
            request.name = f"receive {kind}" if ref_to_message_id else "receive"
            request.message_id = ref_to_message_id or message_id
            request.partner_id = partner_id

    def watch(self, start_response: "StartResponse") -> "StartResponse":
        """The request of a partner ends when its answer starts."""

        def start(status: str, *given: Any) -> Any:
            self._received(status)
            return start_response(status, *given)

        return start

    @_harmless
    def _received(self, status: str) -> None:
        request = self._request()
        if request is None or not request.message_id:
            return
        code = int(status.split(" ", 1)[0])
        attributes = _of_message(request.message_id, request.partner_id)
        attributes["http.response.status_code"] = code
        theirs = read(request.traceparent)
        same = theirs is not None and theirs.trace_id == trace_of(request.message_id)
        event = Event(
            request.name,
            SpanKind.SERVER,
            request.began,
            time.time_ns(),
            attributes,
            link=None if same else theirs,
            error=status if code >= 400 else "",
        )
        self._add(request.message_id, event, parent=theirs.span_id if theirs and same else None)

    # --- messages -----------------------------------------------------------------------------
    @_harmless
    def submitted(self, message_id: str, partner_id: int) -> None:
        """After the commit. It is joined with the trace of the application by links both ways."""
        call = self._call()
        root = self._add_root(message_id, partner_id, call)
        attributes = _of_message(message_id, partner_id)
        self._add_to_application(call, attributes, link=root)

    @_harmless
    def submitted_many(self, messages: Sequence[tuple[str, int]]) -> None:
        """MessageId and partner of each; one span in the trace of the application for all. The
        first BULK_SPANS that are sampled have a span `submit`."""
        call = self._call()
        sampled = [*islice((one for one in messages if self._is_sampled(one[0])), BULK_SPANS)]
        for message_id, partner_id in sampled:
            self._add_root(message_id, partner_id, call)
        counts = {
            "messaging.batch.message_count": len(messages),
            "ebxml.batch.submit_spans": len(sampled),
        }
        self._add_to_application(call, counts)

    def _call(self) -> Call:
        request, end = self._request(), time.time_ns()
        caller = read(request.traceparent) if request else current_context()
        return Call(request.began if request else end, end, caller)

    def _add_root(self, message_id: str, partner_id: int, call: Call) -> Context:
        root = Context(trace_of(message_id), root_of(message_id), self._is_sampled(message_id))
        if root.sampled:
            attributes = _of_message(message_id, partner_id)
            begin, end, caller = call
            event = Event("submit", SpanKind.PRODUCER, begin, end, attributes, link=caller)
            self._make(event, root, None)
        return root

    def _add_to_application(
        self, call: Call, attributes: Mapping[str, str | int], link: Context | None = None
    ) -> None:
        begin, end, caller = call
        if caller:
            event = Event("submit to MSH", SpanKind.SERVER, begin, end, attributes, link=link)
            self._make(event, None, caller)

    @_harmless
    def _headers_for(self, post: Post) -> Headers:
        message_id, name = _about(post)
        if not name or not post.url.startswith(("http://", "https://")):
            return ()
        attempt: int | None = getattr(post.key, "attempt", None)
        span_id = RandomIdGenerator().generate_span_id()
        if name == "send" and attempt is not None:
            span_id = copy_of(message_id, attempt)
        context = Context(trace_of(message_id), span_id, self._is_sampled(message_id))
        return ((HEADER, write(context)),)

    def headers_for(self, post: Post) -> Headers:
        """Return the header `traceparent`, if the POST is about a message and goes over HTTP."""
        return self._headers_for(post) or ()

    @_harmless
    def posted(self, post: Post, result: AttemptResult | None, seconds: float) -> None:
        """`result` None: it was stale, nothing was written."""
        message_id, name = _about(post)
        if not name:
            return
        context = read(dict(post.headers).get(HEADER, ""))
        end = time.time_ns()
        attributes = {
            "messaging.message.id": message_id,
            "ebxml.partner_id": getattr(post.key, "partner_id", None),
            "ebxml.attempt": getattr(post.key, "attempt", None),
            "ebxml.outcome": result.outcome.value if result else "stale",
            "http.response.status_code": result.status if result else None,
        }
        is_good = result is not None and result.outcome is AttemptOutcome.TRANSMITTED
        event = Event(
            name,
            SpanKind.CLIENT,
            end - int(seconds * 1e9),
            end,
            {key: value for key, value in attributes.items() if value is not None},
            error="" if is_good else (result.detail if result else "not sent"),
        )
        self._add(message_id, event, span_id=context.span_id if context else None)

    @_harmless
    def delivered(self, message_id: str, consumer: str, error: str, seconds: float) -> None:
        """To a consumer in this process; `error` "": it succeeded."""
        end = time.time_ns()
        attributes = {"messaging.message.id": message_id, "ebxml.consumer": consumer}
        begin = end - int(seconds * 1e9)
        event = Event("deliver", SpanKind.CONSUMER, begin, end, attributes, error=error)
        self._add(message_id, event)

    # --- spans --------------------------------------------------------------------------------
    def _add(
        self,
        message_id: str,
        event: Event,
        *,
        span_id: int | None = None,
        parent: int | None = None,
    ) -> None:
        """Add a span to the trace of a message, under its submit unless it has another parent."""
        if not self._is_sampled(message_id):
            return
        above = Context(trace_of(message_id), parent or root_of(message_id))
        own = Context(above.trace_id, span_id) if span_id else None
        self._make(event, own, above)

    def _make(self, event: Event, own: Context | None, above: Context | None) -> None:
        """`own`: its ids, random ones without; `above`: its parent."""
        links = [Link(span_context(event.link))] if event.link else []
        parent = OtelContext()
        if above:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(span_context(above)), parent)
        self._ids.next.trace = own.trace_id if own and not above else None
        self._ids.next.span = own.span_id if own else None
        try:
            span = self._tracer().start_span(
                event.name, parent, event.kind, event.attributes, links, start_time=event.begin
            )
        finally:
            self._ids.next.trace = self._ids.next.span = None
        if event.error:
            span.set_status(Status(StatusCode.ERROR, event.error))
        span.end(event.end)

    def _is_sampled(self, message_id: str) -> bool:
        """Whether the trace is sampled. The sampler decides by its id, so that each MSH samples the
        same messages."""
        return (trace_of(message_id) & TraceIdRatioBased.TRACE_ID_LIMIT) < self._sampler.bound

    def _request(self) -> Request | None:
        return getattr(self._now, "request", None)

    def _tracer(self) -> trace.Tracer:
        with self._lock:
            if self._provider is None or self._provider[0] != os.getpid():
                self._provider = os.getpid(), self._new_provider()
            return self._provider[1].get_tracer("msh")

    def _new_provider(self) -> TracerProvider:
        known = {"service.version": version("msh"), "ebxml.uri": self._uri}
        if SERVICE_NAME not in OTELResourceDetector().detect().attributes:
            known[SERVICE_NAME] = "msh"
        provider = TracerProvider(
            sampler=ParentBased(self._sampler),
            resource=Resource.create(known),
            id_generator=self._ids,
        )
        exporter = OTLPSpanExporter(self._endpoint, timeout=SEND_WITHIN)
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=SEND_EVERY))
        return provider


def _of_message(message_id: str, partner_id: int) -> dict[str, str | int]:
    return {"messaging.message.id": message_id, "ebxml.partner_id": partner_id}


def _about(post: Post) -> tuple[str, str]:
    """The MessageId of a message, and the name of a span: "" for what is about none."""
    key = post.key
    if acknowledged := getattr(key, "ref_to_message_id", ""):
        return acknowledged, f"send {getattr(key, 'kind', 'signal')}"
    if message_id := getattr(key, "message_id", ""):
        return message_id, "deliver" if hasattr(key, "delivery") else "send"
    return "", ""
