"""One connection: aiohttp reads requests and writes answers; what is ours is the time that each
part may take, and what becomes of a client that is refused."""

import asyncio
import logging
import math
import socket
import struct
from contextlib import suppress
from enum import Enum, auto
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from . import refusals
from .answer import Answer, refusal
from .limits import HEAD_LIMIT, Limits
from .refusals import Refusals

if TYPE_CHECKING:
    from aiohttp import StreamReader

logger = logging.getLogger(__name__)

READ_AHEAD = 64 * 1024
"""Bytes of a body that nobody reads yet: from twice as many on, the client has to wait."""
HEADERS_LIMIT = 256
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: on, and for no time."""
ENDED = 0.1
"""Seconds after which a client that sends no more has had its last answer."""


class Phase(Enum):
    IDLE = auto()  # between two requests
    HEAD = auto()
    ADMISSION = auto()  # waits for permission to read the body; reading is paused
    BODY = auto()
    WORK = auto()  # a thread answers, or will
    ANSWER = auto()  # on its way
    UNREAD = auto()  # answered; what still comes of the request is thrown away


_GATHERING = (Phase.ADMISSION, Phase.BODY)
_ANSWERING = (Phase.WORK, Phase.ANSWER)


class BrokenBodyError(Exception):
    """No more of the body will come."""


class ConnectionHost(Protocol):
    """The server, as far as a connection needs it."""

    http: web.Server
    loop: asyncio.AbstractEventLoop
    limits: Limits
    refusals: Refusals
    has_ended: bool

    def add(self, connection: "Connection") -> None: ...

    def remove(self, connection: "Connection") -> None: ...


class Connection(web.RequestHandler):
    """The server's sweep calls `expire` when `deadline` has passed.

    aiohttp calls what has a name of its own here: the methods of `asyncio.Protocol`, and
    `handle_error`. A request that it has read begins with `begin` and ends with `end_answer`.
    """

    __slots__ = (
        "_ended",
        "_head",
        "_is_held",
        "_unread",
        "client",
        "content",
        "deadline",
        "has_ended",
        "is_lost",
        "is_starved",
        "own",
        "phase",
        "server",
    )

    def __init__(self, server: ConnectionHost) -> None:
        super().__init__(
            server.http,
            loop=server.loop,
            logger=logger,
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=2 * server.limits.idle,  # `deadline` comes first
            lingering_time=0,  # `linger` has bounds
            max_line_size=HEAD_LIMIT,
            max_field_size=HEAD_LIMIT,
            max_headers=HEADERS_LIMIT,
            read_bufsize=READ_AHEAD,
            auto_decompress=False,
        )
        self.server = server
        self.client = self.own = ("", 0)
        self.content: StreamReader | None = None  # the body of the request that is answered
        self.phase = Phase.IDLE
        self.deadline = math.inf
        self.has_ended = False  # the client sends no more
        self.is_lost = False
        self.is_starved = False  # the client has taken all that was made so far of its answer
        self._is_held = False
        self._head = 0  # bytes of a head that has not ended
        self._unread = 0  # bytes thrown away
        self._ended: asyncio.Future[None] | None = None

    # --- life -----------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """An error here would leave a transport that nobody closes."""
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        if not peer or not own:  # it was reset before we looked at it
            self.is_lost = True
            transport.abort()
            return
        try:
            super().connection_made(transport)
        except Exception as problem:
            self.is_lost = True
            transport.abort()
            if not isinstance(problem, OSError):  # else it was reset just now
                logger.exception("a connection of %s cannot be served", peer[0])
            return
        self.client, self.own = peer[:2], own[:2]
        self.enter(Phase.IDLE, self.server.limits.head)
        self.server.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.is_lost = True
        self.server.remove(self)
        super().connection_lost(exc)
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection is kept, for an answer that is still to come."""
        self.has_ended = True
        if self.phase in _GATHERING:
            self.check_body()
        elif self.phase in (Phase.IDLE, Phase.HEAD):
            # Its last request may have come with this, and begins when the loop goes on.
            self.deadline = self._now() + ENDED
        return self.phase is not Phase.UNREAD and not self.is_lost

    def stop(self) -> None:
        """Close it now, or as soon as the request under way is answered."""
        if self.phase in (Phase.IDLE, Phase.UNREAD) and self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close by a reset: otherwise the kernel would keep up to some megabytes that the client
        does not read, and send them piece by piece for as long as the client likes."""
        if self.transport is not None:
            own = self.transport.get_extra_info("socket")
            with suppress(OSError):  # it has gone by itself
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()

    def write(self, data: bytes) -> None:
        """Outside an answer that aiohttp writes."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def expire(self) -> None:
        """The deadline has passed."""
        if self.phase in (Phase.IDLE, Phase.HEAD) and self.has_ended:
            self.end_answer(keep_alive=False)
            self.stop()
        elif self.phase is Phase.HEAD:
            self._turn_away(408, "the request did not arrive before the timeout")
        elif self.phase is Phase.ANSWER and self.is_starved and not self.waiting:
            self.deadline = self._now() + self.server.limits.grace
        elif self.phase not in _GATHERING:
            self.abort()

    @property
    def waiting(self) -> int:
        """Bytes of answers that the client's side has not taken."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def enter(self, phase: Phase, seconds: float = math.inf) -> None:
        self.phase = phase
        self.deadline = self._now() + seconds

    def _now(self) -> float:
        return self.server.loop.time()

    # --- requests -------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        if self.is_lost:
            return
        if self.phase is Phase.UNREAD:
            self._throw_away(data)
            return
        if self.phase is Phase.IDLE and data:
            self.enter(Phase.HEAD, self.server.limits.head)
            self._head = 0
        super().data_received(data)
        if self.phase is Phase.HEAD:
            self._head += len(data)
            # aiohttp limits each line, not their sum.
            if self._head > HEAD_LIMIT:
                self.server.loop.call_soon(self._refuse_long_head)  # unless its request begins
        # What comes behind a request is not read before it is answered: it would be kept in memory.
        elif self.phase in _ANSWERING:
            self._is_held = True
            if self.transport is not None:
                self.transport.pause_reading()
        else:
            self.check_body()

    def begin(self, content: "StreamReader") -> None:
        """Called for each request, and for what was to be one (see `handle_error`)."""
        self.content = content
        self.enter(Phase.WORK)

    def end_answer(self, *, keep_alive: bool) -> None:
        if not keep_alive:
            # until the last bytes are taken
            self.enter(Phase.UNREAD, 2 * self.server.limits.grace)
            return
        self.enter(Phase.IDLE, ENDED if self.has_ended else self.server.limits.idle)
        if self.server.has_ended:  # since its head said that the connection is kept
            self.stop()
        elif not self._is_followed:  # aiohttp reads on by itself when it has few requests left
            self.read_on()

    @property
    def _is_followed(self) -> bool:
        """Whether aiohttp has read something behind the request that is answered. It tells nobody,
        not even that the chunks of a body are malformed: this is its only private name here
        (`tests/test_public_faces.py`)."""
        return bool(self._messages)

    def read_on(self) -> None:
        if self._is_held and self.transport is not None:
            self._is_held = False
            self.transport.resume_reading()

    def check_body(self) -> None:
        """Let whoever reads the body know that no more of it will come."""
        if self.has_ended:
            self._break_body("the body ended")
        elif self._is_followed:
            # Behind a request whose body has not ended: that is why its rest cannot be read.
            self._break_body("its chunks are malformed")

    async def linger(self) -> None:
        """Wait until the client has gone: closing now would reset the connection before the client
        reads the refusal."""
        if self.transport is None:
            return
        self._ended = self.server.loop.create_future()
        self._stop_reading_requests()
        await self._ended

    def _stop_reading_requests(self) -> None:
        self.enter(Phase.UNREAD, self.server.limits.unread_seconds)
        if self.transport is None or self.transport.is_closing():
            return
        if self.has_ended:
            self.transport.close()
        else:
            self.transport.resume_reading()
            self.transport.write_eof()

    def _throw_away(self, data: bytes) -> None:
        self._unread += len(data)
        if self._unread > self.server.limits.unread:
            self.abort()

    def _break_body(self, reason: str) -> None:
        if self.content is not None and not self.content.is_eof():
            self.content.set_exception(BrokenBodyError(reason))

    # --- what is no request ---------------------------------------------------------------------
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what aiohttp cannot read, or to a request that raised an error of ours."""
        if isinstance(exc, ConnectionError):  # the client has gone, or was sent away
            self.abort()
            reason = ""
        elif message is not None:  # of aiohttp's parser
            status, reason = refusals.explain(message)
            self.server.refusals.note(self.client[0], status, reason)
        else:
            self.log_exception("500 to %s", request.raw_path, exc_info=exc)
            reason = "internal server error"
        if request.writer.output_size:
            self.abort()
        return small(self, refusal(request.raw_path, status, reason), is_last=True, lingers=True)

    def _refuse_long_head(self) -> None:
        if self.phase is Phase.HEAD and not self.is_lost:
            self._turn_away(431, refusals.TOO_LONG)

    def _turn_away(self, status: int, reason: str) -> None:
        """Answer what has not become a request, so that aiohttp has nothing to answer."""
        self.server.refusals.note(self.client[0], status, reason)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            f"X-MSH-Error: {reason}",
            "Content-Length: 0",
            "Connection: close",
        )
        self.write("\r\n".join((*head, "", "")).encode())
        self._stop_reading_requests()


class _Reply(web.Response):
    """A small answer: aiohttp sends it, and tells when it has."""

    connection: Connection
    lingers = False

    async def write_eof(self, data: bytes = b"") -> None:
        await super().write_eof(data)
        if self.lingers:
            await self.connection.linger()
        else:
            self.connection.end_answer(keep_alive=bool(self.keep_alive))


def small(
    connection: Connection, answer: Answer, *, is_last: bool, lingers: bool = False
) -> web.Response:
    """`is_last`: the connection is closed after it. `lingers`: its client may still be sending."""
    content = answer.body.read() if answer.body is not None else None
    answer.close()
    reply = _Reply(
        status=answer.code, reason=answer.reason, headers=answer.headers_to_send(), body=content
    )
    reply.connection = connection
    reply.lingers = lingers
    if is_last:
        reply.force_close()
    return reply
