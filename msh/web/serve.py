"""One web process: it listens, keeps the time of its connections, and has threads answer."""

import asyncio
import heapq
import logging
import signal
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import uvloop
from aiohttp import HttpVersion11, web

from msh import processes

from .accepting import Acceptor, Counts
from .answer import Answer
from .call import call
from .connection import Connection, Phase
from .exchange import Exchange
from .limits import Limits
from .pool import Pool
from .refusals import Refusals
from .request import Request
from .spool import Room
from .uploads import Uploads

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

logger = logging.getLogger(__name__)

SWEEP = 0.5  # seconds between two looks at deadlines
FILES_BESIDE = 200
"""Open files that are no connections: the database's, bodies in files, modules."""
GRACEFUL = 8.0  # seconds that requests under way have when the process is asked to end


AT_ONCE = 20
"""Connections that are given up when there is place for no more."""
_WAITING = frozenset({Phase.IDLE, Phase.HEAD, Phase.BODY, Phase.UNREAD})


class _Unreadable(web.BaseRequest):
    """Input that could not be read as a request. aiohttp would answer it with HTTP/1.0."""

    version = HttpVersion11


class Server:
    """The state that all connections of a process share."""

    def __init__(
        self,
        application: "WSGIApplication",
        limits: Limits,
        threads: int,
        loop: asyncio.AbstractEventLoop,
        place: int = 0,
    ) -> None:
        self.loop = loop
        self.limits = limits
        self.http = web.Server(self._exchange, request_factory=self._begin, loop=loop)
        self.refusals = Refusals(place)
        self.has_ended = False  # what is under way is answered, and no more
        self.room = Room(limits.memory, limits.disk)
        self.uploads = Uploads(limits)
        self.pool = Pool(threads, loop)
        self._application = application
        self._connections: set[Connection] = set()
        self._acceptor: Acceptor | None = None
        self._emptied = asyncio.Event()
        self._most = min(limits.connections, processes.raise_file_limit() - FILES_BESIDE)

    def _begin(
        self, message: Any, content: Any, connection: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        """aiohttp calls it for each request before `_exchange`, whose answer it sends."""
        connection.begin(content)
        kind = _Unreadable if message.method == "UNKNOWN" else web.BaseRequest
        return kind(message, content, connection, writer, task, self.loop)

    async def _exchange(self, http: web.BaseRequest) -> web.StreamResponse:
        return await Exchange(self, cast("Connection", http.protocol), http).run()

    def call(self, request: Request, begin: Callable[[Answer], object]) -> Answer | None:
        return call(self._application, request, self.room, begin)

    def add(self, connection: Connection) -> None:
        if len(self._connections) >= self._most:
            self._make_place(connection)
        self._connections.add(connection)
        self._emptied.clear()
        self._note()

    def remove(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._note()
        if not self._connections:
            self._emptied.set()

    def _note(self) -> None:
        if self._acceptor:
            self._acceptor.note(len(self._connections))

    def _make_place(self, new: Connection) -> None:
        """The address with the most connections loses those that are longest without a request."""
        waiting = [one for one in self._connections if one.phase in _WAITING]
        if not waiting:
            new.abort()
            return
        counts = Counter(one.client[0] for one in waiting)
        most, _ = counts.most_common(1)[0]
        theirs = (one for one in waiting if one.client[0] == most)
        for victim in heapq.nsmallest(AT_ONCE, theirs, key=lambda one: one.deadline):
            self._connections.discard(victim)
            victim.abort()

    async def run(
        self, listener: socket.socket, counts: Counts, place: int, ended: asyncio.Event
    ) -> None:
        """Serve what comes to `listener`, until `ended` is set. `place`: of this process among
        those that do."""
        acceptor = Acceptor(listener, counts, place, lambda: Connection(self), self.loop)
        self._acceptor = acceptor
        acceptor.start()
        sweeping = asyncio.ensure_future(self._sweep())
        await ended.wait()
        self._acceptor = None
        acceptor.stop()
        self.has_ended = True
        for connection in tuple(self._connections):
            connection.stop()
        if self._connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), GRACEFUL)
        sweeping.cancel()
        await self.http.shutdown(0.1)  # 0: aiohttp would wait for ever

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP)
            now = self.loop.time()
            for connection in [one for one in self._connections if one.deadline <= now]:
                connection.expire()


def bind(host: str, port: int) -> socket.socket:
    """The socket that all processes share; the first that is ready listens on it. Another MSH may
    have one with the same address, as long as this one ends. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((host, port))
    return prepared(listener)


def prepared(listener: socket.socket) -> socket.socket:
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)
    return listener


def serve(
    application: "WSGIApplication",
    listener: socket.socket,
    threads: int,
    counts: Counts,
    place: int,
) -> None:
    async def run() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        server = Server(application, Limits.of_settings(), threads, loop, place)
        await server.run(listener, counts, place, ended)

    uvloop.run(run())
