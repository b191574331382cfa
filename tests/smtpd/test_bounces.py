"""Mails of ours that come back, and what machines answer: noted, never answered."""

import smtplib
from collections.abc import Iterator
from typing import Any

import pytest

from msh.flows.sending.answered import take_answer
from msh.flows.sending.submit import submit
from msh.models import History, InboundMessage, OutboundLink, OutboundMessage, Signal
from msh.protocol.attempt import AttemptOutcome
from msh.protocol.mail import about_header
from msh.transport import once
from partners.models import Agreement, Credential, CredentialKind, Partner, digest_of
from tests.flows import byhand
from tests.flows.flying import Sky, make_sky
from tests.peer.mailbox import Mailbox

from .test_smtpd import acme

__all__ = ["acme"]

US, THEM = "msh@us.example", "ebms@them.example"
FULL = "Status: 5.2.2\r\nDiagnostic-Code: smtp; 552 mailbox full"
LATER = "Status: 4.4.1\r\nDiagnostic-Code: smtp; 451 host is down"


@pytest.fixture
def sky(db: None) -> Sky:
    sky = make_sky()
    partner = sky.partner
    partner.our_uri, partner.uri = f"mailto:{US}", f"mailto:{THEM}"
    partner.allowed_networks = "127.0.0.1"
    partner.save()
    return sky


@pytest.fixture
def smtp(port: int, sky: Sky) -> Iterator[smtplib.SMTP]:
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("mail.them.example")
        yield smtp


def sent(sky: Sky, settings: Any) -> tuple[OutboundMessage, bytes]:
    """A message of ours, and the mail that a host has taken."""
    message = sky.submit("<order/>")
    with Mailbox() as mailbox:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mailbox.port
        (job,) = sky.poll()
        assert once.post(job).outcome is AttemptOutcome.TRANSMITTED
        (mail,) = [one.mail for one in mailbox.transactions]
    return message, mail


def bounce(
    returned: bytes, status: str, kind: str = "message/rfc822", action: str = "failed"
) -> bytes:
    lines = (
        "From: MAILER-DAEMON@mail.them.example",
        f"To: {US}",
        "Message-ID: <dsn@mail.them.example>",
        "Auto-Submitted: auto-replied",
        'Content-Type: multipart/report; report-type=delivery-status; boundary="=_b"',
        "",
        "--=_b",
        "Content-Type: text/plain",
        "",
        "Your mail could not be delivered.",
        "--=_b",
        "Content-Type: message/delivery-status",
        "",
        "Reporting-MTA: dns; mail.them.example",
        "",
        f"Final-Recipient: rfc822; {THEM}",
        f"Action: {action}",
        status,
        "--=_b",
        f"Content-Type: {kind}",
        "",
    )
    return "\r\n".join(lines).encode() + b"\r\n" + returned + b"\r\n--=_b--\r\n"


def send(smtp: smtplib.SMTP, mail: bytes, sender: str = "<>") -> tuple[int, str]:
    assert smtp.docmd(f"MAIL FROM:{sender}")[0] == 250
    assert smtp.rcpt(US)[0] == 250
    code, text = smtp.data(mail)
    return code, text.decode()


def noted(message_id: str) -> list[str]:
    rows = History.objects.filter(event="MailBounced", message_id=message_id, subject="message")
    return list(rows.values_list("detail", flat=True))


def state(message: OutboundMessage) -> str:
    message.refresh_from_db()
    return message.state


def head_of(mail: bytes) -> bytes:
    return mail.partition(b"\r\n\r\n")[0] + b"\r\n"


@pytest.mark.parametrize("form", ["whole", "cut", "head"])
def test_a_bounce_of_class_5_is_a_refusal_of_the_message(
    smtp: smtplib.SMTP, sky: Sky, settings: Any, form: str
) -> None:
    message, mail = sent(sky, settings)
    returned = {"whole": mail, "cut": mail[: len(head_of(mail)) + 900], "head": head_of(mail)}[form]
    kind = "text/rfc822-headers" if form == "head" else "message/rfc822"

    assert send(smtp, bounce(returned, FULL, kind)) == (
        250,
        "2.0.0 Message accepted: delivery report",
    )

    assert noted(message.message_id) == ["bounced: 5.2.2 552 mailbox full"]
    assert state(message) == "failed"
    assert not InboundMessage.objects.exists()
    assert not Signal.objects.exists()


@pytest.mark.parametrize(
    ("status", "action", "words"),
    [
        (LATER, "failed", "bounced: 4.4.1 451 host is down"),
        (LATER, "delayed", "delayed: 4.4.1 451 host is down"),
        ("Status: 2.0.0", "relayed", "relayed: 2.0.0"),
        ("Status: 5.2.2", "delayed", "delayed: 5.2.2"),
    ],
)
def test_other_reports_are_noted_and_the_retries_go_on(
    smtp: smtplib.SMTP, sky: Sky, settings: Any, status: str, action: str, words: str
) -> None:
    message, mail = sent(sky, settings)
    before = state(message)
    assert send(smtp, bounce(mail, status, action=action))[0] == 250
    assert noted(message.message_id) == [words]
    assert state(message) == before


def test_the_message_is_found_by_what_the_envelope_says(
    smtp: smtplib.SMTP, sky: Sky, settings: Any
) -> None:
    """Of another MSH's mail, as text: by its MessageId, and by a Message-ID that is the same."""
    message, _ = sent(sky, settings)
    element = f"<eb:MessageId>{message.message_id}</eb:MessageId>"
    plain = f"Message-ID: <x@y>\r\nContent-Type: text/xml\r\n\r\n<a>{element}</a>"
    assert send(smtp, bounce(plain.encode(), LATER))[0] == 250
    same = f"Message-ID: <{message.message_id}>\r\n"
    assert send(smtp, bounce(same.encode(), LATER, "text/rfc822-headers"))[0] == 250
    assert len(noted(message.message_id)) >= 1
    times = History.objects.filter(event="MailBounced").values_list("times", flat=True)
    assert sum(times) == 2


def test_a_late_bounce_changes_nothing_that_is_acknowledged(
    smtp: smtplib.SMTP, sky: Sky, settings: Any
) -> None:
    message, mail = sent(sky, settings)
    take_answer(sky.partner.pk, sky.agreement.pk, message.message_id, acknowledged=True)
    assert send(smtp, bounce(mail, FULL))[0] == 250
    assert state(message) == "acknowledged"
    assert noted(message.message_id) == ["bounced: 5.2.2 552 mailbox full"]


def test_a_report_of_no_message_is_an_event_of_the_link(smtp: smtplib.SMTP, sky: Sky) -> None:
    assert send(smtp, bounce(b"Message-ID: <else@where>\r\n\r\n", FULL))[0] == 250
    (row,) = History.objects.filter(event="MailBounced")
    assert (row.subject, row.partner, "5.2.2" in row.detail) == ("link", sky.partner, True)


def test_nobody_else_may_report(port: int, sky: Sky, settings: Any) -> None:
    message, _ = sent(sky, settings)
    settings.EMAIL_HOST = "192.0.2.1"
    Partner.objects.update(allowed_networks="192.0.2.0/24")
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("stranger.example")
        assert smtp.docmd("MAIL FROM:<>")[0] == 550
    assert noted(message.message_id) == []


def test_the_host_that_takes_our_mail_may_report(port: int, sky: Sky, settings: Any) -> None:
    message, mail = sent(sky, settings)  # EMAIL_HOST is 127.0.0.1
    Partner.objects.update(allowed_networks="")
    other = Partner.objects.create(
        name="other", our_uri=f"mailto:{US}", uri="mailto:other@else.example"
    )
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("relay.us.example")
        assert send(smtp, bounce(mail, FULL))[0] == 250
    assert noted(message.message_id) == ["bounced: 5.2.2 552 mailbox full"]
    assert not History.objects.filter(partner=other).exists()


def test_a_partner_reports_of_its_own_messages_only(port: int, sky: Sky, settings: Any) -> None:
    message, mail = sent(sky, settings)
    other = Partner.objects.create(
        name="other", our_uri=f"mailto:{US}", uri="mailto:other@else.example"
    )
    Credential.objects.create(
        partner=other, kind=CredentialKind.BASIC, sha256=digest_of("other:secret")
    )
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("else.example")
        smtp.login("other", "secret")
        assert send(smtp, bounce(mail, FULL), "<other@else.example>")[0] == 250
    assert noted(message.message_id) == []
    assert state(message) != "failed"


@pytest.mark.parametrize("sender", ["<>", f"<{THEM}>"])
def test_an_automatic_reply_changes_nothing(
    smtp: smtplib.SMTP, sky: Sky, settings: Any, sender: str
) -> None:
    message, _ = sent(sky, settings)
    before = state(message)
    reply = (
        f"From: {THEM}\r\nAuto-Submitted: auto-replied\r\nContent-Type: text/plain\r\n\r\n"
        "I am away until Monday."
    )
    code, text = send(smtp, reply.encode(), sender)
    assert (code, text) == (250, "2.0.0 Message accepted: automatic reply, nothing was done")
    assert state(message) == before
    assert not Signal.objects.exists()
    (row,) = History.objects.filter(event="AutomaticReplyReceived")
    assert (row.subject, row.partner) == ("link", sky.partner)


def test_an_msh_that_calls_its_mails_automatic_is_taken(smtp: smtplib.SMTP, sky: Sky) -> None:
    """It is no lie, and what it sends is a message all the same: here one that is refused."""
    mail = b"Auto-Submitted: auto-generated\r\nContent-Type: text/xml\r\n\r\n<x/>\r\n"
    assert send(smtp, mail, f"<{THEM}>")[0] == 554


def test_bounce_of_a_message_of_the_draft_suspends_its_link(port: int, acme: Partner) -> None:
    """As a POST that is refused does."""
    Partner.objects.update(allowed_networks="127.0.0.1")
    message = submit(Agreement.objects.get(), "Orders", "New", [])
    (job,) = byhand.poll()
    byhand.end(job)
    assert OutboundLink.objects.get().state == "waiting"
    head = f"Message-ID: <x@y>\r\n{about_header(job.message_id)}\r\n".encode()
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("mail.acme.example")
        assert send(smtp, bounce(head, LATER, "text/rfc822-headers"))[0] == 250
        assert OutboundLink.objects.get().state == "waiting"
        assert send(smtp, bounce(head, FULL, "text/rfc822-headers"))[0] == 250
    link = OutboundLink.objects.get()
    assert (link.state, link.suspended_detail) == ("suspended", "bounced: 5.2.2 552 mailbox full")
    assert noted(message.message_id) == [
        "bounced: 4.4.1 451 host is down",
        "bounced: 5.2.2 552 mailbox full",
    ]


def test_log_of_reports_about_nothing_is_limited(
    port: int, sky: Sky, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Of two partners nobody knows which one it is about: a line of the log, not without end."""
    other = make_sky().partner
    other.our_uri, other.uri = f"mailto:{US}", "mailto:else@them.example"
    other.allowed_networks = "127.0.0.1"
    other.save()
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("mail.them.example")
        for _ in range(40):
            assert send(smtp, bounce(b"Message-ID: <else@where>\r\n\r\n", FULL))[0] == 250
            smtp.rset()
    lines = [line for line in caplog.messages if "no message of ours" in line]
    assert 1 <= len(lines) <= 21
    assert "127.0.0.1" in lines[0]
