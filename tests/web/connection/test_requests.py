"""Requests and their answers: whole, in pieces, pipelined, cut, malformed."""

import pytest

from msh.web.connection import Phase
from tests.web.connection.world import World, large, post, status_of


def test_a_whole_request_is_answered_and_the_connection_is_kept(world: World) -> None:
    connection, transport = world.connect()
    for _ in range(2):
        connection.data_received(post(length=4) + b"body")
        world.work()
    assert world.bodies == [b"body"] * 2
    assert transport.written.count(b"HTTP/1.1 204 No Content\r\n") == 2
    assert connection.phase is Phase.IDLE
    assert not transport.is_closed


def test_no_thread_is_taken_before_the_body_has_come(world: World) -> None:
    connection, _ = world.connect()
    connection.data_received(post(length=4))
    connection.data_received(b"bo")
    assert world.jobs == []
    connection.data_received(b"dy")
    assert len(world.jobs) == 1


def test_a_request_that_comes_byte_by_byte_is_whole_in_the_end(world: World) -> None:
    connection, transport = world.connect()
    for byte in post(length=4) + b"body":
        connection.data_received(bytes([byte]))
    world.work()
    assert world.bodies == [b"body"]
    assert status_of(transport) == 204


def test_pipelined_requests_are_answered_in_order(world: World) -> None:
    connection, transport = world.connect()
    connection.data_received(b"".join(post(length=1) + str(n).encode() for n in range(5)))
    connection.data_received(post(length=4) + b"la")
    assert not transport.is_reading
    world.work()
    connection.data_received(b"st")
    world.work()
    assert world.bodies == [b"0", b"1", b"2", b"3", b"4", b"last"]
    assert transport.written.count(b"204 No Content") == 6


def test_a_body_that_ends_early_is_no_request(world: World) -> None:
    connection, transport = world.connect()
    connection.data_received(post(length=10) + b"half")
    connection.eof_received()
    assert (status_of(transport), world.jobs) == (400, [])
    assert b"X-MSH-Error: the body ended after 4 bytes\r\n" in transport.written


def test_a_chunked_body_that_is_cut_is_no_request(world: World) -> None:
    connection, transport = world.connect()
    head = post().replace(b"Content-Length: 10", b"Transfer-Encoding: chunked")
    connection.data_received(head + b"4\r\nhalf\r\n")
    connection.eof_received()
    assert (status_of(transport), world.bodies) == (400, [])


def test_live_is_answered_without_a_thread(world: World) -> None:
    connection, transport = world.connect()
    connection.data_received(b"GET /health/live HTTP/1.1\r\n\r\n")
    assert world.jobs == []
    assert transport.written.endswith(b'\r\n\r\n{"live": true}')


@pytest.mark.parametrize(
    ("version", "connection_header", "is_kept"),
    [
        ("1.1", "", True),
        ("1.1", "Connection: close\r\n", False),
        ("1.0", "", False),
        ("1.0", "Connection: keep-alive\r\n", True),
    ],
)
def test_a_connection_is_kept_as_the_client_asks(
    world: World, version: str, connection_header: str, *, is_kept: bool
) -> None:
    connection, transport = world.connect()
    connection.data_received(f"GET /health/live HTTP/{version}\r\n{connection_header}\r\n".encode())
    assert transport.is_closed is not is_kept
    assert (b"Connection: close" in transport.written) is not is_kept


def test_head_has_the_length_and_no_body(world: World) -> None:
    world.answer = large
    connection, transport = world.connect()
    connection.data_received(b"HEAD / HTTP/1.1\r\n\r\n")
    world.work()
    assert b"Content-Length: 1000000\r\n" in transport.written
    assert transport.written.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    ],
)
def test_request_that_is_not_http_is_refused(world: World, nonsense: bytes) -> None:
    connection, transport = world.connect()
    connection.data_received(nonsense)
    assert (status_of(transport), world.jobs) == (400, [])


def test_an_offered_upgrade_is_not_taken(world: World) -> None:
    connection, transport = world.connect()
    upgrade = b"GET /health/live HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    connection.data_received(upgrade + b"GET /health/live HTTP/1.1\r\n\r\n")
    assert transport.written.count(b"HTTP/1.1 200 OK") == 2


def test_disconnected_client_is_not_served(world: World) -> None:
    connection, _ = world.connect()
    connection.data_received(post(length=4) + b"body")
    connection.connection_lost(None)
    world.work()
    assert world.bodies == []
