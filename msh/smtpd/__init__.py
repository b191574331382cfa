"""Partners come in by mail: one transaction, one message, handed to the same flow as a POST.

The sender is known before DATA: by its credential (AUTH), or by the address it sends from, if its
partner's networks admit the client. What the answer has to say stands in the reply
(docs/spec/wire.md, Mail).
"""

import asyncio
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import psycopg
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.db.models import Q

from msh import processes, stopping, wire
from msh.allowance import Limited, guesses
from msh.certificates import ServerCertificate
from msh.flows.receiving.bounces import note_automatic_reply, take_report
from msh.flows.receiving.dialects import receiver_of
from msh.flows.receiving.incoming import TAKEN as TAKEN_STATUS
from msh.flows.receiving.incoming import Answer, Incoming
from msh.protocol.errors import RefusedTooOften, Unreadable
from msh.protocol.reason import Refusal
from msh.protocol.uri import mail_address, normalised
from msh.store import plans
from msh.store.receiving.refusals import count_unanswered, note_refused
from msh.store.receiving.senders import find_sender_by_login, is_known_login
from partners.models import Identity, Partner, our_identity

from .bounds import Bounds, Limits
from .session import MailEnvelope, Server, peer_of

logger = logging.getLogger(__name__)
logging.getLogger("mail.log").setLevel(logging.ERROR)  # aiosmtpd tells every command

Result = TypeVar("Result")

FILES_BESIDE = 100  # open files that are no connections of clients
THREADS = 8  # mails stored at once: each has a connection to the database
COMMAND_LIMITS = {"AUTH": 3, "*": 1000}
"""Limits of commands on one connection: a client that guesses passwords is disconnected."""
REASON_LIMIT = 200  # characters

TAKEN = "250 2.0.0 Message accepted"
OK = "250 OK"
NOBODY = "<>"
"""The sender of a mail that nobody may answer, as aiosmtpd gives it."""
STRANGER = "550 5.7.1 Sender not authorized: authenticate first, or have your network allowed"
TOO_MANY_GUESSES = "454 4.7.0 Too many failed authentications from your address"
_REPLIES = {400: "554 5.6.0", 403: "550 5.7.1", 413: "552 5.3.4", 415: "554 5.6.1"}


@dataclass(frozen=True, slots=True)
class Listening:
    """The address to listen on. Without a certificate AUTH is offered on loopback only. `fd` is the
    number of a socket that is open there already."""

    host: str
    port: int
    tls: ServerCertificate | None = None
    fd: int | None = None

    @property
    def auth_needs_tls(self) -> bool:
        try:
            loopback = ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            loopback = self.host == "localhost"
        return self.tls is not None or not loopback


def mail_limit() -> int:
    """Bytes of a mail: base64 makes three bytes four, and lines of them."""
    return int(settings.MSH_MESSAGE_LIMIT) * 3 // 2 + wire.HEADER_LIMIT


def default_limits() -> Limits:
    """Return limits with room for the largest mail of two partners at once."""
    limits = Limits()
    return replace(limits, memory=max(limits.memory, 4 * mail_limit()))


class Handler:
    """The callbacks of aiosmtpd. The database is used in threads, so that the event loop never
    waits for it."""

    def __init__(self, threads: ThreadPoolExecutor, limits: Limits | None = None) -> None:
        self._threads = threads
        self.bounds = Bounds(limits or default_limits())
        self._lines = Limited(logger)

    async def auth_PLAIN(self, server: Server, args: list[str]) -> AuthResult:  # noqa: N802
        return await self._known(server, await server.auth_PLAIN(server, args))

    async def auth_LOGIN(self, server: Server, args: list[str]) -> AuthResult:  # noqa: N802
        return await self._known(server, await server.auth_LOGIN(server, args))

    async def handle_MAIL(  # noqa: N802
        self,
        server: Server,
        session: Session,
        envelope: MailEnvelope,
        address: str,
        options: list[str],
    ) -> str:
        envelope.only_reports = address == NOBODY and not session.authenticated
        if envelope.only_reports:
            candidates = await self._in_thread(_reported_to, peer_of(session))
        elif session.authenticated:
            candidates = await self._in_thread(_by_login, session.auth_data, peer_of(session))
        else:
            candidates = await self._in_thread(_senders, address, peer_of(session))
        if not candidates:
            server.refusal = Refusal.NETWORK if server.partner else Refusal.CREDENTIALS
            return STRANGER
        if len(candidates) == 1 and not envelope.only_reports:
            server.know(candidates[0])
        envelope.candidates = candidates
        envelope.client = peer_of(session)
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return OK

    async def handle_RCPT(  # noqa: N802
        self,
        server: Server,
        session: Session,
        envelope: MailEnvelope,
        address: str,
        options: list[str],
    ) -> str:
        found = await self._in_thread(_recipients, envelope.candidates, address)
        if found and envelope.only_reports:
            envelope.candidates = found
            envelope.rcpt_tos.append(address)
            return OK
        partner = found[0] if found else None
        if partner is None:
            server.refusal = Refusal.AGREEMENT
            return "550 5.1.1 Recipient unknown for this sender"
        if envelope.partner not in (None, partner):
            server.refusal = Refusal.REQUEST
            return "452 4.5.3 Only one recipient per mail"
        server.know(partner)
        envelope.partner = partner
        envelope.rcpt_tos.append(address)
        return OK

    async def handle_DATA(  # noqa: N802
        self, server: Server, session: Session, envelope: MailEnvelope
    ) -> str:
        try:
            answer = await self._in_thread(_take, envelope)
        except Unreadable as refusal:
            server.refusal = refusal.refusal
            return f"{_REPLIES[refusal.status]} {_line(str(refusal))}"
        except RefusedTooOften as refusal:
            server.is_noted = True
            if envelope.partner:
                await self._in_thread(count_unanswered, envelope.partner.pk)
            return f"451 4.7.1 {_line(str(refusal))}"
        server.is_noted = True  # by the flow
        return _reply(answer)

    def reply_to(self, error: Exception, client: str) -> str:
        if isinstance(error, (DatabaseError, psycopg.Error)):
            logger.warning("451 to a partner, the database does not answer: %s", error)
            return "451 4.3.0 temporarily unavailable, nothing was stored"
        reply = "451 4.3.0 internal error, nothing was stored"
        self.log_refusal(client, Refusal.INTERNAL, reply, error)
        return reply

    async def note_refusal(self, server: Server, refusal: Refusal, reply: str) -> None:
        """A line of the log; of a partner that is known, an event of its link too."""
        self.log_refusal(peer_of(server.session), refusal, reply)
        if server.partner is not None:
            about = (server.partner.pk, "MailRefused", refusal, reply)
            await self._in_thread(note_refused, *about)

    def log_refusal(
        self, client: str, refusal: Refusal, reply: str, error: Exception | None = None
    ) -> None:
        self._lines.warning(client, f"mail refused: {reply}", error, code=refusal)

    async def _known(self, server: Server, shown: AuthResult) -> AuthResult:
        """aiosmtpd has read what was shown; whose is it? Each mail asks again: the password may be
        deleted while the session lasts."""
        if not shown.success:  # it was answered, by what cannot be read of it
            return AuthResult(success=False, handled=True)
        client = peer_of(server.session)
        login: Any = shown.auth_data
        if guesses.wait(client) and not await self._in_thread(
            is_known_login, login.login, login.password
        ):
            return AuthResult(success=False, handled=False, message=TOO_MANY_GUESSES)
        partner = await self._in_thread(find_sender_by_login, login.login, login.password)
        if partner is None:
            guesses.spend(client)
            return AuthResult(success=False, handled=False)
        server.know(partner)
        if not partner.admits(client):
            server.refusal = Refusal.NETWORK
            reply = f"550 5.7.1 partner {partner.name} is not allowed from {client}"
            return AuthResult(success=False, handled=False, message=reply)
        return AuthResult(success=True, handled=False, auth_data=login)

    async def _in_thread(self, work: Callable[..., Result], *values: object) -> Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _on_fresh_connection, work, *values)


def _on_fresh_connection(work: Callable[..., Result], *values: object) -> Result:
    close_old_connections()
    plans.plan_for_hot_path()
    try:
        return work(*values)
    finally:
        close_old_connections()


def _by_login(login: LoginPassword, client: str) -> list[Partner]:
    partner = find_sender_by_login(login.login, login.password)
    return [partner] if partner and partner.admits(client) else []


def _senders(address: str, client: str) -> list[Partner]:
    named = Partner.objects.filter(uri_normalised=normalised(f"mailto:{address}"))
    return [one for one in named if one.is_shown_by(client)]


def _reported_to(client: str) -> list[Partner]:
    """Return the partners about which a mail host at this address may send reports: the partners
    that we reach by mail and whose networks contain it, or all of them if it is the host that takes
    our mail."""
    by_mail = (
        Q(uri__startswith="mailto:")
        | Q(address__startswith="mailto:")
        | Q(error_address__startswith="mailto:")
    )
    partners = list(Partner.objects.filter(by_mail))
    if client in _addresses_of(settings.EMAIL_HOST):
        return partners
    return [one for one in partners if one.is_shown_by(client)]


def _addresses_of(host: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


def _recipients(candidates: list[Partner], address: str) -> list[Partner]:
    """The candidates to which we are this address, for messages or for Errors."""
    to, identity = normalised(f"mailto:{address}"), our_identity()
    return [one for one in candidates if to in _addresses_to(one, identity)]


def _addresses_to(partner: Partner, identity: Identity) -> set[str]:
    ours = partner.our_uri or identity.uri
    return {normalised(ours), normalised(identity.error_uri_for(ours))}


def _take(envelope: MailEnvelope) -> Answer:
    """Take a mail. Answers to be sent are committed on return. A report or an automatic reply is
    never answered (RFC 3834)."""
    partner = envelope.partner
    mail = envelope.content if isinstance(envelope.content, bytes) else b""
    concerned = [partner] if partner else envelope.candidates
    if report := wire.delivery_report(mail):
        take_report(concerned, report, envelope.client)
        return Answer(TAKEN_STATUS, "delivery report")
    if partner is None or wire.is_automatic(mail):
        said = "no delivery report" if partner is None else ""
        note_automatic_reply(concerned, said, envelope.client)
        return Answer(TAKEN_STATUS, "automatic reply, nothing was done")
    return _receive(partner, mail)


def _receive(partner: Partner, mail: bytes) -> Answer:
    content_type, body = wire.package_of(mail)
    if len(body) > settings.MSH_MESSAGE_LIMIT * 3 // 2:
        raise Unreadable(f"more than {settings.MSH_MESSAGE_LIMIT} bytes", Refusal.TOO_LARGE)
    incoming = Incoming(content_type, body)
    return receiver_of(incoming).receive_by_mail(partner, incoming)


def _reply(answer: Answer) -> str:
    """A message that is refused by an Error was taken."""
    if answer.status < 300:
        return f"{TAKEN}: {_line(answer.reason)}" if answer.reason else TAKEN
    if answer.wait is not None:
        return f"451 4.3.1 {_line(answer.reason)}"
    return f"{_REPLIES.get(answer.status, _REPLIES[400])} {_line(answer.reason)}"


def _line(reason: str) -> str:
    return " ".join(reason.split())[:REASON_LIMIT].encode("ascii", "replace").decode()


def _as_shown(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, login: LoginPassword
) -> AuthResult:
    return AuthResult(success=True, handled=False, auth_data=login)


def make_server(listening: Listening, handler: Handler) -> Server:
    return Server(
        handler,
        handler.bounds,
        data_size_limit=mail_limit(),
        hostname=mail_address(our_uri()).rpartition("@")[2] or "msh",
        ident="MSH",
        tls_context=listening.tls.context() if listening.tls else None,
        auth_require_tls=listening.auth_needs_tls,
        authenticator=_as_shown,
        command_call_limit=COMMAND_LIMITS,
    )


def our_uri() -> str:
    return str(settings.MSH_URI)


async def serve(listening: Listening, on_ready: Callable[[int], None]) -> None:
    """Take mail until SIGTERM or SIGINT. `on_ready` gets the port."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    limits = default_limits()
    files = processes.raise_file_limit() - FILES_BESIDE
    limits = replace(limits, connections=max(1, min(limits.connections, files)))
    with ThreadPoolExecutor(THREADS, "msh-smtpd") as threads:
        handler = Handler(threads, limits)
        make = partial(make_server, listening, handler)
        if listening.fd is None:
            server = await loop.create_server(make, listening.host, listening.port)
        else:
            server = await loop.create_server(make, sock=socket.socket(fileno=listening.fd))
        async with server:
            on_ready(server.sockets[0].getsockname()[1])
            await ended.wait()
            stopping.begin()  # of the mail that is being taken
