"""One connection: requests are read and answered in turn, each part of it within its time."""

import math
from asyncio import Protocol, Transport
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, cast

from . import senders
from .answer import Answer, live, refusal
from .parsing import Parser
from .request import Request
from .senders import Admission, Sender
from .sending import Sending

if TYPE_CHECKING:
    from .serve import Server

RETRY_AFTER = 5  # seconds
LIVE_PATH = "/health/live"
BUSY = "too many requests are under way"


class Phase(Enum):
    IDLE = auto()  # between two requests
    HEAD = auto()
    ADMISSION = auto()  # may its body come? It may have to wait for its turn; nothing is read
    BODY = auto()
    WORK = auto()  # a thread answers, or will
    ANSWER = auto()  # on its way
    UNREAD = auto()  # answered; what still comes of the request is thrown away


_ANSWERING = (Phase.ADMISSION, Phase.WORK, Phase.ANSWER)


class Connection(Protocol):
    """The server's sweep calls `expire` when `deadline` has passed."""

    _transport: Transport
    _parser: Parser
    client: str

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._now = server.loop.time
        self._limits = server.limits
        self._held = b""  # what came while another request was answered
        self._current: Request | None = None  # which is answered
        self._sending: Sending | None = None
        self._upload: Sender | None = None  # whose body is under way
        self._began = 0.0
        self._unread = 0  # bytes thrown away
        self._keep_alive = True
        self._has_ended = False  # the client sends no more
        self._is_lost = False
        self.phase = Phase.IDLE
        self.deadline = math.inf

    # --- life -----------------------------------------------------------------------------------
    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        self._transport = transport
        client = transport.get_extra_info("peername")[:2]
        self.client = client[0]
        self._parser = Parser(client, transport.get_extra_info("sockname")[:2], self._server.room)
        self._enter(Phase.IDLE, self._limits.head)
        self._server.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._server.remove(self)
        self._end_upload()
        self._parser.close()
        if self._sending is not None:
            self._sending.close()

    def eof_received(self) -> bool:
        """Whether the connection is kept, for an answer that is still to come."""
        self._has_ended = True
        self._keep_alive = False
        if self.phase is Phase.BODY:
            self._refuse(400, f"the body ended after {self._came} bytes")
        return self.phase in _ANSWERING

    def close(self) -> None:
        """Now, or as soon as the request under way is answered."""
        self._keep_alive = False
        if self.phase in (Phase.IDLE, Phase.UNREAD):
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def expire(self) -> None:
        """The deadline has passed; a body or an answer that moves fast enough gets another."""
        if self.phase is Phase.BODY:
            self.deadline = self._limits.deadline(self._began, self._came)
            if self.deadline <= self._now():
                self._refuse(408, f"{self._came} bytes of the body arrived before the timeout")
        elif self.phase is Phase.ANSWER and self._sending:
            self.deadline = self._limits.deadline(self._began, self._sending.sent)
            if self._sending.is_starved:
                self._began = self._now()
                self.deadline = self._began + self._limits.grace
            elif self.deadline <= self._now():
                self.abort()
        elif self.phase is Phase.ADMISSION:
            self._refuse(503, "too many of your requests are under way", wait=RETRY_AFTER)
        elif self.phase is Phase.HEAD:
            self._refuse(408, "the request did not arrive before the timeout")
        else:
            self.abort()

    def _enter(self, phase: Phase, seconds: float = math.inf) -> None:
        self.phase = phase
        self.deadline = self._now() + seconds

    # --- reading --------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        if self.phase in _ANSWERING:
            self._held += data
            self._transport.pause_reading()
        elif self.phase is Phase.UNREAD:
            self._unread += len(data)
            if self._unread > self._limits.unread:
                self.abort()
        else:
            self._read(data)

    def _read(self, data: bytes) -> None:
        if self.phase is Phase.IDLE:
            self._enter(Phase.HEAD, self._limits.head)
        self._held = self._parser.feed(data)
        self._go_on()

    def _go_on(self) -> None:
        """After something was read, or a request was answered."""
        parser = self._parser
        if parser.whole:
            self._end_upload()
            self._work(parser.whole.popleft())
        elif parser.refused:
            refused = parser.refused
            wait = RETRY_AFTER if refused.status == 503 else None
            self._refuse(refused.status, str(refused), wait=wait)
        elif parser.reading and parser.reading.limit is None:
            self._admit(parser.reading)
        elif parser.reading and parser.reading.is_too_large:
            self._answer_from_head(parser.reading)
        elif self._held:
            held, self._held = self._held, b""
            self._read(held)
        else:
            self._transport.resume_reading()

    @property
    def _came(self) -> int:
        """Bytes of the body that is under way."""
        request = self._parser.reading
        return request.body.size if request and request.body else 0

    # --- a body that has not come yet: may it? --------------------------------------------------
    def _admit(self, request: Request) -> None:
        self._enter(Phase.ADMISSION)
        self._transport.pause_reading()
        environ = request.environ
        admission = senders.admit(environ, request.announced)
        if admission or not senders.may_be_known(environ):
            self._start_upload(request, admission)
        elif not self._server.pool.submit(
            senders.address_of(environ),
            partial(senders.find_if_possible, environ),
            partial(self._start_upload, request),
        ):
            self._refuse(503, BUSY, wait=RETRY_AFTER)

    def _start_upload(self, request: Request, admission: Admission | None) -> None:
        if self._is_lost:
            return
        is_ours = senders.is_partner(request.path) or senders.is_api(request.path)
        if admission is None or request.announced > admission.limit:
            if is_ours:
                self._answer_from_head(request)
            else:
                self._refuse(413, "the body is too large for a client that is not logged in")
        elif request.is_chunked and not senders.is_partner(request.path):
            if is_ours:
                self._answer_from_head(request)
            else:
                self._refuse(411, "send the body with a Content-Length, not in chunks")
        else:
            request.sender, request.limit = admission
            self._enter(Phase.ADMISSION, self._limits.waiting)
            self._server.uploads.start(request.sender, self._gather)

    def _gather(self) -> None:
        request = cast("Request", self._parser.reading)
        self._upload = request.sender
        self._enter(Phase.BODY, self._limits.grace)
        self._began = self._now()
        if self._has_ended:
            self._refuse(400, "the body did not arrive")
            return
        if request.expects:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._go_on()

    def _end_upload(self) -> None:
        request = self._parser.reading
        if self._upload is not None:
            sender, self._upload = self._upload, None
            self._server.uploads.end(sender)
        elif request and request.sender:
            self._server.uploads.forget(request.sender, self._gather)

    # --- answering ------------------------------------------------------------------------------
    def _answer_from_head(self, request: Request) -> None:
        """The application refuses it, and does not look at the body."""
        self._end_upload()
        self._parser.reading = None
        self._work(request)

    def _work(self, request: Request) -> None:
        self._enter(Phase.WORK)
        self._current = request
        if request.path == LIVE_PATH and request.method in ("GET", "HEAD"):
            self._send(live())
            return
        sender = request.sender or senders.sender_of(request.environ)
        if not self._server.pool.submit(sender, partial(self._call, request), self._send_if_open):
            request.close()
            self._send(refusal(request.path, 503, BUSY, wait=RETRY_AFTER))

    def _call(self, request: Request) -> Answer | None:
        """In a thread. Whose client has gone is not served: it was promised nothing."""
        try:
            soon = self._server.loop.call_soon_threadsafe
            begin = lambda answer: soon(self._send_if_open, answer)  # noqa: E731
            return None if self._is_lost else self._server.call(request, begin)
        finally:
            request.close()

    def _send_if_open(self, answer: Answer | None) -> None:
        if answer is None:
            return
        if self._is_lost:
            answer.close()
        else:
            self._send(answer)

    def _refuse(self, status: int, reason: str, *, wait: int | None = None) -> None:
        """Answer without asking the application; then the connection is closed."""
        self._end_upload()
        self._current = self._parser.reading
        self._send(refusal(self._current.path if self._current else "", status, reason, wait=wait))

    def _send(self, answer: Answer) -> None:
        request = self._current
        self._keep_alive &= request is not None and request.complete and request.keep_alive
        is_http_1_0 = request is not None and request.is_http_1_0
        head, self._keep_alive = answer.head(keep_alive=self._keep_alive, is_http_1_0=is_http_1_0)
        if not answer.has_body or (request is not None and request.method == "HEAD"):
            answer.close()
        self._enter(Phase.ANSWER, self._limits.grace)
        self._began = self._now()
        self._sending = sending = Sending(self._transport, answer)
        if answer.stream is not None:
            soon = self._server.loop.call_soon_threadsafe
            answer.stream.listen(partial(soon, self._send_more, sending))
        sending.start(head)
        self._send_more(sending)

    def _send_more(self, sending: Sending) -> None:
        if sending is self._sending and sending.has_failed:
            self.abort()
        elif sending is self._sending:
            sending.go_on()
            self._end_answer_if_sent()

    def _end_answer_if_sent(self) -> None:
        if self._sending is None or not self._sending.is_done:
            return
        self._sending.close()
        self._sending = None
        request, self._current = self._current, None
        if self._keep_alive:
            self._enter(Phase.IDLE, self._limits.idle)
            self._go_on()
            return
        if self._has_ended or (request is not None and (request.complete or request.expects)):
            self._enter(Phase.UNREAD, 2 * self._limits.grace)  # until the last bytes are taken
            self._transport.close()
        else:
            self._enter(Phase.UNREAD, self._limits.unread_seconds)
            # Its sender sees the refusal only if the connection is not closed under its hands.
            self._held = b""
            self._transport.resume_reading()
            self._transport.write_eof()

    def pause_writing(self) -> None:
        if self._sending is not None:
            self._sending.pause()

    def resume_writing(self) -> None:
        if self._sending is not None:
            self._sending.resume()
            self._end_answer_if_sent()
