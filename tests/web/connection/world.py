"""The server of a web process, in a thread of the test, in front of an application of its own."""

import asyncio
import io
import select
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any, cast

import uvloop

from msh.web.accepting import Counts
from msh.web.limits import Limits
from msh.web.senders import Sender
from msh.web.serve import Server, bind
from msh.web.stream import KEY
from tests.waiting import wait_until

PARTNER = Sender("partner 1", known=True)
LIMITS = Limits(
    known=1, unknown=1, uploads=4, memory=10_000_000, disk=30_000_000, head=1.0, grace=1.0
)
PATIENCE = 30  # seconds for what has to come


@dataclass
class Seen:
    """A request as the application got it; `body` None: it was not to be read."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    target: str


@dataclass
class Says:
    """What the application answers with; an exception among the pieces is raised."""

    status: str = "204 No Content"
    headers: Iterable[tuple[str, str]] = ()
    pieces: Iterable[bytes | Exception] = ()
    streams: bool = False
    closed: threading.Event = field(default_factory=threading.Event)

    def __iter__(self) -> Any:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def close(self) -> None:
        self.closed.set()


class World:
    def __init__(self, limits: Limits = LIMITS, threads: int = 4) -> None:
        self.seen: list[Seen] = []
        self.answer: Callable[[Seen], Says] = lambda _: Says()
        listener = bind("127.0.0.1", 0)
        self.port: int = listener.getsockname()[1]
        started = threading.Event()
        self._clients: list[Client] = []

        async def run() -> None:
            self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
            self.server = Server(self._application, limits, threads, self._loop)
            self._loop.call_soon(started.set)
            await self.server.run(listener, Counts(1), 0, self._ended)
            self.server.pool.close()

        self._thread = threading.Thread(target=lambda: uvloop.run(run()))
        self._thread.start()
        assert started.wait(PATIENCE)
        self._listener = listener

    def close(self) -> None:
        self.stop()
        for client in self._clients:
            client.close()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self._listener.close()

    def stop(self) -> None:
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._ended.set)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def connect(self, *, buffer: int | None = None) -> "Client":
        """`buffer`: bytes that the client's side takes before it is read."""
        client = Client(self.port, buffer)
        self._clients.append(client)
        return client

    @property
    def bodies(self) -> list[bytes | None]:
        return [one.body for one in self.seen]

    @property
    def connections(self) -> int:
        return len(self.server._connections)

    def wait_until_nothing_is_open(self) -> None:
        wait_until(lambda: self.connections == 0, what="the end of all connections")

    def _application(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        try:
            body: bytes | None = environ["wsgi.input"].read()
        except OSError:
            body = None
        headers = {
            name: value for name, value in environ.items() if name.startswith(("HTTP_", "CONTENT_"))
        }
        target = environ["RAW_URI"]
        seen = Seen(environ["REQUEST_METHOD"], environ["PATH_INFO"], headers, body, target)
        self.seen.append(seen)
        says = self.answer(seen)
        environ[KEY] = says.streams
        start_response(says.status, list(says.headers))
        return cast("Iterable[bytes]", says)


class Client:
    def __init__(self, port: int, buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(("127.0.0.1", port))
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def end(self) -> None:
        """Nothing more is sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def answer(self, method: str = "GET") -> "Answered":
        """The next answer, with its body."""
        return Answered(self._file, method)

    def status(self) -> int:
        return self.answer().status

    def rest(self) -> bytes:
        """All that comes until the server ends the connection."""
        try:
            return self._file.read()
        except ConnectionResetError:
            return b""

    def is_silent(self) -> bool:
        """Nothing has come, and the connection is open."""
        self.socket.setblocking(False)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        finally:
            self.socket.settimeout(PATIENCE)
        return False

    def is_reset(self) -> bool:
        """The server has reset the connection, with what was not read. Nothing is read here."""
        poller = select.poll()
        poller.register(self.socket, 0)
        return bool(poller.poll(PATIENCE * 1000))

    def close(self) -> None:
        self._file.close()
        self.socket.close()


class Answered:
    def __init__(self, file: io.BufferedReader, method: str) -> None:
        class Source:
            def makefile(self, _mode: str) -> Any:
                return _Kept(file)

        response = HTTPResponse(cast("Any", Source()), method=method)
        response.begin()
        self.version = response.version
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def reason(self) -> str:
        return self.headers.get("X-MSH-Error", "")


class _Kept:
    """A file that is not closed with the answer that was read from it."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        pass


def post(path: str = "/ebxml/", length: int = 10, *lines: str, token: str = "token") -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines]
    if token:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join((*head, "", "")).encode()


def chunked(*lines: str) -> bytes:
    """The head of a POST whose body follows in chunks."""
    return post("/ebxml/", 10, *lines).replace(b"Content-Length: 10", b"Transfer-Encoding: chunked")


def get(path: str = "/", *lines: str, version: str = "1.1", method: str = "GET") -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/{version}", "Host: x", *lines, "", "")).encode()
