"""One connection of a mail client, on top of aiosmtpd's: bounds, and no refusal in silence."""

import asyncio
from contextlib import suppress
from typing import Any, AnyStr, Protocol

from aiosmtpd.smtp import MISSING, SMTP, Envelope, Session, syntax

from msh.protocol.reason import Refusal
from partners.models import Partner

from .bounds import Bounds

LINGER = 5.0
"""Seconds in which a client may still read why its connection is closed."""
NEVER = 7 * 86_400.0
"""Seconds after which aiosmtpd closes a connection, without a word: `_deadline` comes first."""
STEP = 64 * 1024
"""Bytes of a mail after which its deadline is moved, and room is taken."""
_REFUSALS = {
    "452": Refusal.BUSY,
    **dict.fromkeys(("454", "530", "535", "538"), Refusal.CREDENTIALS),
    "552": Refusal.TOO_LARGE,
}
"""By the status of a reply, of aiosmtpd's too."""


class MailEnvelope(Envelope):
    """`candidates` may have sent the mail, `partner` has: the one that we are the recipient to. A
    mail that only reports of others, from no address, is of a mail host: it has no partner."""

    def __init__(self) -> None:
        super().__init__()
        self.candidates: list[Partner] = []
        self.partner: Partner | None = None
        self.only_reports = False
        self.client = ""


class Hooks(Protocol):
    """What is asked of the handler of mails, besides aiosmtpd's own hooks."""

    async def handle_DATA(  # noqa: N802
        self, server: "Server", session: Session, envelope: MailEnvelope
    ) -> str: ...

    def reply_to(self, error: Exception, client: str) -> str: ...

    async def note_refusal(self, server: "Server", refusal: Refusal, reply: str) -> None: ...

    def log_refusal(
        self, client: str, refusal: Refusal, reply: str, error: Exception | None = None
    ) -> None: ...


class _Reading(asyncio.StreamReaderProtocol):
    """Keeps the reader that aiosmtpd hands to asyncio's class, which has no name for it."""

    def __init__(self, stream_reader: asyncio.StreamReader, *given: Any, **options: Any) -> None:
        self.reader = stream_reader
        super().__init__(stream_reader, *given, **options)


class Server(SMTP, _Reading):
    """`partner` is who the client has shown to be, if it has: its refusals are counted."""

    event_handler: Hooks

    def __init__(self, handler: Hooks, bounds: Bounds, **options: Any) -> None:
        self._bounds = bounds
        self._address: str | None = None
        self._is_counted = False
        self._is_served = False  # aiosmtpd talks with the client
        self._closes: asyncio.Task[None] | None = None
        self.partner: Partner | None = None
        self.is_noted = False
        """Whether the reply that is given next was written down already, if it refuses."""
        self.refusal: Refusal | None = None
        """Why it is given, if the status of the reply does not say it."""
        self._deadline: asyncio.TimerHandle | None = None
        super().__init__(handler, timeout=NEVER, **options)
        self._shown_by = self.loop.time() + bounds.limits.stranger

    def _create_envelope(self) -> MailEnvelope:
        return MailEnvelope()

    # --- the connection ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Once more after STARTTLS, of the same connection. A client that has gone has no name."""
        if self._address is None:
            peer = transport.get_extra_info("peername")
            address = str(peer[0]) if peer else ""
            if why := self._bounds.connect(address):
                self._turn_away(transport, address, why)
                return
            self._address, self._is_counted = address, True
        try:
            super().connection_made(transport)
        except BaseException:
            transport.abort()  # type: ignore[attr-defined]
            raise
        self._is_served = True
        self._extend()

    def _turn_away(self, transport: Any, address: str, why: str) -> None:
        reply = f"421 4.7.0 {why}"
        self.event_handler.log_refusal(address, Refusal.BUSY, reply)
        transport.write(reply.encode() + b"\r\n")
        transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._is_counted or self._address is None:
            return  # turned away, or lost before: aiosmtpd says so itself if STARTTLS fails
        self._is_counted = False
        self._bounds.disconnect(self._address)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._is_served:
            super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if self._address is not None:
            super().data_received(data)

    def eof_received(self) -> bool | None:
        return super().eof_received() if self._address is not None else None

    def know(self, partner: Partner) -> None:
        self.partner = partner
        self._extend()

    def _extend(self, seconds: float | None = None) -> None:
        """Give the client so many seconds from now on. Before authentication, further commands do
        not extend the time limit, however many."""
        if seconds is None and self.partner is None:
            seconds = self._shown_by - self.loop.time()
            if seconds <= 0:
                self._time_out()
                return
        if self._deadline is not None:
            self._deadline.cancel()
        if self._is_counted:
            seconds = seconds or self._bounds.limits.idle
            self._deadline = self.loop.call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        if self._closes is None and self._is_counted:
            self._closes = self.loop.create_task(self._end("421 4.4.2 too slow, closing"))

    async def _end(self, reply: str) -> None:
        """End the connection, with a reply if the client still reads."""
        transport: Any = self.transport
        if transport is None:
            return
        self.refusal = Refusal.INCOMPLETE
        await self._note(reply)
        transport.write(reply.encode() + b"\r\n")
        transport.close()
        self.loop.call_later(LINGER, transport.abort)

    # --- replies ----------------------------------------------------------------------------------

    async def push(self, status: AnyStr) -> None:
        if isinstance(status, str) and status[:1] in ("4", "5"):
            await self._note(status)
        else:
            self._extend()
        self.is_noted, self.refusal = False, None
        with suppress(ConnectionError):  # it has gone; connection_lost cleans up
            await super().push(status)

    async def handle_exception(self, error: Exception) -> str:
        """Nothing was taken; the sender tries again."""
        self.is_noted = True
        return self.event_handler.reply_to(error, peer_of(self.session))

    async def _note(self, status: str) -> None:
        if not self.is_noted:
            refusal = self.refusal or _REFUSALS.get(status[:3], Refusal.REQUEST)
            await self.event_handler.note_refusal(self, refusal, status)

    async def challenge_auth(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().challenge_auth(*args, **options)
        except ValueError:  # of the reader
            await self.push("500 5.5.6 Line too long")
            return MISSING

    # --- DATA -------------------------------------------------------------------------------------

    @syntax("DATA")
    async def smtp_DATA(self, arg: str | None) -> None:  # noqa: N802
        """Replaces aiosmtpd's command: it takes lines of any length (RFC 5321 §4.5.3.1.6), within
        bounds."""
        session: Any = self.session
        envelope: Any = self.envelope
        if await self.check_helo_needed():
            return
        if not envelope.rcpt_tos:
            await self.push("503 Error: need RCPT command")
            return
        if arg:
            await self.push("501 Syntax: DATA")
            return
        await self.push("354 End data with <CR><LF>.<CR><LF>")
        mail = _Mail(self._bounds, envelope.partner, self.data_size_limit or 0)
        try:
            await self._read(mail)
            self._extend()
            if mail.why_not:
                await self.push(mail.why_not)
                return
            envelope.content = mail.content()
            await self.push(await self.event_handler.handle_DATA(self, session, envelope))
        finally:
            mail.release()
            self.envelope = self._create_envelope()  # the next mail

    async def _read(self, mail: "_Mail") -> None:
        """Lines end in CRLF and nothing else: one that ends in a bare LF goes on, so that nobody
        hides a second mail in the first."""
        limits, began, moved = self._bounds.limits, self.loop.time(), 0
        at_line_start = True
        while True:
            try:
                piece = await self.reader.readuntil(b"\r\n")
                ends = True
            except asyncio.LimitOverrunError as long:
                piece = await self.reader.readexactly(long.consumed)
                ends = False
            if at_line_start and piece == b".\r\n":
                return
            mail.add(piece[1:] if at_line_start and piece.startswith(b".") else piece)
            at_line_start = ends
            moved += len(piece)
            if moved % STEP < len(piece):
                deadline = began + limits.idle + moved / limits.rate
                self._extend(max(0.1, deadline - self.loop.time()))


class _Mail:
    """The part of a mail that has arrived. A mail that is too large is discarded at once, but read
    to its end."""

    def __init__(self, bounds: Bounds, partner: Partner | None, limit: int) -> None:
        self._bounds, self._limit = bounds, limit
        self._key = None if partner is None else partner.pk
        self._content = bytearray()
        self._held = 0
        self.why_not = ""

    def add(self, piece: bytes) -> None:
        if self.why_not:
            return
        size = len(self._content) + len(piece)
        if size > self._limit:
            self._drop(f"552 5.3.4 The mail has more than {self._limit} bytes")
        elif size > self._held and not self._take(max(STEP, size - self._held)):
            self._drop("452 4.3.1 Too many mails are under way, send it again later")
        else:
            self._content += piece

    def content(self) -> bytes:
        return bytes(self._content)

    def _take(self, size: int) -> bool:
        taken = self._bounds.hold(self._key, size)
        self._held += size if taken else 0
        return taken

    def _drop(self, why: str) -> None:
        self.why_not = why
        self.release()

    def release(self) -> None:
        self._content = bytearray()
        self._bounds.release(self._key, self._held)
        self._held = 0


def peer_of(session: Session | None) -> str:
    """The client's address; empty if it had gone before we looked."""
    return str(session.peer[0]) if session and session.peer else ""
