"""The mail host of the demo: what it passes on, delays, loses and duplicates between two MSHs."""

import asyncio
import base64
import io
import json
import smtplib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from demo.conversation import Way
from demo.faults import Decision, Fault
from demo.http11 import HOST
from demo.options import options_of
from demo.proxy import Proxy
from demo.sighting import UNREADABLE, sight, sight_mail
from demo.smtp import SMTP
from tests.demo.link import Rows, Script, message, runs, until
from tests.peer.mailbox import Mailbox


def as_mail(body: bytes, name: str = "1") -> bytes:
    """The package with its header document in base64, under mail headers of its own."""
    head, _, rest = body.partition(b"\r\n\r\n")
    document, _, others = rest.partition(b"\r\n--x\r\n")
    package = (
        head
        + b"\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        + base64.encodebytes(document).replace(b"\n", b"\r\n")
        + b"\r\n--x\r\n"
        + others
    )
    headers = f"Message-ID: <{name}@a>\r\nContent-Type: multipart/related; boundary=x\r\n\r\n"
    return headers.encode() + package


class MailLink:
    def __init__(self, proxy: Proxy, mailbox: Mailbox, log: io.StringIO) -> None:
        self.proxy, self.mailbox, self.log = proxy, mailbox, log

    @property
    def records(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["ended"]]

    @property
    def mails(self) -> list[bytes]:
        """What came to the other side."""
        return [one.mail for one in self.mailbox.transactions if one.raw]

    async def send(self, mail: bytes) -> int:
        """The reply to the end of the mail, or to what was refused before it."""
        return await asyncio.to_thread(self._send, mail)

    def _send(self, mail: bytes) -> int:
        with smtplib.SMTP(HOST, self.proxy.ports["a>b"], timeout=15) as client:
            client.ehlo("a.example")
            client.login("a", "secret")
            client.mail("a@a.example")
            client.rcpt("b@b.example")
            return client.data(mail)[0]


@asynccontextmanager
async def mail_link(*decisions: Decision) -> AsyncIterator[MailLink]:
    log = io.StringIO()
    with Mailbox() as mailbox:
        ways = [Way("a>b", 0, mailbox.port, Rows(), Rows())]
        async with Proxy(ways, Script(*decisions), log, SMTP) as proxy:
            yield MailLink(proxy, mailbox, log)


@runs
async def test_a_mail_is_transmitted_as_it_came_with_what_its_sender_showed() -> None:
    async with mail_link() as between:
        mail = as_mail(message("m1", 7))
        assert await between.send(mail) == 250

        assert between.mails == [mail]
        (transaction,) = between.mailbox.transactions
        assert transaction.shown() == "a:secret"
        assert transaction.command("MAIL") == "MAIL FROM:<a@a.example>"
        assert transaction.command("RCPT") == "RCPT TO:<b@b.example>"
        (record,) = between.records
        assert (record["kind"], record["message_id"], record["answered"]) == ("Normal", "m1", 250)
        assert record["copies"][0]["status"] == 250


@runs
async def test_reply_of_the_other_side_is_passed_on() -> None:
    async with mail_link() as between:
        between.mailbox.script("RCPT", "550-no\r\n550 never")
        assert await between.send(as_mail(message())) == 550


@runs
async def test_a_delayed_mail_is_taken_at_once_and_transmitted_later() -> None:
    async with mail_link(Decision(Fault.DELAY, seconds=0.3)) as between:
        assert await between.send(as_mail(message())) == 250
        assert not between.mails
        assert not between.proxy.idle
        await until(lambda: between.mails and between.proxy.idle)
        assert between.records[0]["fault"] == "delay"


@runs
async def test_lost_mail_is_accepted_and_not_passed_on() -> None:
    async with mail_link(Decision(Fault.DROP_REQUEST, withheld=True)) as between:
        assert await between.send(as_mail(message())) == 250
        assert not between.mailbox.transactions
        assert between.records[0]["copies"] == []


@runs
async def test_duplicated_mail_arrives_twice() -> None:
    async with mail_link(Decision(Fault.DUPLICATE)) as between:
        assert await between.send(as_mail(message())) == 250
        assert len(between.mails) == 2


@runs
async def test_unavailable_host_is_a_451() -> None:
    async with mail_link(Decision(Fault.UNAVAILABLE)) as between:
        assert await between.send(as_mail(message())) == 451
        between.mailbox.script("", "")
        assert await between.send(as_mail(message())) == 451
        assert not between.mails


def test_copies_have_the_same_package_and_other_mail_headers() -> None:
    first, second = (sight_mail(as_mail(message("m1", 7), name)) for name in ("1", "2"))
    assert first == second
    assert (first.kind, first.message_id, first.sequence_number) == ("Normal", "m1", 7)
    assert first.lane == sight(message("m1", 7)).lane
    assert first != sight_mail(as_mail(message("m1", 7, filler="x")))


@pytest.mark.parametrize("mail", [b"", b"Subject: x\r\n\r\nhello", b"\xff\r\n\r\n\x00"])
def test_a_mail_without_a_message_is_unreadable(mail: bytes) -> None:
    assert sight_mail(mail).kind == UNREADABLE


@pytest.mark.parametrize(
    ("given", "why"),
    [({"routers": 7}, "Between 0 and 6"), ({"routers": 1, "transport": "smtp"}, "one mail host")],
)
def test_unsupported_option_is_one_clear_sentence(given: dict[str, Any], why: str) -> None:
    values: dict[str, Any] = dict.fromkeys(
        ("drop_request", "drop_response", "duplicate", "delay", "reorder", "unavailable", "reset"),
        0.0,
    )
    values |= {"messages": 1, "pairs": 1, "seed": 1, "kill": False, "once": True}
    values |= {"dialect": "trp", "ordered": False, "tls": False}
    values |= {"signed": False, "encrypted": False}
    values |= {"documents": None, "routers": 0, "route_mode": "hop", "transport": "http"}
    with pytest.raises(ValueError, match=why):
        options_of(values | given)
