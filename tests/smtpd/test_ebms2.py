"""ebMS 2.0 by mail, both ways."""

import base64
import email
import smtplib
from collections.abc import Iterator
from email.message import Message
from typing import Any

import pytest

from msh.models import InboundMessage, Signal
from msh.protocol.attempt import AttemptOutcome
from msh.transport import once
from partners.models import Credential, CredentialKind, digest_of
from tests.flows.flying import Sky, make_sky
from tests.peer.ebms2 import SYNC_REPLY, Envelope, Outgoing, message, ping
from tests.peer.mailbox import Mailbox

US, THEM = "msh@us.example", "ebms@them.example"


@pytest.fixture
def sky(db: None) -> Sky:
    sky = make_sky()
    partner = sky.partner
    partner.our_uri, partner.uri = f"mailto:{US}", f"mailto:{THEM}"
    partner.undelivered_limit = 1
    partner.save()
    sha256 = digest_of("them:secret")
    Credential.objects.create(partner=partner, kind=CredentialKind.BASIC, sha256=sha256)
    return sky


def mails_of(sky: Sky, settings: Any) -> list[Message]:
    """Everything that is to be sent now, as a mail host gets it."""
    with Mailbox() as mailbox:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mailbox.port
        for job in sky.poll():
            assert once.post(job).outcome is AttemptOutcome.TRANSMITTED
        return [email.message_from_bytes(one.mail) for one in mailbox.transactions]


@pytest.mark.requirement("EB-160")
def test_each_message_is_one_mail_with_its_parts_in_base64(sky: Sky, settings: Any) -> None:
    package, alone = sky.submit("<größe/>"), sky.submit("")

    first, second = mails_of(sky, settings)

    for mail, sent in ((first, package), (second, alone)):
        assert (mail["SOAPAction"], mail["MIME-Version"]) == ('"ebXML"', "1.0")
        root = mail.get_payload(0) if mail.is_multipart() else mail
        assert isinstance(root, Message)
        assert root["Content-Transfer-Encoding"] == "base64"
        envelope = Envelope(root.get_payload(decode=True))  # type: ignore[arg-type]
        assert envelope.text("eb:MessageData/eb:MessageId") == sent.message_id
    assert first.get_param("type") == "text/xml"
    payload = first.get_payload(1)
    assert isinstance(payload, Message)
    assert payload.get_payload(decode=True) == "<größe/>".encode()
    assert second.get_content_type() == "text/xml"


@pytest.fixture
def smtp(port: int, sky: Sky) -> Iterator[smtplib.SMTP]:
    with smtplib.SMTP("127.0.0.1", port, timeout=20) as smtp:
        smtp.ehlo("them.example")
        smtp.login("them", "secret")
        yield smtp


def of(sky: Sky, out: Outgoing) -> Outgoing:
    parties = {"from_party": "them", "to_party": "us", "party_type": "urn:party"}
    return out.but(**{"cpa_id": sky.agreement.tpa_id, **parties})


def mail(
    smtp: smtplib.SMTP, out: Outgoing, *, whole: bool = False, sender: str = THEM
) -> tuple[int, str]:
    """With the headers that mail hosts add; `whole`: the body in base64."""
    smtp.mail(sender)
    assert smtp.rcpt(US)[0] == 250
    lines = out.body.replace(b"><eb", b">\r\n<eb")  # of a length that mail allows
    body = base64.encodebytes(out.body).replace(b"\n", b"\r\n") if whole else lines
    head = (
        "Received: from a.example\r\n\tby b.example; Sun, 22 Nov 2026 12:00:00 +0000\r\n"
        "DKIM-Signature: v=1; a=rsa-sha256;\r\n b=AAAA\r\nFrom: <somebody@else.example>\r\n"
        f"Content-Type: {out.content_type.replace('; ', ';' + chr(13) + chr(10) + ' ')}\r\n"
        f"{'Content-Transfer-Encoding: base64' if whole else 'SOAPAction: ebXML'}\r\n\r\n"
    )
    code, text = smtp.data(head.encode() + body)
    return code, text.decode()


@pytest.mark.requirement("EB-161", "EB-163")
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("payloads", [(), (("a@b", "text/plain", b"x"),)])
def test_mail_is_taken_as_a_post(
    smtp: smtplib.SMTP, sky: Sky, settings: Any, whole: bool, payloads: Any
) -> None:
    """Whose it is, its login says; From may be anybody."""
    out = of(sky, message(payloads=payloads))

    assert mail(smtp, out, whole=whole)[0] == 250

    stored = InboundMessage.objects.get()
    assert (stored.message_id, stored.agreement) == (out.message_id, sky.agreement)
    assert [bytes(one.content) for one in stored.payloads.all()] == [one[2] for one in payloads]
    signal = Signal.objects.get()
    assert (signal.ref_to_message_id, signal.pending) == (out.message_id, 1)


@pytest.mark.requirement("EB-162")
def test_all_answers_to_a_mail_are_mails(smtp: smtplib.SMTP, sky: Sky) -> None:
    sky.partner.agreements.update(sync_reply="mshSignalsOnly")
    out = of(sky, message(extra=SYNC_REPLY))

    code, reason = mail(smtp, out)

    assert (code, "SyncReply" in reason) == (250, True)
    assert not InboundMessage.objects.exists()
    (error,) = [Envelope(bytes(one.body or b"")) for one in Signal.objects.filter(pending=1)]
    assert [code for code, _ in error.errors] == ["Inconsistent"]
    assert mail(smtp, of(sky, message(extra="")))[0] == 250
    assert mail(smtp, of(sky, ping(extra=SYNC_REPLY)))[0] == 250
    kinds = Signal.objects.filter(pending=1).order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["Error", "Acknowledgement", "Pong"]


@pytest.mark.requirement("EB-064", "EB-161")
def test_mail_that_is_not_taken_has_a_reply_that_says_so(smtp: smtplib.SMTP, sky: Sky) -> None:
    unknown = of(sky, message()).but(cpa_id="another")

    assert mail(smtp, unknown)[0] == 550
    assert mail(smtp, of(sky, message(payloads=(), from_party="")).but(extra="<x"))[0] == 554
    assert [mail(smtp, of(sky, message()))[0] for _ in range(2)] == [250, 451]
