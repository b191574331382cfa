"""One connection, with a clock and a transport of the test's own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from types import SimpleNamespace
from typing import Any, cast

from msh.web.answer import Answer
from msh.web.connection import Connection
from msh.web.limits import Limits
from msh.web.request import Request
from msh.web.senders import Sender
from msh.web.serve import Server
from msh.web.spool import Room
from msh.web.stream import Stream
from msh.web.uploads import Uploads

PARTNER = Sender("partner 1", known=True)


LIMITS = Limits(known=1, unknown=1, uploads=4, memory=10_000_000, disk=10_000_000)


class Transport:
    """Takes what is written; `reads` False: the client does not."""

    def __init__(self) -> None:
        self.written = b""
        self.is_reading = True
        self.is_closed = self.is_aborted = self.has_ended = False
        self.waiting = 0  # bytes that the client has not read
        self.protocol: Connection | None = None
        self.reads = True

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("192.0.2.1", 4711) if name == "peername" else ("192.0.2.9", 8000)

    def write(self, data: bytes) -> None:
        self.written += data
        if not self.reads:
            self.waiting += len(data)
            if self.protocol:
                self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write_eof(self) -> None:
        self.has_ended = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


@dataclass
class World:
    """The server of the connections: what it is asked is done when the test says `work`."""

    now: float = 1000.0
    limits: Limits = LIMITS
    bodies: list[bytes] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    answer: Callable[[Request], Answer] = lambda _: Answer("204 No Content", [])

    def __post_init__(self) -> None:
        self.loop = SimpleNamespace(
            time=lambda: self.now, call_soon_threadsafe=lambda call, *of_it: call(*of_it)
        )
        self.room = Room(self.limits.memory, self.limits.disk)
        self.uploads = Uploads(self.limits)
        self.pool = self
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, sender: Sender, work: Callable[[], Any], done: Callable[[Any], None]) -> bool:
        self.jobs.append((work, done))
        return True

    def work(self) -> None:
        while self.jobs:
            work, done = self.jobs.pop(0)
            done(work())

    def call(self, request: Request, _begin: Callable[[Answer], object]) -> Answer:
        environ = request.with_input()
        if request.complete:
            self.bodies.append(environ["wsgi.input"].read())
        return self.answer(request)

    def add(self, connection: Connection) -> None:
        pass

    def remove(self, connection: Connection) -> None:
        pass

    def connect(self) -> tuple[Connection, Transport]:
        connection, transport = Connection(cast("Server", self)), Transport()
        transport.protocol = connection
        connection.connection_made(cast("Any", transport))
        return connection, transport

    def pass_time(self, seconds: float, *connections: Connection) -> None:
        self.now += seconds
        for connection in connections:
            if connection.deadline <= self.now:
                connection.expire()


def post(path: str = "/ebxml/", length: int = 10, *lines: str, token: str = "token") -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines]
    if token:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join((*head, "", "")).encode()


def status_of(transport: Transport) -> int:
    """Of the last answer."""
    last = transport.written.rpartition(b"HTTP/1.1 ")[2]
    return int(last[:3]) if last else 0


def large(_: Request) -> Answer:
    return Answer("200 OK", [], BytesIO(b"x" * 1_000_000), 1_000_000)
