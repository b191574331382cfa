"""Mail: one message, one transaction of RFC 5321 with the mail host of the settings.

The host takes the mail for us and brings it on, or is the partner's MSH itself. Its 250 is what a
2xx is over HTTP: transmitted, and no more. A copy is never taken for unsent (D18).
"""

import asyncio
import ipaddress
import time
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate, make_msgid
from enum import StrEnum
from typing import NamedTuple, Self

import aiosmtplib
from django.conf import settings

from msh.faults import reach
from msh.protocol.attempt import DETAIL_LIMIT, AttemptOutcome, AttemptResult
from msh.protocol.mail import about_header
from msh.protocol.reason import Reason
from msh.protocol.uri import mail_address
from msh.transport.http import one_line
from msh.transport.job import Job
from msh.transport.tls import client_context

GOODBYE_LIMIT = 2.0  # seconds for QUIT: the mail was taken or not before it


class Login(NamedTuple):
    user: str
    password: str


@dataclass(frozen=True, slots=True)
class MailHost:
    """The mail host that takes our mail, and how it is reached: the setting EMAIL_URL."""

    host: str
    port: int
    starttls: bool
    tls: bool
    login: Login | None

    @classmethod
    def of_settings(cls) -> Self:
        user, password = settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD
        return cls(
            host=settings.EMAIL_HOST,
            port=settings.EMAIL_PORT,
            starttls=settings.EMAIL_USE_TLS,
            tls=settings.EMAIL_USE_SSL,
            login=Login(user, password) if user else None,
        )

    @property
    def is_private(self) -> bool:
        """Whether what we show it is seen by nobody else."""
        try:
            loopback = ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            loopback = self.host == "localhost"
        return self.tls or self.starttls or loopback


class Phase(StrEnum):
    """The progress of a transaction. From MAIL on, a 5xx is about this mail."""

    CONNECT = "connect"
    EHLO = "EHLO"
    STARTTLS = "STARTTLS"
    AUTH = "AUTH"
    MAIL = "MAIL FROM"
    RCPT = "RCPT TO"
    DATA = "DATA"


_ABOUT_THE_MAIL = frozenset({Phase.MAIL, Phase.RCPT, Phase.DATA})


class _NotPossible(Exception):
    """The transaction cannot be made as things are configured. `str()` names the cure."""


class SmtpTransport:
    """A connection for each mail. Use it inside one event loop."""

    async def post(self, job: Job) -> AttemptResult | None:
        transaction = _Transaction(MailHost.of_settings(), job)
        try:
            async with asyncio.timeout(job.deadline):
                return await transaction.run()
        except TimeoutError:
            return transaction.failed(f"no answer within {job.deadline:g} s")
        except aiosmtplib.SMTPResponseException as refusal:
            return transaction.refused(refusal.code, refusal.message)
        except (_NotPossible, aiosmtplib.SMTPException, OSError, ValueError) as error:
            return transaction.failed(f"{type(error).__name__}: {error}".removeprefix("_"))
        finally:
            await transaction.close()

    async def close(self) -> None:
        """Nothing is kept between two mails."""


class _Transaction:
    def __init__(self, host: MailHost, job: Job) -> None:
        self._host = host
        self._job = job
        self._phase = Phase.CONNECT
        self._sender = mail_address(job.sender)
        self._client = aiosmtplib.SMTP(
            hostname=host.host,
            port=host.port,
            use_tls=host.tls,
            start_tls=False,
            timeout=job.deadline,
            local_hostname=self._sender.rpartition("@")[2] or "localhost",
            tls_context=client_context() if host.tls or host.starttls else None,
        )

    async def run(self) -> AttemptResult | None:
        await self._open()
        self._phase = Phase.MAIL
        mail = self._mail()
        size = [f"SIZE={len(mail)}"] if self._client.supports_extension("size") else []
        await self._client.mail(self._sender, options=size)
        self._phase = Phase.RCPT
        await self._client.rcpt(mail_address(self._job.url))
        self._phase = Phase.DATA
        if self._job.is_late(time.monotonic()):
            return None
        self._job.note_begin()
        before, after = self._job.crash_points
        reach(before)
        reply = await self._client.data(mail)
        reach(after)
        return self._result(AttemptOutcome.TRANSMITTED, reply.code, reply.message)

    async def _open(self) -> None:
        await self._client.connect()
        self._phase = Phase.EHLO
        await self._client.ehlo()
        if self._host.starttls:
            self._phase = Phase.STARTTLS
            await self._client.starttls()
            await self._client.ehlo()
        if login := self._login():
            self._phase = Phase.AUTH
            await self._client.login(*login)

    def _login(self) -> Login | None:
        """The mail host's own, else what we show the partner, whose MSH it then is."""
        kind, _, value = self._job.authorization.partition(" ")
        if self._host.login or not kind:
            return self._host.login
        if kind != "Basic":
            raise _NotPossible(
                f"{kind} cannot be used over mail: set user:password for the partner"
            )
        if not self._host.is_private:
            raise _NotPossible(
                "the user:password of a partner is not sent without TLS: EMAIL_URL=smtp+tls://…"
            )
        user, _, password = b64decode(value).decode().partition(":")
        return Login(user, password)

    def _mail(self) -> bytes:
        """Date and Message-ID are the mail's own: mail hosts drop a second one of the same name."""
        domain = self._sender.rpartition("@")[2] or "localhost"
        sender = f"From: <{self._sender}>\r\n" if self._sender else ""
        # A single entity is in base64 as a whole, a package by its parts.
        is_package = self._job.content_type.startswith("multipart/")
        encoding = "" if is_package else "Content-Transfer-Encoding: base64\r\n"
        own = "".join(f"{name}: {value}\r\n" for name, value in self._job.headers)
        head = (
            f"{sender}"
            f"To: <{mail_address(self._job.url)}>\r\n"
            "Subject: ebXML\r\n"
            f"Date: {formatdate(usegmt=True)}\r\n"
            f"Message-ID: {make_msgid(domain=domain)}\r\n"
            f"{about_header(self._job.message_id)}"
            "MIME-Version: 1.0\r\n"
            f"Content-Type: {self._job.content_type}\r\n"
            f"{encoding}{own}\r\n"
        )
        return head.encode("ascii") + self._job.body

    def refused(self, code: int, text: str) -> AttemptResult:
        """4xx: later. 5xx about the mail: never. 5xx about us: later, with a warning (D35)."""
        outcome = AttemptOutcome.FAILED
        if code >= 500:
            about_us = self._phase not in _ABOUT_THE_MAIL
            outcome = AttemptOutcome.DOUBTED if about_us else AttemptOutcome.REFUSED
        return self._result(outcome, code, text)

    def failed(self, detail: str) -> AttemptResult:
        text = one_line(f"{self._phase}: {detail}", DETAIL_LIMIT)
        return AttemptResult(AttemptOutcome.FAILED, detail=text, reason=Reason.MAIL)

    def _result(self, outcome: AttemptOutcome, code: int, text: str) -> AttemptResult:
        detail = one_line(f"{self._phase}: {code} {text}", DETAIL_LIMIT)
        return AttemptResult(outcome, status=code, detail=detail, reason=Reason.MAIL)

    async def close(self) -> None:
        with suppress(TimeoutError, aiosmtplib.SMTPException, OSError):
            async with asyncio.timeout(GOODBYE_LIMIT):
                if self._client.is_connected:
                    await self._client.quit()
        self._client.close()
