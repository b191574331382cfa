"""An outside system with transactions of its own: it takes orders over HTTP and commits them."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Outside(ThreadingHTTPServer):
    """`committed` counts what it took, by Idempotency-Key: it does not look for second copies."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.committed: Counter[str] = Counter()
        self.bodies: list[bytes] = []
        self.status = 201
        self.answer = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/orders"


class _Handler(BaseHTTPRequestHandler):
    server: Outside
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        key = self.headers["Idempotency-Key"]
        if self.server.status < 300:
            self.server.committed[key] += 1
        self._answer(self.server.status, self.server.answer, key)

    def do_GET(self) -> None:
        known = self.server.committed[self.path.removeprefix("/")]
        self._answer(200 if known else 404, b"", "")

    def _answer(self, status: int, body: bytes, key: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if 300 <= status < 400:
            self.send_header("Location", self.server.url)
        if key:
            self.send_header("X-MSH-External-Id", f"ext-{key}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def outside_system() -> Iterator[Outside]:
    server = Outside()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
