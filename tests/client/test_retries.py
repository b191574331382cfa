"""What the client sends again: by the code of the problem document, without one by the status."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from msh_client import ApiRefused, Client, Secret, Server
from msh_client.connection import RETRIED
from tests.api.test_problems import sections
from tests.clock import Clock


class _Handler(BaseHTTPRequestHandler):
    """Answers with what the script says first, and then with success."""

    server: Any
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status, document = self.server.script.pop(0) if self.server.script else (200, {"ok": 1})
        body = json.dumps(document).encode() if isinstance(document, dict) else document
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "7")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[Any]:
    server: Any = HTTPServer(("127.0.0.1", 0), _Handler)
    server.script = []
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def client(api: Any, clock: Clock) -> Client:
    url = f"http://127.0.0.1:{api.server_port}/api/v1"
    return Client(Server(url, Secret("t0ken"), 30, 60), clock)


def test_the_codes_that_are_retried_are_those_of_the_page() -> None:
    retried = {code for code, entries in sections().items() if entries["Retry"] == "yes"}
    assert retried == RETRIED


def cases(*, retried: bool) -> list[tuple[int, dict[str, str] | bytes]]:
    found: list[tuple[int, dict[str, str] | bytes]] = [
        (int(status), {"code": code, "detail": "why"})
        for code, entries in sections().items()
        for status in entries["Status"].split(", ")
        if (code in RETRIED) is retried and status != "200"
    ]
    of_a_proxy = (408, 429, 500, 502, 503, 504) if retried else (400, 403, 404, 413)
    return [*found, *((status, b"<html>proxy</html>") for status in of_a_proxy)]


@pytest.mark.parametrize(("status", "document"), cases(retried=True))
def test_what_may_have_failed_by_chance_is_sent_again(
    api: Any, status: int, document: dict[str, str] | bytes
) -> None:
    clock = Clock()
    api.script = [(status, document)] * 2
    with client(api, clock) as msh:
        assert msh.get("token") == {"ok": 1}
    assert len(clock.waits) == 2
    assert min(clock.waits) >= 7, "not before Retry-After"


@pytest.mark.parametrize(("status", "document"), cases(retried=False))
def test_what_is_refused_is_not_sent_again(
    api: Any, status: int, document: dict[str, str] | bytes
) -> None:
    clock = Clock()
    api.script = [(status, document)]
    with client(api, clock) as msh, pytest.raises(ApiRefused) as refused:
        msh.get("token")
    code = document["code"] if isinstance(document, dict) else ""
    assert (refused.value.status, refused.value.code) == (status, code)
    assert clock.waits == []
