"""What a client of mail may take of us, and that nothing is refused in silence."""

import json
import logging
import os
import resource
import signal
import smtplib
import socket
import ssl
import struct
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from msh.certificates import ServerCertificate
from msh.models import History
from msh.protocol.reason import Refusal
from msh.smtpd import COMMAND_LIMITS, Listening
from msh.smtpd.bounds import Bounds, Limits
from partners.models import Partner
from tests.certificates import write_certificate
from tests.waiting import wait_until

from .conftest import serving
from .test_smtpd import LOGIN, THEM, US, Client, acme, as_mail, client, message, stored, stranger

__all__ = ["acme", "client", "stranger"]
ROOT = Path(__file__).resolve().parents[2]
HERE = Listening("127.0.0.1", 0)
KNOWN = b64encode(b"\0acme\0secret").decode()
GUESS = b64encode(b"\0acme\0guess").decode()


def refused() -> list[tuple[str, str, int]]:
    """Events of links in the console, the API and the commands."""
    rows = History.objects.filter(subject="link", direction="in").order_by("pk")
    return list(rows.values_list("event", "detail", "times"))


def codes() -> list[str]:
    return list(
        History.objects.filter(event="MailRefused").order_by("pk").values_list("code", flat=True)
    )


@contextmanager
def connected(port: int) -> Iterator[smtplib.SMTP]:
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("acme.example")
        yield smtp


# --- who may -------------------------------------------------------------------------------------


def test_a_password_counts_from_the_networks_of_its_partner_only(
    stranger: Client, acme: Partner
) -> None:
    Partner.objects.update(allowed_networks="192.0.2.0/24")
    code, text = stranger.smtp.docmd("AUTH", f"PLAIN {KNOWN}")
    assert (code, b"acme is not allowed from 127.0.0.1" in text) == (550, True)
    assert stranger.smtp.mail(THEM)[0] == 550
    assert codes() == [Refusal.NETWORK, Refusal.NETWORK]


def test_a_network_that_is_taken_away_ends_a_session(client: Client, acme: Partner) -> None:
    assert client.smtp.mail(THEM)[0] == 250
    client.smtp.rset()
    Partner.objects.update(allowed_networks="192.0.2.0/24")
    assert client.smtp.mail(THEM)[0] == 550


def test_guesses_are_limited_over_connections(port: int, acme: Partner) -> None:
    """Who has been found by the same password before is let in all the same."""
    with connected(port) as smtp:
        smtp.login(*LOGIN)
    codes: list[int] = []
    while len(codes) < 120:
        with connected(port) as smtp:
            codes += [
                smtp.docmd("AUTH", f"PLAIN {GUESS}")[0] for _ in range(COMMAND_LIMITS["AUTH"])
            ]
    assert set(codes[:99]) == {535}
    assert 454 in codes[100:]
    with connected(port) as smtp:
        assert smtp.docmd("AUTH", f"PLAIN {KNOWN}")[0] == 235


# --- how much ------------------------------------------------------------------------------------


def test_connections_are_bounded_of_all_and_of_an_address(acme: Partner) -> None:
    with serving(HERE, Limits(connections=10, of_address=2)) as port, ExitStack() as open_ones:
        first = open_ones.enter_context(connected(port))
        open_ones.enter_context(connected(port))
        with pytest.raises(smtplib.SMTPConnectError) as turned_away:
            smtplib.SMTP("127.0.0.1", port, timeout=20)
        assert turned_away.value.smtp_code == 421
        first.quit()

        def admitted() -> bool:
            try:
                open_ones.enter_context(connected(port))
            except smtplib.SMTPConnectError:
                return False
            return True

        wait_until(admitted)


def test_an_ipv6_client_has_one_share_for_its_network() -> None:
    bounds = Bounds(Limits(connections=3, of_address=1))
    assert bounds.connect("2001:db8::1") == ""
    assert "your address" in bounds.connect("2001:db8::2")
    assert bounds.connect("::ffff:192.0.2.1") == ""
    assert "your address" in bounds.connect("192.0.2.1")
    assert bounds.connect("192.0.2.2") == ""
    assert bounds.connect("192.0.2.3") == "too many connections"
    bounds.disconnect("2001:db8::1")
    assert bounds.connect("2001:db8::2") == ""


def test_mails_under_way_have_a_bound_of_memory(acme: Partner) -> None:
    """The mail that is too much is asked to come later; what it held is free again then."""
    with serving(HERE, Limits(memory=1 << 20)) as port, connected(port) as smtp:
        one = Client(smtp)
        smtp.login(*LOGIN)
        assert one.begin() == 250
        assert one.data(b"Subject: x\r\n" + (b"x" * 998 + b"\r\n") * 600)[0] == 452
        for number in range(1, 21):
            assert one.send(message(number))[0] == 250
    assert codes() == [Refusal.BUSY]


def test_a_partner_holds_at_most_half_of_the_memory() -> None:
    bounds = Bounds(Limits(memory=100))
    assert bounds.hold("a", 50)
    assert not bounds.hold("a", 1)
    assert bounds.hold("b", 40)
    assert not bounds.hold("c", 11)
    bounds.release("a", 50)
    assert bounds.hold("c", 11)
    assert bounds.held == 51


def test_who_does_not_show_who_it_is_is_sent_away(acme: Partner) -> None:
    limits = Limits(stranger=0.5)
    with serving(HERE, limits) as port, socket.create_connection(("127.0.0.1", port), 20) as idle:
        lines = idle.makefile("rb")
        assert lines.readline().startswith(b"220")
        assert lines.readline().startswith(b"421 4.4.2")
        assert lines.readline() == b""


def test_who_keeps_sending_commands_has_no_more_time(acme: Partner) -> None:
    limits = Limits(stranger=0.5)
    with serving(HERE, limits) as port, socket.create_connection(("127.0.0.1", port), 20) as busy:
        lines = busy.makefile("rb")
        replies = [lines.readline()]

        def ended() -> bool:
            busy.sendall(b"NOOP\r\n")
            replies.append(lines.readline())
            return not replies[-1].startswith(b"250")

        wait_until(ended)
    assert replies[-1].startswith(b"421 4.4.2"), "not for the number of its commands"


def test_a_partner_that_stops_within_a_mail_is_sent_away_and_counted(acme: Partner) -> None:
    with serving(HERE, Limits(idle=0.5)) as port, connected(port) as smtp:
        smtp.login(*LOGIN)
        Client(smtp).begin()
        smtp.docmd("DATA")
        smtp.send(b"Subject: x\r\n")
        assert smtp.getreply()[0] == 421
    assert refused() == [("MailRefused", "421 4.4.2 too slow, closing", 1)]
    assert codes() == [Refusal.INCOMPLETE]


# --- nothing in silence ---------------------------------------------------------------------------

LONG = "x" * 3000


@pytest.mark.parametrize(
    ("lines", "code", "why"),
    [
        ([LONG], 500, Refusal.REQUEST),
        (["MAIL FROM:<a@b> BODY=BINARYMIME"], 501, Refusal.REQUEST),
        (["MAIL FROM:<a@b> SIZE=99999999999"], 552, Refusal.TOO_LARGE),
        (["RCPT TO:<a@b>"], 503, Refusal.REQUEST),
        (
            [f"MAIL FROM:<{THEM}>", "RCPT TO:<postmaster@elsewhere.example>"],
            550,
            Refusal.AGREEMENT,
        ),
        (["WHAT"], 500, Refusal.REQUEST),
        (["AUTH PLAIN =", "AUTH PLAIN ="], 503, Refusal.REQUEST),
    ],
)
def test_what_a_partner_is_refused_by_any_command_is_an_event_of_its_link(
    client: Client, caplog: pytest.LogCaptureFixture, lines: list[str], code: int, why: Refusal
) -> None:
    with caplog.at_level(logging.WARNING):
        replies = [client.smtp.docmd(line) for line in lines]
    assert replies[-1][0] == code
    event, detail, _ = refused()[-1]
    assert (event, detail) == ("MailRefused", f"{code} {replies[-1][1].decode()}")
    assert f"from 127.0.0.1: mail refused: {detail}" in caplog.text
    assert (codes()[-1], vars(caplog.records[-1])["code"]) == (why, why)


def test_what_is_refused_after_a_mail_was_taken_is_an_event_too(client: Client) -> None:
    assert client.send(message(1))[0] == 250
    assert client.smtp.docmd("WHAT")[0] == 500
    assert codes() == [Refusal.REQUEST]


def test_what_a_stranger_is_refused_is_logged_and_limited_in_rate(
    stranger: Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            assert stranger.smtp.mail(THEM)[0] == 550
    lines = [one for one in caplog.messages if "Sender not authorized" in one]
    assert 1 <= len(lines) <= 30
    assert refused() == []


def test_mail_that_is_no_message_is_counted_once_a_minute_for_each_reason(client: Client) -> None:
    for _ in range(3):
        client.begin()
        assert client.data(b"Content-Type: text/plain\r\n\r\nHello.\r\n")[0] == 554
    rows = refused()
    assert {event for event, *_ in rows} == {"MailRefused"}
    assert set(codes()) == {Refusal.MEDIA_TYPE}
    assert sum(times for *_, times in rows) == 3
    assert len(rows) <= 2  # a minute may end meanwhile


def test_endless_refusals_are_counted_in_one_row(client: Client) -> None:
    for _ in range(130):
        assert client.smtp.docmd("RSET x")[0] == 501
    counted: Counter[str] = Counter()
    for event, _, times in refused():
        counted[event] += times
    assert counted["MailRefused"] in (100, 101)  # one more each minute
    assert counted.total() == 130
    assert len(refused()) <= 4


def test_a_broken_log_in_leaves_no_traceback(
    stranger: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert stranger.smtp.docmd("AUTH LOGIN")[0] == 334
    code, _ = stranger.smtp.docmd("x" * 5000)
    assert code >= 400
    assert "Traceback" not in caplog.text


# --- one mail is one mail (CVE-2024-27305, CVE-2024-34083) ----------------------------------------


@pytest.mark.parametrize(
    "end", [b"\n.\r\n", b"\r.\r\n", b"\n.\n", b"\r\n.\n", b"\r\n.\r", b"\n.\r", b"\r\n\0.\r\n"]
)
def test_a_mail_ends_at_crlf_dot_crlf_only(client: Client, end: bytes) -> None:
    hidden = b"MAIL FROM:<other@acme.example>\r\nRCPT TO:<msh@us.example>\r\nDATA\r\n"
    smuggled = as_mail(message(1)) + b"x" + end + hidden + as_mail(message(2))
    assert client.begin() == 250
    assert client.smtp.docmd("DATA")[0] == 354
    client.smtp.send(smuggled + b"\r\n.\r\n")
    client.smtp.getreply()
    assert client.smtp.noop()[0] == 250  # nothing else was answered
    assert len(stored()) <= 1


def test_commands_behind_starttls_are_thrown_away(acme: Partner, tmp_path: Path) -> None:
    Partner.objects.update(allowed_networks="127.0.0.1")
    certificate = write_certificate(tmp_path)
    listening = Listening("127.0.0.1", 0, ServerCertificate(certificate))
    with serving(listening) as port, connected(port) as smtp:
        smtp.send(f"STARTTLS\r\nMAIL FROM:<{THEM}>\r\nRCPT TO:<{US}>\r\n".encode())
        assert smtp.getreply()[0] == 220
        context = ssl.create_default_context(cafile=str(certificate))
        assert smtp.sock
        smtp.sock = context.wrap_socket(smtp.sock, server_hostname="127.0.0.1")
        smtp.file = None
        smtp.ehlo("acme.example")
        assert smtp.docmd("DATA")[0] == 503


# --- clients that go -----------------------------------------------------------------------------


def test_a_storm_of_resets_leaves_a_server_that_answers(db: None) -> None:
    """As TCP health checks of load balancers, and clients that have waited too long, make them."""
    command = [sys.executable, str(ROOT / "manage.py"), "smtpd", "--port", "0", "--json"]
    prepared = urlsplit(os.environ["DATABASE_URL"])._replace(
        path=f"/{connection.settings_dict['NAME']}"
    )
    env = os.environ | {"DATABASE_URL": prepared.geturl()}
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        port = json.loads(process.stdout.readline())["port"]
        with connected(port):
            before = open_files(process.pid)
        for number in range(600):
            reset(port, [b"", b"EHLO x\r\n", b"EHLO x\r\nMAIL FROM:<a@b>\r\n"][number % 3])
        for _ in range(20):
            with connected(port) as smtp:
                assert smtp.noop()[0] == 250
        wait_until(lambda: open_files(process.pid) <= before + 5)
        limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        assert limits[0] == limits[1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        said = process.stderr.read().decode()
    assert "Traceback" not in said, said
    assert "never retrieved" not in said, said


def reset(port: int, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), 20) as client:
        client.sendall(said)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
