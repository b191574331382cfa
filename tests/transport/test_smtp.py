"""The mail transport against a scripted mail host (RFC 821, RFC 5321)."""

import ssl
import time
from collections.abc import Callable, Iterator
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import Finished
from msh.transport.registry import TRANSPORTS, transmits_lines_only
from tests.certificates import write_certificate
from tests.peer.mailbox import Mailbox

Transmit = Callable[..., Finished]


@pytest.fixture
def mailbox(settings: Settings) -> Iterator[Mailbox]:
    with Mailbox() as mailbox:
        point_at(settings, mailbox)
        yield mailbox


def point_at(settings: Settings, mailbox: Mailbox, **others: Any) -> None:
    given = {"USE_TLS": False, "USE_SSL": False, "HOST_USER": "", "HOST_PASSWORD": ""} | others
    for name, value in {**given, "HOST": "127.0.0.1", "PORT": mailbox.port}.items():
        setattr(settings, f"EMAIL_{name}", value)


@pytest.fixture
def send(transmit: Transmit) -> Callable[..., AttemptResult]:
    """Transmit one mail; how that ended."""

    def send(**fields: Any) -> AttemptResult:
        given = {
            "url": "mailto:orders@B.example",
            "sender": "mailto:us@a.example",
            "authorization": "",
            "body": b"--b\r\n\r\nx\r\n--b--\r\n",
        }
        result = transmit(**{**given, **fields}).result
        assert result is not None
        return result

    return send


Send = Callable[..., AttemptResult]


@pytest.mark.requirement("000-062")
def test_one_message_is_one_transaction(mailbox: Mailbox, send: Send) -> None:
    result = send()

    (transaction,) = mailbox.transactions
    assert transaction.verbs == ["EHLO", "MAIL", "RCPT", "DATA", "QUIT"]
    assert transaction.command("EHLO") == "EHLO a.example"
    assert transaction.command("MAIL").startswith("MAIL FROM:<us@a.example> SIZE=")
    assert transaction.command("RCPT") == "RCPT TO:<orders@b.example>"
    assert (result.outcome, result.status) == (AttemptOutcome.TRANSMITTED, 250)
    mail = message_from_bytes(transaction.mail)
    assert (mail["Subject"], mail["MIME-Version"]) == ("ebXML", "1.0")
    assert mail["Content-Type"] == "multipart/related; boundary=b"
    assert transaction.mail.partition(b"\r\n\r\n")[2] == b"--b\r\n\r\nx\r\n--b--\r\n"


@pytest.mark.requirement("000-062")
def test_lines_that_begin_with_a_dot_arrive_as_they_are(mailbox: Mailbox, send: Send) -> None:
    body = b".\r\n..two\r\n.x\r\n\r\n.\r\n"

    assert send(body=body).outcome is AttemptOutcome.TRANSMITTED

    (transaction,) = mailbox.transactions
    assert b"\r\n..\r\n...two\r\n..x\r\n" in transaction.raw
    assert transaction.mail.endswith(body)


@pytest.mark.requirement("000-062")
@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "DATA", "."])
def test_4xx_may_be_tried_again_and_5xx_not(mailbox: Mailbox, send: Send, verb: str) -> None:
    mailbox.script(verb, "450-too busy\r\n450 come later", "554-no\r\n554 not ever")

    later, never = send(), send()

    assert (later.outcome, later.status) == (AttemptOutcome.FAILED, 450)
    assert "450 too busy come later" in later.detail
    assert (never.outcome, never.status) == (AttemptOutcome.REFUSED, 554)
    assert "554 no not ever" in never.detail
    assert later.body_sent  # of a mail nobody can say that it did not go (D18)


@pytest.mark.parametrize("verb", ["", "EHLO"])
def test_a_host_that_will_not_talk_to_us_is_an_early_warning(
    mailbox: Mailbox, send: Send, verb: str
) -> None:
    mailbox.script(verb, "554 no service here")
    mailbox.script("HELO", "554 no service here")

    assert send().outcome is AttemptOutcome.DOUBTED


@pytest.mark.requirement("000-062")
@pytest.mark.parametrize("verb", ["", "MAIL", "DATA", "."])
def test_a_connection_that_is_lost_may_be_tried_again(
    mailbox: Mailbox, send: Send, verb: str
) -> None:
    mailbox.script(verb, "")

    result = send()

    assert (result.outcome, result.status) == (AttemptOutcome.FAILED, None)


def test_a_host_that_says_nothing_is_given_up_at_the_deadline(mailbox: Mailbox, send: Send) -> None:
    mailbox.script(".", None)

    result = send(deadline=0.5)

    assert result.outcome is AttemptOutcome.FAILED
    assert "DATA: no answer within 0.5 s" in result.detail


def test_nobody_listens(send: Send, settings: Settings) -> None:
    with Mailbox() as gone:
        point_at(settings, gone)

    result = send()

    assert result.outcome is AttemptOutcome.FAILED
    assert result.detail.startswith("connect: ")


def test_an_answer_to_quit_is_not_waited_for(mailbox: Mailbox, send: Send) -> None:
    mailbox.script("QUIT", "")

    assert send().outcome is AttemptOutcome.TRANSMITTED


def test_a_stale_job_is_not_sent(mailbox: Mailbox, transmit: Transmit) -> None:
    finished = transmit(
        url="mailto:b@b.example",
        sender="mailto:a@a.example",
        not_after=time.monotonic() - 1,
        authorization="",
    )

    assert finished.result is None
    assert "DATA" not in mailbox.transactions[0].verbs


def test_we_show_the_partner_who_we_are(mailbox: Mailbox, send: Send) -> None:
    result = send(authorization="Basic YTpzZWNyZXQ=")

    assert result.outcome is AttemptOutcome.TRANSMITTED
    assert mailbox.transactions[0].shown() == "a:secret"


def test_a_mail_host_with_a_log_in_gets_that(
    mailbox: Mailbox, send: Send, settings: Settings
) -> None:
    point_at(settings, mailbox, HOST_USER="us", HOST_PASSWORD="pw")

    send(authorization="Basic YTpzZWNyZXQ=")

    assert mailbox.transactions[0].shown() == "us:pw"


def test_a_wrong_password_is_an_early_warning(mailbox: Mailbox, send: Send) -> None:
    mailbox.script("AUTH", "535 5.7.8 no")

    result = send(authorization="Basic YTpzZWNyZXQ=")

    assert (result.outcome, result.status) == (AttemptOutcome.DOUBTED, 535)
    assert "secret" not in result.detail


def test_a_token_cannot_be_shown(mailbox: Mailbox, send: Send) -> None:
    result = send(authorization="Bearer token")

    assert result.outcome is AttemptOutcome.FAILED
    assert "user:password" in result.detail
    assert "MAIL" not in mailbox.transactions[0].verbs


def test_without_an_address_of_ours_the_sender_is_empty(mailbox: Mailbox, send: Send) -> None:
    assert send(sender="http://us.example/").outcome is AttemptOutcome.TRANSMITTED

    assert mailbox.transactions[0].command("MAIL").startswith("MAIL FROM:<>")


def test_starttls_comes_before_anything_is_shown(
    send: Send, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = write_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with Mailbox(tls=tls) as mailbox:
        point_at(settings, mailbox, USE_TLS=True)

        result = send(authorization="Basic YTpzZWNyZXQ=")

        (transaction,) = mailbox.transactions
    assert result.outcome is AttemptOutcome.TRANSMITTED, result.detail
    assert transaction.encrypted
    assert transaction.verbs[:4] == ["EHLO", "STARTTLS", "EHLO", "AUTH"]


def test_a_host_without_starttls_or_of_another_name_gets_nothing(
    send: Send, settings: Settings, tmp_path: Path
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(write_certificate(tmp_path))
    for offered in (None, tls):
        with Mailbox(tls=offered) as mailbox:
            point_at(settings, mailbox, USE_TLS=True)
            result = send(authorization="Basic YTpzZWNyZXQ=")
            verbs = mailbox.transactions[0].verbs
        assert result.outcome is AttemptOutcome.FAILED
        assert not {"AUTH", "MAIL"} & set(verbs)


def test_a_partner_s_password_is_not_shown_in_clear(
    send: Send, settings: Settings, mailbox: Mailbox
) -> None:
    settings.EMAIL_HOST = "0.0.0.0"  # reaches the mailbox, and is no loopback address

    result = send(authorization="Basic YTpzZWNyZXQ=")

    assert result.outcome is AttemptOutcome.FAILED
    assert "smtp+tls://" in result.detail
    assert not {"AUTH", "MAIL"} & set(mailbox.transactions[0].verbs)
    assert send().outcome is AttemptOutcome.TRANSMITTED


@pytest.mark.requirement("000-063")
def test_the_registry_has_a_place_for_each_scheme() -> None:
    assert sorted(TRANSPORTS) == ["http", "https", "mailto"]
    assert [transmits_lines_only(f"{scheme}:x") for scheme in sorted(TRANSPORTS)] == [
        False,
        False,
        True,
    ]
