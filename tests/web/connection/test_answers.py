"""Large answers, and bodies that are still being made."""

import pytest

from msh.web.answer import Answer
from msh.web.connection import Connection, Phase
from msh.web.stream import GoneError, Stream
from tests.web.connection.world import LIMITS, Transport, World, large, post, status_of


def test_a_client_that_does_not_read_is_given_up(world: World) -> None:
    world.answer = large
    connection, transport = world.connect()
    transport.reads = False
    connection.data_received(b"GET / HTTP/1.1\r\n\r\n")
    world.work()
    assert transport.waiting < 200_000
    assert world.jobs == []
    world.pass_time(LIMITS.grace - 1, connection)
    assert not transport.is_aborted
    world.pass_time(1, connection)
    assert transport.is_aborted


def test_a_client_that_reads_slowly_gets_all_of_it(world: World) -> None:
    world.answer = large
    connection, transport = world.connect()
    transport.reads = False
    connection.data_received(b"GET / HTTP/1.1\r\n\r\n")
    world.work()
    for _ in range(16):  # pieces of 64 KiB
        assert connection.phase is Phase.ANSWER
        transport.waiting = 0
        world.pass_time(8, connection)
        connection.resume_writing()
    assert transport.written.endswith(b"x" * 1_000_000)
    assert (connection.phase, transport.is_aborted) == (Phase.IDLE, False)


GET = b"GET /admin/rows/ HTTP/1.1\r\nHost: x\r\n\r\n"


def streaming(world: World, ask: bytes = GET) -> tuple[Stream, Connection, Transport]:
    stream = Stream(world.room)
    stream.add(b"a" * 26)
    world.answer = lambda _: Answer("200 OK", [], stream=stream)
    connection, transport = world.connect()
    connection.data_received(ask)
    world.work()
    world.streams.append(stream)
    return stream, connection, transport


def test_what_is_made_of_a_body_is_sent_at_once(world: World) -> None:
    stream, connection, transport = streaming(world)
    head, _, body = transport.written.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    assert body == b"1a\r\n" + b"a" * 26 + b"\r\n"
    stream.add(b"more")
    stream.end()
    assert transport.written.endswith(body + b"4\r\nmore\r\n0\r\n\r\n")
    assert (connection.phase, transport.is_closed) == (Phase.IDLE, False)
    assert world.room.free("disk") == LIMITS.disk
    world.answer = lambda _: Answer("204 No Content", [])
    connection.data_received(post(length=4) + b"body")
    world.work()
    assert status_of(transport) == 204


def test_a_stream_to_an_old_client_ends_with_its_connection(world: World) -> None:
    stream, _, transport = streaming(world, GET.replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert transport.written.endswith(b"\r\n\r\n" + b"a" * 26)
    ended = [transport.is_closed]
    stream.end()
    assert [*ended, transport.is_closed, transport.is_aborted] == [False, True, False]


def test_the_head_of_a_stream_has_no_chunks(world: World) -> None:
    stream, connection, transport = streaming(world, GET.replace(b"GET", b"HEAD"))
    assert transport.written.endswith(b"\r\n\r\n")
    assert connection.phase is Phase.IDLE
    with pytest.raises(GoneError):
        stream.add(b"for nobody")


def test_a_stream_that_fails_is_broken_off(world: World) -> None:
    """Its last chunk is missing, so that nobody takes it for the whole."""
    stream, _, transport = streaming(world)
    stream.end(failed=True)
    assert transport.is_aborted
    assert not transport.written.endswith(b"0\r\n\r\n")


def test_a_stream_that_fails_before_its_first_byte_is_sent_is_broken_off(world: World) -> None:
    stream = Stream(world.room)
    world.streams.append(stream)
    stream.end(failed=True)
    world.answer = lambda _: Answer("200 OK", [], stream=stream)
    connection, transport = world.connect()
    connection.data_received(GET)
    world.work()
    assert transport.is_aborted


def test_nothing_more_is_made_for_who_has_gone(world: World) -> None:
    stream, connection, _ = streaming(world)
    connection.connection_lost(None)
    with pytest.raises(GoneError):
        stream.add(b"more")
    assert world.room.free("disk") == LIMITS.disk


def test_a_body_that_is_made_slowly_is_waited_for(world: World) -> None:
    """The client is not to blame; one that does not read is."""
    stream, connection, transport = streaming(world)
    aborted = []
    for _ in range(5):
        world.pass_time(LIMITS.grace + 1, connection)
        aborted.append(transport.is_aborted)
    assert aborted == [False] * 5
    transport.reads = False
    stream.add(b"more")
    world.pass_time(LIMITS.grace + 1, connection)
    assert transport.is_aborted


def test_a_stream_is_as_fast_as_its_client(world: World) -> None:
    stream, connection, transport = streaming(world)
    transport.reads = False
    stream.add(b"b" * 10)
    sent = transport.written
    stream.add(b"c" * 10)
    stream.end()
    assert transport.written == sent
    transport.reads, transport.waiting = True, 0
    connection.resume_writing()
    assert transport.written == sent + b"a\r\n" + b"c" * 10 + b"\r\n0\r\n\r\n"
