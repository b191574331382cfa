"""Two processes take connections from one socket."""

import asyncio
import os
import select
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from msh.web import accepting
from msh.web.accepting import Acceptor, Counts
from tests.waiting import children, wait_until
from tests.web import web_process

pytestmark = pytest.mark.django_db(transaction=True)

CONNECTIONS = 10


@pytest.mark.parametrize(
    ("own", "others", "has_more"),
    [
        (0, [0, 0], False),
        (1, [0, 3], True),
        (1, [1, 3], False),
        (9, [8, 8], False),
        (10, [8, 8], True),
        (90, [80, 99], False),
        (91, [79, 99], True),
    ],
)
def test_who_has_more_than_its_share(own: int, others: list[int], has_more: bool) -> None:
    counts = Counts(3)
    for place, number in enumerate([own, *others]):
        counts.note(place, number)
    assert counts.has_more(0) is has_more


def test_process_that_has_ended_gets_no_connections() -> None:
    counts = Counts(2)
    counts.note(0, 5)
    assert not counts.has_more(0)
    counts.note(1, 0)
    assert counts.has_more(0)
    counts.note_end(1)
    assert not counts.has_more(0)


@pytest.fixture(scope="module")
def web(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, list[int]]]:
    """The port, and both processes."""
    with web_process(tmp_path_factory.mktemp("web"), workers=2, threads=2) as port:
        (parent,) = [pid for pid in children(os.getpid()) if f"--port\0{port}" in command(pid)]
        wait_until(lambda: len(children(parent)) == 2)
        yield port, children(parent)


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@contextmanager
def connections(port: int) -> Iterator[list[HTTPConnection]]:
    """Each has had an answer, and stays open."""
    with ExitStack() as stack:
        opened = []
        for _ in range(CONNECTIONS):
            one = HTTPConnection("127.0.0.1", port, timeout=30)
            stack.callback(one.close)
            one.request("GET", "/health/live")
            assert one.getresponse().read()
            opened.append(one)
        yield opened


def test_each_takes_some(web: tuple[int, list[int]]) -> None:
    """As soon as both have begun."""
    port, processes = web

    def shares() -> list[int]:
        with connections(port):
            return [open_connections(pid, port) for pid in processes]

    wait_until(lambda: min(shares()) > 0)


def test_shares_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two acceptors of one loop: what one leaves, the other takes."""
    monkeypatch.setattr(accepting, "PATIENCE", 600.0)
    loop, counts = asyncio.new_event_loop(), Counts(2)
    listener = socket.create_server(("127.0.0.1", 0), backlog=50)
    listener.setblocking(False)
    others = listener.dup()
    taken = [0, 0]

    def acceptor_of(place: int, socket_: socket.socket) -> Acceptor:
        def make() -> asyncio.Protocol:
            taken[place] += 1
            counts.note(place, taken[place])
            return Closing()

        return Acceptor(socket_, counts, place, make, loop)

    acceptors = [acceptor_of(0, listener), acceptor_of(1, others)]

    async def connect() -> None:
        for number in range(CONNECTIONS):
            with socket.create_connection(listener.getsockname()):
                while sum(taken) <= number:  # noqa: ASYNC110  the loop has to run
                    await asyncio.sleep(0.0005)
        await asyncio.gather(*acceptors[0]._starting, *acceptors[1]._starting)

    for one in acceptors:
        one.start()
    loop.run_until_complete(asyncio.wait_for(connect(), 30))
    for one in acceptors:
        one.stop()
    loop.close()
    listener.close()
    others.close()
    assert taken == [5, 5]


class Closing(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.abort()  # type: ignore[attr-defined]


def test_process_that_stands_still_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(2)
    counts.note(0, 5)
    counts.note(1, 0)
    loop = asyncio.new_event_loop()
    listener = socket.create_server(("127.0.0.1", 0), backlog=50)
    listener.setblocking(False)
    acceptor = Acceptor(listener, counts, 0, Closing, loop)
    acceptor.start()
    counts.note(0, 5)
    waits: list[float] = []
    look_again = acceptor._look_again

    def noted(offered_at: float) -> None:
        waits.append(offered_at)
        look_again(offered_at)

    monkeypatch.setattr(acceptor, "_look_again", noted)
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(socket.create_connection(listener.getsockname()))

        async def accepted() -> None:
            while select.select([listener], [], [], 0)[0]:  # noqa: ASYNC110  the loop has to run
                await asyncio.sleep(0.001)
            await asyncio.gather(*acceptor._starting)

        loop.run_until_complete(asyncio.wait_for(accepted(), 30))
        acceptor.stop()
    loop.close()
    listener.close()
    assert len(set(waits)) == 1


def test_process_that_stands_still_stops_nobody(web: tuple[int, list[int]]) -> None:
    port, (still, other) = web
    wait_until(lambda: open_connections(still, port) == 0)
    os.kill(still, signal.SIGSTOP)
    try:
        with connections(port):
            assert open_connections(other, port) == CONNECTIONS
    finally:
        os.kill(still, signal.SIGCONT)


def open_connections(pid: int, port: int) -> int:
    """Those of clients that this process has accepted."""
    established = {
        fields[9]
        for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
        if fields[3] == "01" and int(fields[1].split(":")[1], 16) == port
    }
    return sum(f"socket:[{inode}]" in links_of(pid) for inode in established)


def links_of(pid: int) -> list[str]:
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return found
