"""Connections are shared evenly among the processes that accept them from one socket."""

import asyncio
import errno
import logging
import mmap
import select
import socket
from collections.abc import Callable

logger = logging.getLogger(__name__)

BACKLOG = 2048
"""Connections that the kernel keeps for us to accept."""
TURN = 0.001  # seconds between two looks at a connection that is left to another process
PATIENCE = 0.02
"""Seconds for which a connection is left to processes that have fewer: they may be busy."""
PAUSE = 0.1  # seconds until the next try when the system gives us no connection
_ABSENT = 1 << 62


class Counts:
    """The number of connections of each web process, in shared memory. It is made before the
    processes fork. Each process writes only its own number; the parent writes that of a process
    that has ended."""

    def __init__(self, processes: int) -> None:
        self._numbers = memoryview(mmap.mmap(-1, 8 * processes)).cast("q")
        for place in range(processes):
            self.note_end(place)

    def note(self, place: int, connections: int) -> None:
        self._numbers[place] = connections

    def note_end(self, place: int) -> None:
        self._numbers[place] = _ABSENT

    def of_others(self, place: int) -> tuple[int, ...]:
        return (*self._numbers[:place], *self._numbers[place + 1 :])

    def has_more(self, place: int) -> bool:
        """Whether this process has more than its share: one more than another that has few, or an
        eighth more."""
        own = self._numbers[place]
        return own - min(self._numbers) > own // 8


class Acceptor:
    """Accepts for one process. The kernel would distribute connections at random: of four, all go
    to one of two processes each eighth time, while the other has nothing to do."""

    def __init__(
        self,
        listener: socket.socket,
        counts: Counts,
        place: int,
        make: Callable[[], asyncio.Protocol],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._listener = listener
        self._counts = counts
        self._place = place
        self._make = make
        self._loop = loop
        self._starting: set[asyncio.Task[object]] = set()
        self._passed: tuple[int, ...] = ()
        """The counts of the others when a connection was last left to them in vain: as long as they
        are the same, none is."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._counts.note(self._place, 0)
        self._listener.listen(BACKLOG)
        self._loop.add_reader(self._listener, self._offer)

    def stop(self) -> None:
        """The socket stays open for the other processes."""
        self._counts.note_end(self._place)
        self._loop.remove_reader(self._listener)
        if self._timer:
            self._timer.cancel()

    def note(self, connections: int) -> None:
        """This process has so many now."""
        self._counts.note(self._place, connections)

    def _leaves_it(self) -> bool:
        """Whether a connection is left to others."""
        return (
            self._counts.has_more(self._place)
            and self._counts.of_others(self._place) != self._passed
        )

    def _offer(self) -> None:
        if self._leaves_it():
            self._loop.remove_reader(self._listener)
            self._look_again(self._loop.time())
        else:
            self._accept()

    def _look_again(self, offered_at: float) -> None:
        self._timer = self._loop.call_later(TURN, self._reconsider, offered_at)

    def _reconsider(self, offered_at: float) -> None:
        """Somebody still waits that was offered to others: those may be too busy."""
        is_offered = bool(select.select([self._listener], [], [], 0)[0])
        is_patient = self._loop.time() - offered_at < PATIENCE
        if is_offered and is_patient and self._leaves_it():
            self._look_again(offered_at)
            return
        if is_offered and not is_patient:
            self._passed = self._counts.of_others(self._place)
        self._loop.add_reader(self._listener, self._offer)
        if is_offered:
            self._accept()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another process took it, or it is gone
            return
        except OSError as problem:
            if problem.errno == errno.EINVAL:  # the parent has closed it: this process ends too
                self._loop.remove_reader(self._listener)
                return
            logger.error("no connection can be accepted for %s s: %s", PAUSE, problem)
            self._loop.remove_reader(self._listener)
            self._timer = self._loop.call_later(
                PAUSE, self._loop.add_reader, self._listener, self._offer
            )
            return
        connection.setblocking(False)
        task = self._loop.create_task(self._connect(connection))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _connect(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except Exception:  # a client that has gone raises none
            logger.exception("a connection that was accepted is closed")
            connection.close()
