"""What receives spans by OTLP over HTTP, as a collector does: the standard library, on loopback."""

import gzip
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    trace_id: str
    span_id: str
    parent: str
    links: tuple[tuple[str, str], ...]
    attributes: dict[str, Any]
    seconds: float
    failed: bool
    service: dict[str, Any]


class Collector:
    """A context manager. `spans`: what has arrived."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Span] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers["Content-Encoding"] == "gzip":
                    body = gzip.decompress(body)
                collector.add(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def spans(self) -> list[Span]:
        with self._lock:
            return list(self._spans)

    def of(self, trace_id: int) -> dict[str, Span]:
        """Of one trace, by name."""
        return {one.name: one for one in self.spans if one.trace_id == f"{trace_id:032x}"}

    def add(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        with self._lock:
            for group in request.resource_spans:
                service = _attributes(group.resource)
                for scope in group.scope_spans:
                    self._spans += [_span(one, service) for one in scope.spans]


def _span(one: Any, service: dict[str, Any]) -> Span:
    return Span(
        one.name,
        one.trace_id.hex(),
        one.span_id.hex(),
        one.parent_span_id.hex(),
        tuple((link.trace_id.hex(), link.span_id.hex()) for link in one.links),
        _attributes(one),
        (one.end_time_unix_nano - one.start_time_unix_nano) / 1e9,
        one.status.code == 2,
        service,
    )


def _attributes(of: Any) -> dict[str, Any]:
    values = {one.key: one.value for one in of.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values.items()}
