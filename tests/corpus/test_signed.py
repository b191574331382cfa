"""The signed and encrypted messages that ebms-core has sent, through the socket of a process."""

import os
import re
from base64 import encodebytes
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from msh.models import InboundMessage, Incident, Signal
from msh.pem import Trusted, certificates_of
from msh.protocol.ebms.message import ReceivedMessage
from msh.protocol.ebms.signature import SignatureTerms
from msh.wire.ebms2.envelope import parse
from msh.wire.ebms2.signature import SignatureRefused, references_of, verified
from partners.models import Agreement, Credential, Partner, digest_of
from tests.keys import decrypting, environment, new_key
from tests.peer.ebms2 import Envelope
from tests.peer.sending import Request
from tests.web import web_process

pytestmark = pytest.mark.django_db(transaction=True)

PLAIN, ENCRYPTED = (
    ("interop.signed", "interop.signed.ack", "interop.signed256.ack"),
    "interop.encrypted",
)
COUNTS = (0, 1, 3)
"""Payloads of each message."""


@pytest.fixture
def captured(corpus: Path) -> Path:
    return corpus / "captured"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    keys = environment(tmp_path, [new_key("us")]) | decrypting(tmp_path, [new_key("us")])
    with web_process(tmp_path, **keys) as port:
        yield f"http://127.0.0.1:{port}/ebxml/"


def read(captured: Path, name: str) -> tuple[str, bytes]:
    """Content-Type and body."""
    head, _, body = (captured / f"{name}.mime").read_bytes().partition(b"\r\n\r\n")
    return head.decode().partition(":")[2].strip(), body


def proven(captured: Path, content_type: str, body: bytes) -> ReceivedMessage:
    pem = (captured / "signer.pem").read_text()
    trusted = [Trusted(one) for one in certificates_of(pem)]
    now = datetime(2026, 11, 26, 12, tzinfo=UTC)
    return verified(parse(content_type, body), trusted, SignatureTerms(allow_sha1=True), now)


@pytest.mark.requirement("EB-098", "EB-167", "EB-170", "EB-171", "EB-179")
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", PLAIN)
def test_what_ebms_core_signs_verifies(captured: Path, name: str, count: int) -> None:
    """Its Acknowledgments have the digests of what they acknowledge."""
    message = proven(captured, *read(captured, f"{name}.{count}.message"))
    assert len(message.signed_by_partner) == 1 + count
    if name == "interop.signed":
        return
    answer = proven(captured, *read(captured, f"{name}.{count}.ack"))
    (block,) = answer.message.acknowledgments
    assert {(one.uri, one.value) for one in block.digests} == {
        (one.uri, one.value) for one in references_of(message.envelope)
    }


@pytest.mark.requirement("EB-098", "EB-171", "EB-179")
@pytest.mark.parametrize("count", COUNTS)
def test_its_acknowledgments_of_what_it_has_encrypted_verify(captured: Path, count: int) -> None:
    """With the digests that the message was signed with, those of the plain payloads."""
    answer = proven(captured, *read(captured, f"{ENCRYPTED}.{count}.ack"))
    message = parse(*read(captured, f"{ENCRYPTED}.{count}.message"))
    (block,) = answer.message.acknowledgments
    assert {(one.uri, one.value) for one in block.digests} == {
        (one.uri, one.value) for one in references_of(message.envelope)
    }


@pytest.mark.requirement("EB-171", "EB-176")
@pytest.mark.parametrize("count", COUNTS[1:])
def test_what_it_has_encrypted_afterwards_does_not(captured: Path, count: int) -> None:
    with pytest.raises(SignatureRefused, match="does not fit part"):
        proven(captured, *read(captured, f"{ENCRYPTED}.{count}.message"))


def agree(captured: Path, name: str, count: int, **terms: Any) -> tuple[str, ReceivedMessage]:
    """A partner for each message, under the agreement that it wants; its token."""
    content_type, body = read(captured, f"{name}.{count}.message")
    message = parse(content_type, body)
    header = message.message.header
    token = f"{name}-{count}-{Partner.objects.count()}"
    partner = Partner.objects.create(name=token, uri=f"http://{token}.example/ebms/")
    Credential.objects.create(partner=partner, sha256=digest_of(token))
    ours, theirs = header.to_party.party_ids[0], header.from_party.party_ids[0]
    Agreement.objects.filter(tpa_id=header.cpa_id).update(tpa_id=f"earlier-{token}")
    agreement = Agreement(
        partner=partner,
        dialect="ebms2",
        tpa_id=header.cpa_id,
        our_party=ours.value,
        our_party_context=ours.type,
        their_party=theirs.value,
        their_party_context=theirs.type,
        service_type=header.service.type,
        signed=True,
        certificate=(captured / "signer.pem").read_text().strip(),
        allow_sha1=True,
        clock_tolerance=86_400,
        **{"ack_signed": name.endswith(".ack"), **terms},
    )
    agreement.full_clean()
    agreement.save()
    return token, message


def answered(web: str, token: str, content_type: str, body: bytes) -> Envelope:
    """How it is answered."""
    shown = {"Content-Type": content_type, "Authorization": f"Bearer {token}"}
    assert Request(web, headers=shown, body=body).send().status == 204
    signal = Signal.objects.filter(link__partner__name=token).latest("pk")
    return Envelope(bytes(signal.body or b""))


@pytest.mark.requirement("EB-171", "EB-173", "EB-177")
def test_signed_messages_are_taken_and_spoilt_ones_are_not(captured: Path, web: str) -> None:
    """A TimeToLive that is over is found after the signature was verified."""
    for name in PLAIN:
        for count in COUNTS:
            token, message = agree(captured, name, count)
            content_type, body = read(captured, f"{name}.{count}.message")
            spoilt = body.replace(b"ConversationId>", b"ConversationId>x", 1)
            if message.payloads:
                content = message.payloads[0].content
                spoilt = body.replace(content, content[:-1] + bytes([content[-1] ^ 1]), 1)
            assert spoilt != body
            refusal = answered(web, token, content_type, spoilt)
            assert [code for code, _ in refusal.errors] == ["SecurityFailure"], token
            stored = InboundMessage.objects.filter(link__partner__name=token)
            assert not stored.exists()
            Signal.objects.filter(link__partner__name=token).delete()

            answer = answered(web, token, content_type, body)
            over = [("TimeToLiveExpired")]
            assert stored.exists() or [code for code, _ in answer.errors] == over, token


def for_us(captured: Path, count: int) -> tuple[str, bytes]:
    """The message that ebms-core has encrypted, with the key and the content of each payload
    encrypted for us, all else as it wrote it: nobody has the key that it was for. The payloads are
    those of the message that it has only signed."""
    content_type, body = read(captured, f"{ENCRYPTED}.{count}.message")
    plain = parse(*read(captured, f"{PLAIN[0]}.{count}.message")).payloads
    public = new_key("us").certificate.public_key()
    assert isinstance(public, RSAPublicKey)
    for cipher, payload in zip(parse(content_type, body).payloads, plain, strict=True):
        session, begin = os.urandom(32), os.urandom(16)
        fill = 16 - len(payload.content) % 16
        cbc = Cipher(AES(session), CBC(begin)).encryptor()
        octets = begin + cbc.update(payload.content + bytes([fill] * fill)) + cbc.finalize()
        values = iter((public.encrypt(session, PKCS1v15()), octets))
        changed = re.sub(
            b"(?<=<xenc:CipherValue>)[^<]*",
            lambda _: b"&#13;\n".join(encodebytes(next(values)).split()),  # noqa: B023  is used now
            cipher.content,
        )
        assert len(changed) == len(cipher.content)
        body = body.replace(cipher.content, changed)
    return content_type, body


@pytest.mark.requirement("EB-176", "EB-185")
def test_encrypted_messages_are_taken_in_the_order_of_ebms_core(captured: Path, web: str) -> None:
    """Its signature is over what was encrypted, by CBC and RSA 1.5 in lines that end in &#13;."""
    terms = {"encrypted": True, "allow_rsa_1_5": True, "ack_signed": True}
    for count in COUNTS:
        token, _ = agree(captured, ENCRYPTED, count, **terms)
        content_type, body = for_us(captured, count)
        answer = answered(web, token, content_type, body)
        codes = [code for code, _ in answer.errors]
        stored = InboundMessage.objects.filter(link__partner__name=token)
        assert stored.exists() or codes == ["TimeToLiveExpired"], (count, codes)


@pytest.mark.requirement("EB-185", "EB-187")
def test_encrypted_messages_for_another_key_are_refused(captured: Path, web: str) -> None:
    """So are those by RSA 1.5, where it was not agreed."""
    terms = {"encrypted": True, "ack_signed": True}
    for count in COUNTS[1:]:
        for old, make, reason in (
            (True, read, "cannot be decrypted by a key of ours"),
            (False, for_us, "rsa-1_5', which is not taken"),
        ):
            token, _ = agree(captured, ENCRYPTED, count, allow_rsa_1_5=old, **terms)
            name: Any = f"{ENCRYPTED}.{count}.message" if make is read else count
            answer = answered(web, token, *make(captured, name))
            found = [(code, place.rpartition("/")[2]) for code, place in answer.errors]
            assert found == [("SecurityFailure", "eb:Manifest")]
            incident = Incident.objects.get(partner__name=token)
            assert reason in incident.detail
    assert not InboundMessage.objects.exists()


@pytest.mark.requirement("EB-177", "EB-185")
def test_encrypted_messages_are_refused_without_such_an_agreement(captured: Path, web: str) -> None:
    for count in COUNTS[1:]:
        token, _ = agree(captured, ENCRYPTED, count)
        answer = answered(web, token, *read(captured, f"{ENCRYPTED}.{count}.message"))
        assert [code for code, _ in answer.errors] == ["SecurityFailure"]
    assert not InboundMessage.objects.exists()
