"""Requests and their answers: whole, in pieces, pipelined, cut, malformed."""

import threading

import pytest

from msh.web import serve
from tests.waiting import wait_until
from tests.web.connection.world import Says, World, chunked, get, post


def test_a_whole_request_is_answered_and_the_connection_is_kept(world: World) -> None:
    client = world.connect()
    for _ in range(2):
        client.send(post(length=4) + b"body")
        answered = client.answer()
        assert (answered.status, answered.body, answered.version) == (204, b"", 11)
    assert world.bodies == [b"body"] * 2


@pytest.mark.parametrize("target", ["/api/a%2Fb%2fc?d=%2F", "http://x/api/a%2Fb%2fc?d=%2F"])
def test_the_request_target_is_there_as_it_was_sent(world: World, target: str) -> None:
    """The encoded slashes of a MessageId are not those of the path."""
    client = world.connect()
    client.send(get(target))
    client.answer()
    (seen,) = world.seen
    assert (seen.path, seen.target) == ("/api/a/b/c", target)


def test_no_thread_is_taken_before_the_body_has_come(world: World) -> None:
    client = world.connect()
    client.send(post(length=4) + b"bo")
    assert world.connect().is_silent()
    assert world.seen == []
    assert world.server.pool.busy == 0
    client.send(b"dy")
    assert client.status() == 204


def test_a_request_that_comes_byte_by_byte_is_whole_in_the_end(world: World) -> None:
    client = world.connect()
    for byte in post(length=4) + b"body":
        client.send(bytes([byte]))
    assert (client.status(), world.bodies) == (204, [b"body"])


def test_pipelined_requests_are_answered_in_order(world: World) -> None:
    world.answer = lambda seen: Says("200 OK", pieces=[seen.body or b""])
    client = world.connect()
    client.send(b"".join(post(length=2) + b"%2d" % n for n in range(50)) + post(length=4) + b"la")
    bodies = [client.answer().body for _ in range(50)]
    client.send(b"st")
    assert [*bodies, client.answer().body] == [*(b"%2d" % n for n in range(50)), b"last"]


def test_pipelined_requests_do_not_fill_the_memory(world: World) -> None:
    """What comes while a request is answered stays with the client."""
    world.answer = lambda seen: Says("200 OK", pieces=[b"x" * 60_000])
    client = world.connect(buffer=4096)
    client.socket.settimeout(1)
    with pytest.raises(TimeoutError):
        client.send((post(length=1000) + b"x" * 1000) * 50_000)
    assert world.connections == 1


@pytest.mark.parametrize(
    ("head", "part", "came"),
    [(post(length=10), b"half", 4), (chunked(), b"4\r\nhalf\r\n", 4), (chunked(), b"", 0)],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_body_that_ends_early_is_no_request(
    world: World, head: bytes, part: bytes, came: int, *, at_once: bool
) -> None:
    client = world.connect()
    if at_once:
        client.send(head + part)
    else:
        client.send(head)
        client.send(part)
    client.end()
    answered = client.answer()
    assert (answered.status, answered.reason) == (400, f"the body ended after {came} bytes")
    assert (client.rest(), world.seen) == (b"", [])


@pytest.mark.parametrize("wrong", [b"x\r\nhalf\r\n", b"4\r\nhalfGET / HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_a_body_whose_chunks_are_malformed_is_no_request(world: World, wrong: bytes) -> None:
    client = world.connect()
    client.send(chunked() + b"4\r\ngood\r\n")
    wait_until(lambda: world.server.room.free("memory") == 10_000_000 - 4)
    client.send(wrong)
    answered = client.answer()
    assert (answered.status, world.seen) == (400, [])
    assert answered.reason.startswith("its chunks are malformed after ")
    assert client.rest() == b""


def test_live_is_answered_without_a_thread(world: World) -> None:
    client = world.connect()
    client.send(get("/health/live"))
    answered = client.answer()
    assert (answered.status, answered.body, world.seen) == (200, b'{"live": true}', [])


@pytest.mark.parametrize(
    ("version", "line", "is_kept"),
    [
        ("1.1", "X: y", True),
        ("1.1", "Connection: close", False),
        ("1.0", "X: y", False),
        ("1.0", "Connection: keep-alive", True),
    ],
)
@pytest.mark.parametrize("path", ["/health/live", "/other"])
def test_a_connection_is_kept_as_the_client_asks(
    world: World, version: str, line: str, path: str, *, is_kept: bool
) -> None:
    client = world.connect()
    client.send(get(path, line, version=version))
    answered = client.answer()
    if is_kept:
        client.send(get(path, line, version=version))
        assert client.status() == answered.status
    else:
        assert client.rest() == b""
        assert version == "1.0" or answered.headers["Connection"] == "close"


def test_head_has_the_length_and_no_body(world: World) -> None:
    client = world.connect()
    for size in (10, 1_000_000):
        pieces = [b"x" * size]
        world.answer = lambda _, pieces=pieces: Says("200 OK", pieces=pieces)  # type: ignore[misc]
        client.send(get(method="HEAD"))
        answered = client.answer("HEAD")
        assert (answered.headers["Content-Length"], answered.body) == (str(size), b"")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
        b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX : y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nbody",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT h:1 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbodyGET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused_and_the_connection_ends(world: World, nonsense: bytes) -> None:
    client = world.connect()
    client.send(nonsense)
    answered = client.answer()
    assert answered.status in (400, 501, 505)
    assert answered.reason
    client.end()
    assert (client.rest(), world.seen) == (b"", [])


@pytest.mark.parametrize("version", ["0.9", "2.0"])
def test_another_version_is_refused(world: World, version: str) -> None:
    client = world.connect()
    client.send(get(version=version))
    client.end()
    assert client.rest().startswith(f"HTTP/{version} 505 ".encode())
    assert world.seen == []


@pytest.mark.parametrize("answer", [True, False])
def test_a_client_that_sends_no_more_gets_its_answers(world: World, *, answer: bool) -> None:
    world.answer = lambda seen: Says("200 OK", pieces=[seen.body or b""])
    client = world.connect()
    client.send(post(length=1) + b"1" + post(length=1) + b"2")
    if answer:
        assert client.answer().body == b"1"
    client.end()
    bodies = [client.answer().body for _ in range(1 if answer else 2)]
    assert (bodies[-1], client.rest()) == (b"2", b"")
    world.wait_until_nothing_is_open()


def test_disconnected_client_is_not_served(world: World) -> None:
    client = world.connect()
    client.send(post(length=4) + b"bo")
    client.close()
    world.wait_until_nothing_is_open()
    assert world.seen == []
    assert world.server.room.free("memory") == 10_000_000


def test_requests_under_way_are_answered_before_the_process_ends(world: World) -> None:
    idle, busy, late = world.connect(), world.connect(), world.connect()
    idle.send(get("/health/live"))
    assert idle.status() == 200

    def answer(_: object) -> Says:
        world.stop()
        assert idle.rest() == b""
        return Says("200 OK", pieces=[b"done"])

    world.answer = answer
    busy.send(get("/work"))
    answered = busy.answer()
    assert (answered.body, answered.headers["Connection"], busy.rest()) == (b"done", "close", b"")
    assert late.rest() == b""


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("plain", "plain"),
        ("two\r\nlines\x00", "two  lines "),
        ("gr\xfcn", "gr\xc3\xbcn"),  # text in ISO 8859-1
        ("gr\xc3\xbcn", "gr\xc3\xbcn"),  # UTF-8, as WSGI gives bytes
    ],
)
def test_a_header_of_an_answer_never_breaks_it(world: World, given: str, sent: str) -> None:
    world.answer = lambda _: Says("200 OK", [("X-MSH-Error", given)])
    client = world.connect()
    client.send(get())
    assert client.answer().reason == sent


def test_an_error_of_the_application_is_answered(world: World) -> None:
    def answer(_: object) -> Says:
        raise ValueError("broken")

    world.answer = answer
    client = world.connect()
    client.send(post(length=4) + b"body")
    assert (client.status(), world.bodies) == (500, [b"body"])


def test_a_request_that_takes_too_long_does_not_keep_the_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "GRACEFUL", 0.2)
    ended = threading.Event()

    def answer(_: object) -> Says:
        world.stop()
        ended.wait(60)
        return Says()

    world.answer = answer
    client = world.connect()
    client.send(get("/work"))
    assert client.rest() == b""
    wait_until(lambda: not world.is_running)
    ended.set()


def test_an_error_of_a_callback_leaves_no_connection(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(world.server.http, "connection_made", fails)
    assert world.connect().rest() == b""
    monkeypatch.undo()
    assert "cannot be served" in caplog.text
    client = world.connect()
    client.send(get("/health/live"))
    assert client.status() == 200
