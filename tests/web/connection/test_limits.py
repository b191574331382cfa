"""How long and how large heads, bodies and trailers may be."""

import pytest

from msh.web.connection import Phase
from msh.web.parsing import HEAD_LIMIT, Parser
from msh.web.spool import Room
from tests.web.connection.world import LIMITS, World, post, status_of


def test_a_body_that_drips_is_given_up_after_the_grace(world: World) -> None:
    connection, transport = world.connect()
    connection.data_received(post(length=1000))
    for _ in range(int(LIMITS.grace) + 1):
        connection.data_received(b"a")
        world.pass_time(1, connection)
    assert status_of(transport) == 408
    assert b"X-MSH-Error: " in transport.written
    assert world.jobs == []


def test_an_honest_body_over_a_slow_line_may_take_long(world: World) -> None:
    size = 50 * LIMITS.rate
    connection, transport = world.connect()
    connection.data_received(post(length=size))
    for _ in range(50):
        connection.data_received(b"x" * LIMITS.rate)
        world.pass_time(1.2, connection)
    world.work()
    assert status_of(transport) == 204
    assert len(world.bodies[0]) == size


def test_a_head_that_never_ends_is_given_up(world: World) -> None:
    connection, transport = world.connect()
    for _ in range(int(LIMITS.head) + 1):
        connection.data_received(b"G" if connection.phase is not Phase.HEAD else b"E")
        world.pass_time(1, connection)
    assert transport.is_closed or status_of(transport) in (400, 408)


def test_silent_client_is_disconnected(world: World) -> None:
    connection, transport = world.connect()
    world.pass_time(LIMITS.head + 1, connection)
    assert transport.is_aborted


def test_a_head_without_limit_is_refused(world: World) -> None:
    connection, transport = world.connect()
    connection.data_received(b"GET / HTTP/1.1\r\n")
    for _ in range(2000):
        connection.data_received(b"X-A: " + b"a" * 95 + b"\r\n")
    assert status_of(transport) == 431


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_head_over_the_limit_is_refused_however_it_comes(world: World, pieces: int) -> None:
    """Also whole in one piece."""
    connection, transport = world.connect()
    head = b"GET / HTTP/1.1\r\nX-A: " + b"a" * HEAD_LIMIT + b"\r\n\r\n"
    for start in range(0, len(head), -(-len(head) // pieces)):
        connection.data_received(head[start : start + -(-len(head) // pieces)])
    assert status_of(transport) == 431


@pytest.mark.parametrize("size", [100, HEAD_LIMIT + 1])
@pytest.mark.parametrize("lines", [1, 1000])
@pytest.mark.parametrize("pieces", [1, 20])
def test_a_trailer_over_the_limit_is_refused_however_it_comes(
    world: World, size: int, lines: int, pieces: int
) -> None:
    """A single line too, which has no end. One within the limit is thrown away."""
    connection, transport = world.connect()
    head = post().replace(b"Content-Length: 10", b"Transfer-Encoding: chunked")
    connection.data_received(head + b"4\r\nhalf\r\n0\r\n")
    trailer = (b"X-A: " + b"a" * (size // lines) + b"\r\n") * lines
    if size < HEAD_LIMIT:
        trailer += b"\r\n"
    step = -(-len(trailer) // pieces)
    for start in range(0, len(trailer), step):
        connection.data_received(trailer[start : start + step])
    world.work()
    taken = size < HEAD_LIMIT
    assert (status_of(transport), world.bodies) == ((204, [b"half"]) if taken else (431, []))


@pytest.mark.parametrize("line", [b"X-A: " + b"a" * 995 + b"\r\n", b"a" * 1000])
@pytest.mark.parametrize("pieces", [1, 200])
def test_the_head_after_a_whole_request_has_a_limit_too(line: bytes, pieces: int) -> None:
    parser = Parser(("192.0.2.1", 4711), ("192.0.2.9", 8000), Room(memory=0, disk=0))
    parser.feed(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    head = b"GET / HTTP/1.1\r\n" + (b"X-B: " if line.startswith(b"a") else b"") + line * 200
    for start in range(0, len(head), len(head) // pieces):
        parser.feed(head[start : start + len(head) // pieces])
        if parser.refused:
            break
    assert (len(parser.whole), getattr(parser.refused, "status", 0)) == (1, 431)


def test_a_body_may_follow_a_head_that_is_almost_too_long(world: World) -> None:
    connection, transport = world.connect()
    head = post("/ebxml/", 10, "X-A: " + "a" * (HEAD_LIMIT - 200))
    head = head.replace(b"Content-Length: 10", b"Transfer-Encoding: chunked")
    connection.data_received(head)
    for byte in b"4;" + b"e" * 300 + b"\r\nbody\r\n0\r\n\r\n":
        connection.data_received(bytes([byte]))
    world.work()
    assert (status_of(transport), world.bodies) == (204, [b"body"])
