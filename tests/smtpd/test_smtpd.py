"""Mail from partners: who may send, what is accepted, what each reply means (RFC 5321)."""

import smtplib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from msh.allowance import refusals
from msh.certificates import ServerCertificate
from msh.flows.receiving.dialects import Receiver
from msh.models import InboundMessage, Signal
from msh.smtpd import COMMAND_LIMITS, Listening, mail_limit
from partners.models import Agreement, Credential, CredentialKind, Partner, digest_of
from partners.setup import apply
from tests.certificates import write_certificate
from tests.peer import Draft, Message, Payload, acknowledgement, normal
from tests.smtpd.conftest import serving

US, THEM = "msh@us.example", "orders@acme.example"
LOGIN = ("acme", "secret")


@pytest.fixture
def acme(db: None) -> Partner:
    partner = Partner.objects.create(name="acme", our_uri=f"mailto:{US}", uri=f"mailto:{THEM}")
    Agreement.objects.create(
        partner=partner, tpa_id="tpa-4711", our_party="111111111", their_party="222222222"
    )
    sha256 = digest_of(":".join(LOGIN))
    Credential.objects.create(partner=partner, kind=CredentialKind.BASIC, sha256=sha256)
    return partner


@dataclass
class Client:
    """A mail client of the standard library, logged in if `login` is given."""

    smtp: smtplib.SMTP

    def begin(self, sender: str = THEM, to: str = US) -> int:
        self.smtp.mail(sender)
        return self.smtp.rcpt(to)[0]

    def data(self, mail: bytes) -> tuple[int, str]:
        code, text = self.smtp.data(mail)
        return code, text.decode()

    def send(self, draft: Draft) -> tuple[int, str]:
        assert self.begin() == 250
        return self.data(as_mail(draft))


@pytest.fixture
def client(port: int, acme: Partner) -> Iterator[Client]:
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("acme.example")
        smtp.login(*LOGIN)
        yield Client(smtp)


@pytest.fixture
def stranger(port: int, acme: Partner) -> Iterator[Client]:
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("acme.example")
        yield Client(smtp)


def message(number: int = 1, **fields: object) -> Draft:
    payload = Payload(b"<order>\r\n.\r\n</order>", transfer_encoding="base64")
    return normal(sequence_number=number, payloads=[payload], **fields).under(
        {
            "sender_uri": f"mailto:{THEM}",
            "receiver_uri": f"mailto:{US}",
            "error_uri": f"mailto:{THEM}",
        }
    )


def as_mail(draft: Draft) -> bytes:
    """Its header document in lines that mail allows."""
    lines = draft.header_document.replace(b"><", b">\r\n<")
    draft = draft.but(header_document=lines)
    head = f"Subject: ebXML\r\nMIME-Version: 1.0\r\nContent-Type: {draft.content_type}\r\n\r\n"
    return head.encode() + draft.body


def stored() -> list[str]:
    return list(InboundMessage.objects.order_by("pk").values_list("message_id", flat=True))


def pending() -> list[tuple[str, str, int]]:
    return list(Signal.objects.order_by("pk").values_list("kind", "code", "pending"))


# --- what is taken --------------------------------------------------------------------------------


@pytest.mark.requirement("000-061")
def test_message_and_pending_ack_are_stored_before_the_250(client: Client) -> None:
    draft = message()

    assert client.send(draft) == (250, "2.0.0 Message accepted")

    assert stored() == [draft.message_id]
    assert pending() == [("Acknowledgement", "", 1)]
    (payload,) = InboundMessage.objects.get().payloads.all()
    assert bytes(payload.content) == b"<order>\r\n.\r\n</order>"


@pytest.mark.requirement("000-061", "000-002", "000-013")
def test_a_mail_delivered_twice_is_one_message_and_two_acks(client: Client) -> None:
    draft = message()
    client.send(draft)

    assert client.send(draft)[0] == 250

    assert stored() == [draft.message_id]
    assert pending() == [("Acknowledgement", "", 2)]


@pytest.mark.requirement("000-061")
def test_a_refused_message_is_taken_and_gets_an_error(client: Client) -> None:
    code, text = client.send(message(7))

    assert code == 250
    assert "number 7 came" in text
    assert stored() == []
    assert pending() == [("Error", "SequenceGap", 1)]


def test_endless_refusals_get_a_temporary_reply(client: Client, acme: Partner) -> None:
    for _ in range(100):
        refusals.spend(acme.pk)

    code, text = client.send(message(7))

    assert (code, text[:5]) == (451, "4.7.1")
    assert "too many of your messages were refused" in text
    assert pending() == []
    assert client.send(message(1))[0] == 250


def test_a_signal_is_taken_and_never_answered(client: Client) -> None:
    reading = normal(sequence_number=1, sender_uri=f"mailto:{US}", receiver_uri=f"mailto:{THEM}")
    ack = acknowledgement(Message(reading.content_type, reading.body)).under(
        {"sender_uri": f"mailto:{THEM}", "receiver_uri": f"mailto:{US}", "error_uri": "mailto:x@y"}
    )

    assert client.send(ack)[0] == 250
    assert pending() == []


# --- who may send ---------------------------------------------------------------------------------


def test_a_stranger_is_sent_away_before_its_mail(stranger: Client) -> None:
    code, text = stranger.smtp.mail(THEM)

    assert code == 550
    assert b"authenticate first" in text
    assert stranger.smtp.rcpt(US)[0] == 503
    assert stranger.smtp.docmd("DATA")[0] == 503


def test_a_wrong_password_is_no_log_in(stranger: Client) -> None:
    with pytest.raises(smtplib.SMTPAuthenticationError) as refused:
        stranger.smtp.login("acme", "guess")
    assert refused.value.smtp_code == 535


def test_guessing_client_is_disconnected(stranger: Client) -> None:
    codes = [
        stranger.smtp.docmd("AUTH", "PLAIN AGEAYg==")[0] for _ in range(COMMAND_LIMITS["AUTH"])
    ]

    assert set(codes) == {535}
    assert stranger.smtp.docmd("AUTH", "PLAIN AGEAYg==")[0] == 421


@pytest.mark.parametrize(
    ("networks", "sender", "taken"),
    [
        ("127.0.0.0/8", THEM, True),
        ("127.0.0.0/8", "other@acme.example", False),
        ("192.0.2.0/24", THEM, False),
        ("", THEM, False),  # an address alone proves nothing
        ("0.0.0.0/0", THEM, False),  # "any", which is harmless over HTTP
        ("::/0, 0.0.0.0/1", THEM, False),
        ("0.0.0.0/0, 127.0.0.1", THEM, True),
    ],
)
def test_without_auth_address_and_network_must_be_the_partner_s(
    stranger: Client, acme: Partner, networks: str, sender: str, taken: bool
) -> None:
    Partner.objects.filter(pk=acme.pk).update(allowed_networks=networks)

    assert stranger.smtp.mail(sender)[0] == (250 if taken else 550)
    if taken:
        assert stranger.smtp.rcpt(US)[0] == 250
        assert stranger.data(as_mail(message()))[0] == 250
        assert len(stored()) == 1


def test_mail_for_somebody_else_is_not_taken(client: Client) -> None:
    assert client.begin(to="postmaster@elsewhere.example") == 550
    assert client.begin(to=US.upper().replace("MSH", "msh")) == 250


def test_a_message_of_another_pair_is_refused(client: Client) -> None:
    code, text = client.send(message().but(sender_uri="mailto:other@acme.example"))

    assert code == 550
    assert "do not match the agreement" in text
    assert stored() == []


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mail", "code", "why"),
    [
        (b"Subject: hello\r\n\r\nHello.\r\n", 554, "no Content-Type"),
        (b"Content-Type: text/plain\r\n\r\nHello.\r\n", 554, "not a supported media type"),
        (b"Content-Type: multipart/related; boundary=b\r\n\r\n--b\r\n", 554, "truncated"),
    ],
)
def test_invalid_message_is_refused_with_the_reason(
    client: Client, mail: bytes, code: int, why: str
) -> None:
    client.begin()

    got, text = client.data(mail)

    assert (got, why in text) == (code, True), text
    assert (stored(), pending()) == ([], [])


def test_a_thousand_hops_are_refused(client: Client) -> None:
    draft = message()
    document = draft.header_document
    begin, end = document.index(b"<RoutingHeader>"), document.index(b"</ebXMLHeader>")
    many = document[:begin] + document[begin:end] * 1000 + document[end:]

    code, text = client.send(draft.but(header_document=many))

    assert code == 554
    assert "1 to 100 RoutingHeader elements" in text
    assert (stored(), pending()) == ([], [])


def test_a_gigabyte_that_is_announced_is_refused_at_once(client: Client) -> None:
    assert client.smtp.mail(THEM, [f"SIZE={1 << 30}"])[0] == 552


def test_a_mail_over_the_limit_is_refused_at_its_end_and_the_next_is_taken(
    client: Client, settings: object
) -> None:
    client.begin()
    too_much = b"Content-Type: text/xml\r\n\r\n" + b"x" * 900 + b"\r\n"

    code, _ = client.data(too_much + (b"x" * 900 + b"\r\n") * (mail_limit() // 900))

    assert code == 552
    assert client.send(message())[0] == 250


@pytest.mark.parametrize("length", [998, 999, 1000, 1001, 2001, 20_000, 700_000])
def test_lines_may_be_of_any_length(client: Client, length: int) -> None:
    """XML without line breaks, sent as it is: more than the 998 bytes of RFC 5322 §2.1.1."""
    content = b"." + b"x" * (length - 1)
    draft = message().but(payloads=[Payload(content, transfer_encoding="8bit")])

    assert client.send(draft)[0] == 250

    (payload,) = InboundMessage.objects.get().payloads.all()
    assert bytes(payload.content) == content


def test_a_line_over_the_limit_is_refused_at_its_end_and_the_next_is_taken(client: Client) -> None:
    client.begin()

    code, text = client.data(b"Content-Type: text/xml\r\n\r\n" + b"x" * (mail_limit() + 1))

    assert (code, f"more than {mail_limit()} bytes" in text) == (552, True)
    assert client.send(message())[0] == 250


def test_database_down_is_a_temporary_reply(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> Receiver:
        raise psycopg.OperationalError("gone")

    with monkeypatch.context() as broken:
        broken.setattr("msh.smtpd.receiver_of", down)
        code, text = client.send(message())

    assert (code, "nothing was stored" in text) == (451, True)
    assert client.send(message())[0] == 250


def test_old_and_new_password_overlap_until_the_old_is_deleted(
    client: Client, port: int, acme: Partner
) -> None:
    """Also in a session that has logged in with the old one before."""
    numbers = iter(range(1, 10))
    old = Credential.objects.get()
    successor = ("acme", "the-next-password-of-acme")
    apply({"partners": [{"name": "acme", "basic_in": ":".join(successor)}]})
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("acme.example")
        smtp.login(*successor)
        later = Client(smtp)
        for one in (client, later, client):
            assert one.send(message(next(numbers)))[0] == 250
        old.delete()
        code, text = client.smtp.mail(THEM)
        assert (code, b"authenticate first" in text) == (550, True)
        with pytest.raises(smtplib.SMTPAuthenticationError):
            log_in(port)
        assert later.send(message(next(numbers)))[0] == 250
    assert len(stored()) == 4


def log_in(port: int) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("acme.example")
        smtp.login(*LOGIN)


# --- TLS ------------------------------------------------------------------------------------------


def test_with_a_certificate_auth_needs_starttls(acme: Partner, tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(certificate))
    with (
        serving(Listening("127.0.0.1", 0, ServerCertificate(certificate))) as port,
        smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp,
    ):
        smtp.ehlo("acme.example")
        assert not smtp.has_extn("auth")
        assert smtp.docmd("AUTH", "PLAIN AGEAYg==")[0] == 538
        smtp.starttls(context=trusting)
        smtp.login(*LOGIN)
        assert Client(smtp).send(message())[0] == 250


@pytest.mark.parametrize(
    ("listening", "needs"),
    [
        (Listening("127.0.0.1", 25), False),
        (Listening("::1", 25), False),
        (Listening("localhost", 25), False),
        (Listening("0.0.0.0", 25), True),
        (Listening("mail.example", 25), True),
    ],
)
def test_passwords_cross_no_network_in_clear(listening: Listening, needs: bool) -> None:
    assert listening.auth_needs_tls is needs
