"""Large answers, and bodies that are still being made."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from queue import SimpleQueue

import pytest

from msh.web import serve
from msh.web.limits import Limits
from tests.waiting import wait_until
from tests.web.connection.world import LIMITS, Client, Says, World, get, post

LARGE = 20_000_000
"""Bytes that no buffer of the system takes."""
DEMANDING = replace(LIMITS, rate=LARGE)
"""The buffers of the system take some of an answer at once."""
LAST = b"0\r\n\r\n"


def large(_: object) -> Says:
    return Says("200 OK", pieces=[b"x" * 1_000_000] * (LARGE // 1_000_000))


def test_a_client_that_does_not_read_is_given_up(make_world: Callable[[Limits], World]) -> None:
    world = make_world(DEMANDING)
    world.answer = large
    client = world.connect(buffer=4096)
    client.send(get())
    wait_until(lambda: len(world.seen) == 1)
    world.wait_until_nothing_is_open()
    assert world.server.pool.busy == 0
    assert client.is_reset()
    # The task that sends gives its place back after the connection has gone.
    wait_until(lambda: world.server.room.free("disk") == LIMITS.disk)


def test_a_client_that_reads_slowly_gets_all_of_it(world: World) -> None:
    """It takes longer than the grace, and no thread."""
    world.answer = large
    client = world.connect(buffer=65536)
    client.send(get())
    began, size = time.monotonic(), 0
    while piece := client.socket.recv(250_000):
        size += len(piece)
        time.sleep(0.02)
        if size > LARGE:
            break
    assert time.monotonic() - began > LIMITS.grace
    assert world.server.pool.busy == 0
    client.send(get("/health/live"))
    assert client.status() == 200


class Made:
    """Pieces of a body as the test makes them: None is its end, an exception its failure."""

    def __init__(self, world: World) -> None:
        self.queue: SimpleQueue[bytes | Exception | None] = SimpleQueue()
        self.says = Says("200 OK", pieces=self._pieces(), streams=True)
        world.answer = lambda _: self.says

    def _pieces(self) -> Iterator[bytes | Exception]:
        while (piece := self.queue.get()) is not None:
            yield piece


def read_until(client: Client, end: bytes) -> bytes:
    read = b""
    while not read.endswith(end):
        byte = client._file.read(1)
        if not byte:
            break
        read += byte
    return read


@pytest.fixture
def made(world: World) -> Iterator[Made]:
    made = Made(world)
    yield made
    made.queue.put(None)


def test_what_is_made_of_a_body_is_sent_at_once(world: World, made: Made) -> None:
    client = world.connect()
    client.send(get("/admin/rows/"))
    made.queue.put(b"a" * 26)
    head = read_until(client, b"\r\n\r\n")
    assert b"Transfer-Encoding: chunked" in head
    assert read_until(client, b"aa\r\n") == b"1a\r\n" + b"a" * 26 + b"\r\n"
    made.queue.put(b"more")
    made.queue.put(None)
    assert read_until(client, LAST) == b"4\r\nmore\r\n" + LAST
    wait_until(lambda: world.server.room.free("disk") == LIMITS.disk)
    world.answer = lambda _: Says()
    client.send(post(length=4) + b"body")
    assert client.status() == 204


def test_a_stream_to_an_old_client_ends_with_its_connection(world: World, made: Made) -> None:
    client = world.connect()
    client.send(get("/admin/rows/", version="1.0"))
    made.queue.put(b"a" * 26)
    made.queue.put(None)
    assert client.rest().endswith(b"\r\n\r\n" + b"a" * 26)


def test_the_head_of_a_stream_has_no_chunks(world: World, made: Made) -> None:
    client = world.connect()
    client.send(get("/admin/rows/", method="HEAD"))
    made.queue.put(b"first")
    assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
    made.queue.put(b"for nobody")
    assert made.says.closed.wait(30)
    client.send(get("/health/live"))
    assert client.status() == 200


def test_a_connection_ends_with_an_answer_that_began_before_the_stop(
    world: World, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head has said that the connection is kept. The process is not to wait for it."""
    monkeypatch.setattr(serve, "GRACEFUL", 600.0)
    client = world.connect()
    client.send(get("/admin/rows/"))
    made.queue.put(b"a")
    assert b"Connection: close" not in read_until(client, b"\r\n\r\n")
    world.stop()
    wait_until(lambda: world.server.has_ended)
    made.queue.put(None)
    assert client.rest() == b"1\r\na\r\n" + LAST
    wait_until(lambda: not world.is_running)


@pytest.mark.parametrize("pieces", [[], [b"a" * 10], [b"a" * 300_000]])
def test_a_stream_that_fails_is_broken_off(world: World, made: Made, pieces: list[bytes]) -> None:
    """Its last chunk is missing, so that nobody takes it for the whole. Before its first piece the
    failure can be answered."""
    for piece in pieces:
        made.queue.put(piece)
    made.queue.put(RuntimeError("broken"))
    client = world.connect()
    client.send(get("/admin/rows/"))
    if pieces:
        assert not client.rest().endswith(LAST)
        world.wait_until_nothing_is_open()
    else:
        assert client.status() == 500


def test_a_file_that_is_shorter_than_announced_is_broken_off(world: World) -> None:
    world.answer = lambda _: Says("200 OK", [("Content-Length", "300000")], pieces=[b"x" * 200_000])
    client = world.connect()
    client.send(get())
    assert len(client.rest()) < 300_000
    world.wait_until_nothing_is_open()


def test_nothing_more_is_made_for_who_has_gone(world: World, made: Made) -> None:
    client = world.connect()
    client.send(get("/admin/rows/"))
    made.queue.put(b"first")
    read_until(client, b"first")
    client.close()

    def has_ended() -> bool:
        made.queue.put(b"more")
        return made.says.closed.is_set()

    wait_until(has_ended)
    world.wait_until_nothing_is_open()
    wait_until(lambda: world.server.room.free("disk") == LIMITS.disk)


def test_a_body_that_is_made_slowly_is_waited_for(world: World, made: Made) -> None:
    """The client is not to blame."""
    client = world.connect()
    client.send(get("/admin/rows/"))
    made.queue.put(b"first")

    def end() -> None:
        made.queue.put(b"last")
        made.queue.put(None)

    threading.Timer(3 * LIMITS.grace, end).start()
    assert read_until(client, LAST).endswith(b"4\r\nlast\r\n" + LAST)


def test_a_client_that_does_not_read_a_stream_is_given_up(
    make_world: Callable[[Limits], World],
) -> None:
    world = make_world(DEMANDING)
    made = Made(world)
    client = world.connect(buffer=4096)
    client.send(get("/admin/rows/"))
    for _ in range(LARGE // 1_000_000):
        made.queue.put(b"x" * 1_000_000)
    made.queue.put(None)
    world.wait_until_nothing_is_open()
    assert client.is_reset()
