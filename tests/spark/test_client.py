"""Overload, cut answers and refusals, as a real MSH cannot be made to show them at a wish."""

import json
import pickle
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from msh_client import ApiRefused, ApiUnavailable, Secret, Server
from msh_client.connection import LONGEST_WAIT
from spark_bridge.client import Client, PartnerClosed, _is_wrong, require_reachable
from spark_bridge.options import read_options
from tests.clock import Clock

LINES = [b'{"message_id": "a"}', b'{"message_id": "b"}']
CUT = "cut"
HUNG_UP = "hung up"
REFUSED_UNREAD = "refused unread"


class Scripted(ThreadingHTTPServer):
    """Answers each request as the script says, and after that accepts what comes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: list[Any] = []
        self.bodies: list[bytes] = []
        self.tokens: list[str] = []
        self.paths: list[str] = []
        """Of each POST."""
        self.status = 200
        self.document = b"<html>Another</html>"
        """Of the answer to each GET."""

    def answers(self, body: bytes, put_off: frozenset[str] = frozenset()) -> bytes:
        ids = [json.loads(line)["message_id"] for line in body.splitlines()]
        answers = [
            {"message_id": each, "result": "not_now", "reason": "partner acme is closed"}
            if each in put_off
            else {"message_id": each, "result": "accepted"}
            for each in ids
        ]
        return b"".join(json.dumps(answer).encode() + b"\n" for answer in answers)


class _Handler(BaseHTTPRequestHandler):
    server: Scripted
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(self.server.status, self.server.document, {})

    def do_POST(self) -> None:
        self.server.tokens.append(self.headers["Authorization"].removeprefix("Bearer "))
        self.server.paths.append(self.path)
        if self.server.script[:1] == [REFUSED_UNREAD]:
            self.close_connection = True
            self._answer(401, b'{"detail": "unread"}', {})
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(body)
        answer = self.server.answers(body)
        match self.server.script.pop(0) if self.server.script else None:
            case int(status), dict(headers):
                self._answer(status, b'{"detail": "the script says so"}', headers)
            case "cut":
                self._answer(200, answer[:30], {"Content-Length": str(len(answer))})
                self.close_connection = True
            case frozenset() as put_off:
                self._answer(200, self.server.answers(body, put_off), {})
            case "hung up":
                self.close_connection = True
            case hang if callable(hang):
                hang()
                self.close_connection = True
            case _:
                self._answer(200, answer, {})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[Scripted]:
    with Scripted() as server:
        thread = Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def client_of(port: int, clock: Clock, patience: float = 600.0) -> Client:
    url = f"http://127.0.0.1:{port}/api/v1"
    return Client(Server(url, Secret("t0ken"), 30, patience), clock)


@pytest.mark.requirement("001-03", "001-05")
def test_overload_is_waited_out(api: Scripted, clock: Clock) -> None:
    api.script = [(503, {"Retry-After": "7"}), (429, {"Retry-After": "2"}), (502, {}), CUT, HUNG_UP]
    with client_of(api.server_port, clock) as client:
        answers = client.submit(LINES)
    assert [answer["message_id"] for answer in answers] == ["a", "b"]
    assert api.bodies == [b"\n".join(LINES) + b"\n"] * 6
    assert client.repeated == 5
    assert 7 < clock.waits[0] < 7.5
    assert 2 < clock.waits[1] < 3
    assert all(0 < wait <= LONGEST_WAIT for wait in clock.waits)


def test_clock_of_the_msh_is_asked_for(api: Scripted, clock: Clock) -> None:
    with client_of(api.server_port, clock) as client:
        assert abs(client.server_time() - datetime.now(UTC)) < timedelta(minutes=5)


def test_waits_grow_and_differ(api: Scripted, clock: Clock) -> None:
    api.script = [(503, {})] * 12
    with client_of(api.server_port, clock) as client:
        client.submit(LINES)
    assert clock.waits[-1] > 10 * clock.waits[0]
    assert max(clock.waits) <= LONGEST_WAIT
    assert len(set(clock.waits)) == 12


def test_patience_ends(api: Scripted, clock: Clock) -> None:
    api.script = [(503, {"Retry-After": "20"})] * 10
    with (
        client_of(api.server_port, clock, patience=60) as client,
        pytest.raises(ApiUnavailable, match="answered 503; retryTimeout allows no"),
    ):
        client.submit(LINES)
    assert sum(clock.waits) <= 60
    assert len(clock.waits) == 2


def test_patience_counts_the_time_of_the_tries(api: Scripted, clock: Clock) -> None:
    """Each hangs until its connection counts as lost."""

    def hang() -> None:
        clock.now += 30

    api.script = [hang] * 10
    with (
        client_of(api.server_port, clock, patience=60) as client,
        pytest.raises(ApiUnavailable, match="retryTimeout allows no further wait"),
    ):
        client.submit(LINES)
    assert len(api.bodies) == 2


def test_address_of_something_else(api: Scripted, clock: Clock) -> None:
    with (
        client_of(api.server_port, clock) as client,
        pytest.raises(ApiRefused, match="answered no JSON: is it the address of an MSH"),
    ):
        client.get("inbound")


def test_nobody_listens(clock: Clock) -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (
        client_of(port, clock, patience=1) as client,
        pytest.raises(ApiUnavailable, match=r"was lost: .*Connection refused"),
    ):
        client.submit(LINES)


@pytest.mark.requirement("001-04")
@pytest.mark.parametrize("status", [400, 401, 403, 409, 413, 415, 422])
def test_refusal_is_not_tried_again(api: Scripted, clock: Clock, status: int) -> None:
    api.script = [(status, {})]
    with (
        client_of(api.server_port, clock) as client,
        pytest.raises(ApiRefused, match=f"answered {status}: the script says so"),
    ):
        client.submit(LINES)
    assert (len(api.bodies), clock.waits) == (1, [])


def test_refusal_before_all_is_sent_is_seen(api: Scripted, clock: Clock) -> None:
    """The server closes the connection in the middle of the body."""
    api.script = [REFUSED_UNREAD]
    with (
        client_of(api.server_port, clock) as client,
        pytest.raises(ApiRefused, match="answered 401: unread"),
    ):
        client.submit([b" " * 20_000_000])
    assert clock.waits == []


@pytest.mark.requirement("001-02", "001-05")
def test_partner_that_is_closed_is_waited_for(api: Scripted, clock: Clock) -> None:
    lines = [b'{"message_id": "%s"}' % name for name in (b"a", b"b", b"c")]
    api.script = [frozenset("ac"), CUT, frozenset("c")]
    with client_of(api.server_port, clock) as client:
        answers = client.submit(lines)
    assert [(answer["message_id"], answer["result"]) for answer in answers] == [
        *[("a", "accepted"), ("b", "accepted"), ("c", "accepted")],
    ]
    later = b"\n".join((lines[0], lines[2])) + b"\n"
    assert api.bodies == [b"\n".join(lines) + b"\n", later, later, lines[2] + b"\n"]
    assert client.repeated == 3
    assert len(clock.waits) == 3


def test_partner_that_stays_closed(api: Scripted, clock: Clock) -> None:
    api.script = [frozenset("b")] * 100
    with (
        client_of(api.server_port, clock, patience=60) as client,
        pytest.raises(ApiUnavailable, match="acme is closed; retryTimeout allows no"),
    ):
        client.submit(LINES)
    assert 30 < sum(clock.waits) <= 60


def test_partner_that_is_closed_may_be_set_aside_or_fail(api: Scripted, clock: Clock) -> None:
    """Others are not kept waiting by it."""
    api.script = [frozenset("b"), frozenset("b")]
    with client_of(api.server_port, clock) as client:
        answers = client.submit(LINES, on_closed="setAside")
        assert [answer["result"] for answer in answers] == ["accepted", "not_now"]
        with pytest.raises(PartnerClosed, match="partner acme is closed"):
            client.submit(LINES, on_closed="fail")
    assert clock.waits == []


def test_token_that_was_replaced_is_read_again(api: Scripted, clock: Clock, tmp_path: Path) -> None:
    """Once for each request: a file with a wrong token is no reason to go on."""
    file = tmp_path / "token"
    file.write_text("old")
    given = {"url": f"http://127.0.0.1:{api.server_port}", "tokenFile": str(file)}
    # As a task has it.
    server = pickle.loads(pickle.dumps(read_options(given, stream=True).server))
    api.script = [(401, {})]
    with Client(server, clock) as client:
        file.write_text("new\n")
        client.submit(LINES)
        assert api.tokens == ["old", "new"]
        api.script = [(401, {}), (401, {})]
        with pytest.raises(ApiRefused, match="answered 401"):
            client.submit(LINES)
        file.unlink()
        api.script = [(401, {})]
        with pytest.raises(ApiRefused, match="answered 401"):
            client.submit(LINES)
    assert api.tokens == ["old", "new", "new", "new"]
    assert clock.waits == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:{closed}", "Connection refused"),
        ("http://no-such-host.invalid", "was lost"),
        ("https://127.0.0.1:{port}", "was lost"),
        ("http://127.0.0.1:{port}", "answered no JSON: is it the address of an MSH"),
    ],
)
def test_a_wrong_address_is_found_on_the_driver(api: Scripted, url: str, said: str) -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    server = Server(url.format(port=api.server_port, closed=closed), Secret("t0ken"), 120, 1)
    with pytest.raises((ApiRefused, ApiUnavailable), match=said) as raised:
        require_reachable(server, "send")
    if isinstance(raised.value, ApiUnavailable):
        assert "Check option url: host, port, scheme and certificate." in str(raised.value)
        assert "retryTimeout" not in str(raised.value)


def test_a_token_without_the_scope_is_found_on_the_driver(api: Scripted) -> None:
    server = Server(f"http://127.0.0.1:{api.server_port}", Secret("t0ken"), 120, 1)
    api.document = b'{"name": "spark", "scopes": ["send"]}'
    require_reachable(server, "send")
    with pytest.raises(ApiRefused, match="The token spark has no scope read"):
        require_reachable(server, "read")
    api.status = 401
    with pytest.raises(ApiRefused, match="answered 401"):
        require_reachable(server, "send")


def test_name_and_certificate_that_are_wrong_are_final(api: Scripted, clock: Clock) -> None:
    """They are not tried again, however patient the client is."""
    tries: list[Exception] = []

    def is_final(error: Exception) -> bool:
        tries.append(error)
        return True

    server = Server("http://127.0.0.1:1", Secret("t0ken"), 30, 600)
    with Client(server, clock, is_final=is_final) as client, pytest.raises(ApiUnavailable):
        client.get("token")
    assert (len(tries), clock.waits) == (1, [])
    assert _is_wrong(ssl.SSLCertVerificationError(1, "hostname mismatch"))
    assert _is_wrong(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    assert not _is_wrong(socket.gaierror(socket.EAI_AGAIN, "Temporary failure"))
    assert not _is_wrong(ConnectionRefusedError())


def test_a_stream_that_writes_waits_for_an_msh_that_is_away_but_for_no_wrong_name() -> None:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    away = Server(f"http://127.0.0.1:{closed}", Secret("t0ken"), 120, 600)
    require_reachable(away, "send", must_answer=False)
    wrong = Server("http://no-such-host.invalid", Secret("t0ken"), 120, 600)
    with pytest.raises(ApiUnavailable, match="Check option url"):
        require_reachable(wrong, "send", must_answer=False)
