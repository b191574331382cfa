"""One request and its answer: the whole body is gathered, a thread calls the application, and its
answer is sent."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import IO, Protocol, TypeVar

from aiohttp import web

from msh.protocol.reason import refusal_of

from . import senders
from .answer import PIECE, Answer, live, refusal
from .connection import BrokenBodyError, Connection, ConnectionHost, Phase, small
from .pool import Pool
from .request import Refused, Request
from .senders import Admission, Sender
from .spool import NoRoomError, Room, Spool
from .stream import Stream
from .uploads import Uploads

RETRY_AFTER = 5  # seconds
LIVE_PATH = "/health/live"
BUSY = "too many requests are under way"
_NOTED = frozenset({400, 408, 413})
"""Refusals that say something of the request, and not of us."""

T = TypeVar("T")


class ExchangeHost(ConnectionHost, Protocol):
    """The server, as far as a request needs it."""

    pool: Pool
    room: Room
    uploads: Uploads

    def call(self, request: Request, begin: Callable[[Answer], object]) -> Answer | None: ...


class Exchange:
    def __init__(self, server: ExchangeHost, connection: Connection, http: web.BaseRequest) -> None:
        self._server = server
        self._limits = server.limits
        self._now = server.loop.time
        self._connection = connection
        self._http = http

    async def run(self) -> web.StreamResponse:
        """Raises ConnectionError if the client has gone."""
        path = self._http.raw_path
        try:
            request = Request(self._http, self._connection.client, self._connection.own)
        except Refused as refused:
            return self._refuse(path, refused, lingers=True)
        try:
            if self._http.content.is_eof():
                self._take_whole(request)
            else:
                await self._gather(request)
        except Refused as refused:
            request.close()
            self._note(request, refused)
            return self._refuse(request.path, refused, lingers=not request.expects)
        except BaseException:
            request.close()
            raise
        return await self._respond(request, await self._answer(request))

    def _refuse(self, path: str, refused: Refused, *, lingers: bool) -> web.Response:
        shown = self._http.headers.get("X-Request-Id", "")
        answer = refusal(path, refused.status, str(refused), wait=refused.wait, request_id=shown)
        return small(self._connection, answer, is_last=True, lingers=lingers)

    def _note(self, request: Request, refused: Refused) -> None:
        """Record a refusal as an event of the link, if the partner is known. Busy threads have it
        left out."""
        sender = request.sender
        if sender is not None and sender.partner_id is not None and refused.status in _NOTED:
            reason = f"{refused.status}: {refused}"
            code = refusal_of(refused.status)
            work = partial(senders.note_refused, sender.partner_id, code, reason)
            self._server.pool.submit(sender, work, lambda _: None)

    # --- the body -------------------------------------------------------------------------------
    def _take_whole(self, request: Request) -> None:
        """Take a body that arrived together with the head. It needed no permission."""
        if piece := self._http.content.read_nowait():
            request.body = Spool(self._server.room)
            _add(request.body, piece)
        request.complete = True

    async def _gather(self, request: Request) -> None:
        """Read the whole body. Or read nothing of it; then the request is answered from its head
        alone."""
        self._connection.enter(Phase.ADMISSION)
        self._connection.read_on()
        admission = await self._admission(request)
        is_ours = senders.is_partner(request.path) or senders.is_api(request.path)
        if admission is None or request.announced > admission.limit:
            if not is_ours:
                raise Refused(413, "the body is too large for a client that is not logged in")
        elif request.is_chunked and not senders.is_partner(request.path):
            if not is_ours:
                raise Refused(411, "send the body with a Content-Length, not in chunks")
        else:
            request.sender, request.limit = admission
            await self._wait_for_turn(request.sender)
            try:
                await self._read(request)
            finally:
                self._server.uploads.end(request.sender)

    async def _admission(self, request: Request) -> Admission | None:
        environ = request.environ
        admission = senders.admit(environ, request.announced)
        if admission is None and senders.may_be_known(environ):
            find = partial(senders.find_if_possible, environ)
            return await self._in_thread(senders.address_of(environ), find)
        return admission

    async def _wait_for_turn(self, sender: Sender) -> None:
        """`uploads.end` has to be called afterwards."""
        turn = self._server.loop.create_future()
        has_place = False

        def begin() -> None:
            nonlocal has_place
            has_place = True
            _set_result(turn, None)

        self._server.uploads.start(sender, begin)
        try:
            async with asyncio.timeout(self._limits.waiting):
                await turn
            self._raise_if_lost()
        except BaseException as problem:
            if has_place:
                self._server.uploads.end(sender)
            else:
                self._server.uploads.forget(sender, begin)
            if isinstance(problem, TimeoutError):
                reason = "too many of your requests are under way"
                raise Refused(503, reason, wait=RETRY_AFTER) from None
            raise

    async def _read(self, request: Request) -> None:
        """Read until the body is complete, or longer than the limit."""
        began, connection = self._now(), self._connection
        request.body = body = Spool(self._server.room)
        connection.enter(Phase.BODY, self._limits.grace)
        connection.check_body()
        if request.expects:
            connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout_at(began + self._limits.grace) as timeout:
                while piece := await self._http.content.readany():
                    _add(body, piece)
                    if request.is_too_large:
                        return
                    connection.deadline = self._limits.deadline(began, body.size)
                    # Each piece extends the time, at the slowest rate that a client may have.
                    timeout.reschedule(connection.deadline)
        except TimeoutError:
            reason = f"{body.size} bytes of the body arrived before the timeout"
            raise Refused(408, reason) from None
        except BrokenBodyError as problem:
            came = self._http.content.total_bytes
            if request.limit is not None and came > request.limit:
                raise Refused(413, f"a request has at most {request.limit} bytes") from None
            raise Refused(400, f"{problem} after {came} bytes") from None
        except Exception:
            self._raise_if_lost()
            raise
        request.complete = True

    # --- the answer -----------------------------------------------------------------------------
    async def _answer(self, request: Request) -> Answer:
        """Return the answer as soon as its head is known: a body may still be produced while it is
        sent."""
        self._connection.enter(Phase.WORK)
        if request.path == LIVE_PATH and request.method in ("GET", "HEAD"):
            request.close()
            return live()
        sender = request.sender or senders.sender_of(request.environ)
        future: asyncio.Future[Answer | None] = self._server.loop.create_future()
        soon = self._server.loop.call_soon_threadsafe
        work = partial(self._call, request, lambda answer: soon(_set_answer, future, answer))
        if not self._server.pool.submit(sender, work, partial(_set_answer, future)):
            request.close()
            return refusal(request.path, 503, BUSY, wait=RETRY_AFTER, request_id=request.shown_id)
        answer = await future
        if answer is None:
            raise ConnectionResetError
        return answer

    def _call(self, request: Request, begin: Callable[[Answer], object]) -> Answer | None:
        """Run in a thread. A request whose client has gone is dropped: nothing was promised to
        it."""
        try:
            # Checked here, as late as possible: the request may have waited for a thread.
            return None if self._connection.is_lost else self._server.call(request, begin)
        finally:
            request.close()

    async def _in_thread(self, sender: Sender, work: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._server.loop.create_future()
        if not self._server.pool.submit(sender, work, partial(_set_result, future)):
            raise Refused(503, BUSY, wait=RETRY_AFTER)
        result = await future
        self._raise_if_lost()
        return result

    async def _respond(self, request: Request, answer: Answer) -> web.StreamResponse:
        connection = self._connection
        connection.enter(Phase.ANSWER, self._limits.grace)
        is_last = request.is_last or not request.complete or self._server.has_ended
        lingers = request.is_last or not (request.complete or request.expects)
        if answer.is_small:
            return small(connection, answer, is_last=is_last, lingers=lingers)
        response = web.StreamResponse(
            status=answer.code, reason=answer.reason, headers=answer.headers_to_send()
        )
        if is_last:
            response.force_close()
        if answer.length is not None and response.content_length is None:
            response.content_length = answer.length
        try:
            await response.prepare(self._http)
            if request.method != "HEAD":
                await self._send(response, answer)
            await response.write_eof()
        finally:
            answer.close()
        if lingers:
            await connection.linger()
        else:
            connection.end_answer(keep_alive=bool(response.keep_alive))
        return response

    async def _send(self, response: web.StreamResponse, answer: Answer) -> None:
        """Send as fast as the client reads. The sweep disconnects a client that does not read."""
        began, written, connection = self._now(), 0, self._connection
        stream, announced = answer.stream, response.content_length
        more = asyncio.Event()
        if stream is not None:
            stream.listen(partial(self._server.loop.call_soon_threadsafe, more.set))
        while True:
            more.clear()
            is_made = stream is None or stream.is_ended
            if piece := _read(stream or answer.body):
                await response.write(piece)
                written += len(piece)
                connection.deadline = self._limits.deadline(began, written - connection.waiting)
            elif is_made:
                break
            else:
                connection.is_starved = True
                await more.wait()
                connection.is_starved = False
                began = self._now() - written / self._limits.rate
                self._raise_if_lost()
        has_failed = stream is not None and stream.has_failed
        if has_failed or (announced is not None and written < announced):
            connection.abort()  # so that nobody takes it for the whole
            raise ConnectionResetError

    def _raise_if_lost(self) -> None:
        if self._connection.is_lost:
            raise ConnectionResetError


def _add(body: Spool, piece: bytes) -> None:
    try:
        body.add(piece)
    except NoRoomError:
        raise Refused(503, "no memory left for the body", wait=RETRY_AFTER) from None


def _read(body: IO[bytes] | Stream | None) -> bytes:
    return b"" if body is None else body.read(PIECE)


def _set_result(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():  # it is if the process ends
        future.set_result(result)


def _set_answer(future: "asyncio.Future[Answer | None]", answer: Answer | None) -> None:
    """Set the result, unless it is set already. None: the client has gone, or the answer was given
    before."""
    if not future.done():
        future.set_result(answer)
    elif answer is not None:
        answer.close()
