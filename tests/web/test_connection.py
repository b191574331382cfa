"""One connection, with a clock and a transport of the test's own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from types import SimpleNamespace
from typing import Any, cast

import pytest

from msh.web import senders
from msh.web.answer import Answer
from msh.web.connection import Connection, Phase
from msh.web.limits import UNKNOWN_BODY_LIMIT, Limits
from msh.web.parsing import HEAD_LIMIT, Parser
from msh.web.request import Request
from msh.web.senders import Admission, Sender
from msh.web.serve import Server
from msh.web.spool import Room
from msh.web.stream import GoneError, Stream
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


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    for stream in world.streams:
        stream.close()


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who shows "Bearer token" is a partner that this process knows; the database knows nobody."""

    def remembered(environ: senders.Environ) -> Sender | None:
        return PARTNER if environ.get("HTTP_AUTHORIZATION") == "Bearer token" else None

    monkeypatch.setattr(senders, "remembered", remembered)
    monkeypatch.setattr(senders, "find", lambda _: None)


def post(path: str = "/ebxml/", length: int = 10, *lines: str, token: str = "token") -> bytes:
    head = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines]
    if token:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join((*head, "", "")).encode()


def status_of(transport: Transport) -> int:
    """Of the last answer."""
    last = transport.written.rpartition(b"HTTP/1.1 ")[2]
    return int(last[:3]) if last else 0


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


def test_one_partner_waits_for_its_own_uploads_only(world: World) -> None:
    slow, _ = world.connect()
    slow.data_received(post(length=100))
    second, refused = world.connect()
    second.data_received(post(length=100))
    assert second.phase is Phase.ADMISSION
    stranger, form = world.connect()
    stranger.data_received(post("/admin/login/", 4, token=""))
    stranger.data_received(b"body")
    world.work()
    assert status_of(form) == 204
    world.pass_time(LIMITS.waiting + 1, second)
    assert status_of(refused) == 503
    assert b"Retry-After: " in refused.written


def test_upload_starts_when_the_one_before_ends(world: World) -> None:
    slow, _ = world.connect()
    slow.data_received(post(length=100))
    second, transport = world.connect()
    second.data_received(post(length=4) + b"bo")
    slow.connection_lost(None)
    assert second.phase is Phase.BODY
    second.data_received(b"dy")
    world.work()
    assert (world.bodies, status_of(transport)) == ([b"body"], 204)


@pytest.mark.parametrize("path", ["/ebxml/", "/api/v1/messages"])
def test_nothing_is_read_of_somebody_unknown(world: World, path: str) -> None:
    world.answer = lambda _: Answer("401 Unauthorized", [], length=0)
    connection, transport = world.connect()
    connection.data_received(post(path, 1000, token="wrong"))
    assert not transport.is_reading
    world.work()
    assert status_of(transport) == 401
    assert (connection.phase, world.bodies) == (Phase.UNREAD, [])


def test_a_refusal_is_seen_by_who_still_sends(world: World) -> None:
    world.answer = lambda _: Answer("401 Unauthorized", [], length=0)
    connection, transport = world.connect()
    connection.data_received(post("/api/v1/messages", 1000, token=""))
    world.work()
    assert transport.is_reading
    assert not transport.is_closed
    connection.data_received(b"x" * 1000)
    assert not connection.eof_received()


@pytest.mark.parametrize("size", [1, LIMITS.unread + 1])
def test_discarded_body_is_bounded_in_bytes_and_time(world: World, size: int) -> None:
    world.answer = lambda _: Answer("401 Unauthorized", [], length=0)
    connection, transport = world.connect()
    connection.data_received(post("/api/v1/messages", 1 << 30, token=""))
    world.work()
    connection.data_received(b"x" * size)
    world.pass_time(LIMITS.unread_seconds if size == 1 else 0, connection)
    assert transport.is_aborted


def test_a_form_of_a_stranger_is_small(world: World) -> None:
    connection, transport = world.connect()
    connection.data_received(post("/admin/login/", UNKNOWN_BODY_LIMIT + 1, token=""))
    assert status_of(transport) == 413


def test_sender_found_in_the_database_may_send(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(senders, "find", lambda _: Admission(PARTNER, 100))
    connection, transport = world.connect()
    connection.data_received(post(length=4, token="new"))
    world.work()
    connection.data_received(b"body")
    world.work()
    assert (world.bodies, status_of(transport)) == ([b"body"], 204)


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


def test_without_room_for_its_body_a_request_is_asked_to_come_again() -> None:
    world = World(limits=Limits(memory=1000, disk=1000))
    connection, transport = world.connect()
    connection.data_received(post(length=5000) + b"x" * 2500)
    assert status_of(transport) == 503
    assert world.room.free("memory") + world.room.free("disk") > 0
    connection.connection_lost(None)
    assert (world.room.free("memory"), world.room.free("disk")) == (1000, 1000)


@pytest.mark.requirement("EB-156")
def test_100_continue_is_sent_when_the_body_may_come(world: World) -> None:
    connection, transport = world.connect()
    connection.data_received(post("/ebxml/", 4, "Expect: 100-continue"))
    assert transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.data_received(b"body")
    world.work()
    assert world.bodies == [b"body"]


def test_refused_request_gets_no_100_continue(world: World) -> None:
    world.answer = lambda _: Answer("401 Unauthorized", [], length=0)
    connection, transport = world.connect()
    connection.data_received(post("/ebxml/", 4, "Expect: 100-continue", token=""))
    world.work()
    assert transport.written.startswith(b"HTTP/1.1 401 ")
    assert transport.is_closed


def large(_: Request) -> Answer:
    return Answer("200 OK", [], BytesIO(b"x" * 1_000_000), 1_000_000)


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


# --- a body that is still being made --------------------------------------------------------------

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
