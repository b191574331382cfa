"""Signed messages through a socket: what is taken, what is refused and why, how it is answered."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from msh.models import History, InboundMessage, Incident, Signal
from msh.pem import SigningKey, Trusted
from msh.protocol.ebms.signature import SignatureTerms
from msh.wire.ebms2.signature import sign, verify
from partners.models import Partner
from tests.endpoint.ebms2 import Send, answers, let_answers_leave
from tests.keys import new_key, pem_of
from tests.peer.ebms2 import SYNC_REPLY, Envelope, Outgoing, ack_requested, message, ping

pytestmark = pytest.mark.django_db(transaction=True)

THEM, STRANGER = "them", "a stranger"
NEXT = "http://schemas.xmlsoap.org/soap/actor/next"
SIGNATURE = r"(?s)<ds:Signature .*</ds:Signature>"
MANIFEST = r"<eb:Manifest.*</eb:Manifest>"
DIGESTS = "eb:Acknowledgment/{*}Reference"
TWO = (("order@peer", "text/xml", b"<order/>"), ("picture@peer", "image/png", bytes(range(256))))


class Signed(Outgoing):
    """A message whose envelope stands as it was signed, or as it was changed afterwards."""

    envelope = ""


def with_envelope(out: Outgoing, envelope: str) -> Signed:
    signed = Signed(**{name: getattr(out, name) for name in Outgoing.__dataclass_fields__})
    object.__setattr__(signed, "envelope", envelope)
    return signed


def signed(
    out: Outgoing | None = None, key: SigningKey | None = None, algorithm: str = "rsa-sha256"
) -> Signed:
    out = out or message(payloads=TWO)
    parts = {f"cid:{name}": content for name, _, content in out.payloads}
    envelope = sign(out.envelope.encode(), parts, key or new_key(THEM), algorithm)
    return with_envelope(out, envelope.decode())


@pytest.fixture
def theirs(ebms2: Partner) -> Partner:
    """The partner under an agreement that wants messages signed by it."""
    agree(ebms2, signed=True, certificate=pem_of(new_key(THEM)))
    return ebms2


def agree(partner: Partner, **terms: Any) -> None:
    agreement = partner.agreements.get()
    for name, value in terms.items():
        setattr(agreement, name, value)
    agreement.full_clean()
    agreement.save()


def assert_taken(send: Send, out: Outgoing) -> Envelope:
    response = send(out)
    assert (response.status, response.error) == (204, "")
    stored = InboundMessage.objects.get(message_id=out.message_id)
    contents = [bytes(one.content) for one in stored.payloads.order_by("position")]
    assert contents == [content for _, _, content in out.payloads]
    (answer,) = answers(out)
    assert answer.action == "Acknowledgment"
    return answer


def assert_refused(send: Send, out: Outgoing, reason: str) -> None:
    """By a MessageError SecurityFailure, which is recorded with its reason; nothing is stored."""
    response = send(out)
    assert response.status == 204
    assert reason in response.error
    (answer,) = answers(out)
    assert [(code, place.rpartition("/")[2]) for code, place in answer.errors] == [
        ("SecurityFailure", "ds:Signature")
    ]
    recorded = History.objects.of_message(out.message_id).get(event="SecurityFailure")
    assert reason in recorded.detail
    incident = Incident.objects.get(kind="signature_refused")
    assert (incident.message_id, incident.detail) == (out.message_id, recorded.detail)
    assert not InboundMessage.objects.exists()


@pytest.mark.requirement("EB-098", "EB-167", "EB-171")
def test_signed_message_is_taken_and_acknowledged_with_its_digests(
    send: Send, theirs: Partner
) -> None:
    out = signed()
    digests = assert_taken(send, out).all(DIGESTS)
    written = Envelope(out.envelope.encode()).all("{*}SignedInfo/{*}Reference")
    assert list(map(said, digests)) == list(map(said, written))
    assert [one.get("URI") for one in digests] == ["", "cid:order@peer", "cid:picture@peer"]
    transforms = [len(one.findall("{*}Transforms/{*}Transform")) for one in digests]
    assert transforms == [3, 0, 0]


def said(reference: Any) -> list[tuple[str, dict[str, str], str]]:
    """All that is in it: names, attributes and texts."""
    return [(one.tag, one.attrib, "".join((one.text or "").split())) for one in reference.iter()]


@pytest.mark.requirement("EB-099", "EB-111")
def test_acknowledgment_is_signed_where_it_was_agreed_and_stays_the_same(
    send: Send, theirs: Partner
) -> None:
    agree(theirs, ack_signed=True)
    out = message(payloads=TWO, ack_requested=ack_requested().replace("false", "true"))
    out = signed(out)
    assert_taken(send, out)
    (before,) = Signal.objects.all()
    ours, now = [Trusted(new_key("us").certificate)], datetime.now(UTC)
    assert verify(bytes(before.body or b""), {}, ours, SignatureTerms(), now)

    let_answers_leave()
    send(out)

    after = Signal.objects.get()
    assert (after.pending, after.body) == (1, before.body)


@pytest.mark.requirement("EB-043")
def test_signed_acknowledgment_that_was_not_agreed_on_is_inconsistent(
    send: Send, theirs: Partner
) -> None:
    out = signed(message(ack_requested=ack_requested().replace("false", "true")))
    send(out)
    (answer,) = answers(out)
    assert answer.errors == [("Inconsistent", "/SOAP:Envelope/SOAP:Header/eb:AckRequested")]


@pytest.mark.requirement("EB-175")
def test_message_without_signature_is_refused_where_it_was_agreed(
    send: Send, theirs: Partner
) -> None:
    assert_refused(send, message(), "is missing: the agreement wants messages signed")


@pytest.mark.requirement("EB-098", "EB-172", "EB-175")
def test_signature_that_was_not_agreed_on_is_verified_all_the_same(
    send: Send, theirs: Partner
) -> None:
    agree(theirs, signed=False)
    assert assert_taken(send, message()).all(DIGESTS) == []
    assert len(assert_taken(send, signed()).all(DIGESTS)) == 1 + len(TWO)
    InboundMessage.objects.all().delete()
    assert_refused(send, signed(key=new_key(STRANGER)), "names a certificate that is none of")


def in_envelope(old: str, new: str) -> Callable[[Signed], Signed]:
    def change(out: Signed) -> Signed:
        changed = re.sub(old, lambda _: new, out.envelope, count=1)
        assert changed != out.envelope
        return with_envelope(out, changed)

    return change


def with_a_bit_of(name: str, number: int) -> Callable[[Signed], Signed]:
    """The first bit of this digest, or of the value, is another."""

    def change(out: Signed) -> Signed:
        value = re.findall(f"(?s)<ds:{name}>(.*?)</ds:{name}>", out.envelope)[number]
        octets = b64decode(value)
        changed = b64encode(bytes([octets[0] ^ 128]) + octets[1:]).decode()
        return with_envelope(out, out.envelope.replace(value, changed, 1))

    return change


def with_payloads(*payloads: tuple[str, str, bytes]) -> Callable[[Signed], Signed]:
    return lambda out: with_envelope(out.but(payloads=payloads), out.envelope)


ORDER, PICTURE = TWO
SPOILT = {
    "a bit of a part": (
        with_payloads((*ORDER[:2], b"<ordes/>"), PICTURE),
        "does not fit part 'cid:order@peer'",
    ),
    "a bit of the envelope": (in_envelope("conversation-1<", "conversation-0<"), "does not fit"),
    "a bit of the digest": (with_a_bit_of("DigestValue", 0), "does not fit: the envelope"),
    "a bit of a part's digest": (
        with_a_bit_of("DigestValue", 1),
        "does not fit part 'cid:order@peer'",
    ),
    "a bit of the value": (with_a_bit_of("SignatureValue", 0), "does not fit: the envelope"),
    "parts swapped": (
        with_payloads((*ORDER[:2], PICTURE[2]), (*PICTURE[:2], ORDER[2])),
        "does not fit part 'cid:order@peer'",
    ),
    "a part added": (
        with_payloads(*TWO, ("more@peer", "text/plain", b"more")),
        "does not sign part cid:more@peer",
    ),
    "a part removed": (
        with_payloads(ORDER),
        "signs cid:picture@peer, which is no part of the message",
    ),
    "the signature removed": (in_envelope(SIGNATURE, ""), "is missing"),
    "the algorithm": (in_envelope("rsa-sha256", "hmac-sha256"), "is not taken"),
    "SHA-1": (
        lambda out: signed(
            in_envelope(SIGNATURE, "")(out),
            algorithm="rsa-sha1",
        ),
        "uses SHA-1",
    ),
    "a piece of a part": (in_envelope('URI="cid:order@peer"', 'URI="cid:order@peer#a"'), "no part"),
    "a file": (in_envelope('URI="cid:order@peer"', 'URI="file:///etc/passwd"'), "no part"),
    "the XPath": (in_envelope("ancestor-or-self", "self"), "an XPath that is not that of ebMS 2.0"),
}


@pytest.mark.requirement("EB-169", "EB-170", "EB-171", "EB-173", "EB-177")
@pytest.mark.parametrize(("spoil", "reason"), SPOILT.values(), ids=list(SPOILT))
def test_spoilt_message_is_refused_and_the_genuine_one_is_still_taken(
    send: Send, theirs: Partner, spoil: Callable[[Signed], Signed], reason: str
) -> None:
    genuine = signed(message(payloads=TWO))
    assert_refused(send, spoil(genuine), reason)
    Signal.objects.all().delete()
    if "rsa-sha1" not in spoil(genuine).envelope:
        assert_taken(send, genuine)


def wrapped(wrapper: str) -> Callable[[Signed], Signed]:
    """The signed MessageHeader is put into the wrapper, and another takes its place."""

    def change(out: Signed) -> Signed:
        original = re.search("(?s)<eb:MessageHeader.*</eb:MessageHeader>", out.envelope)
        assert original
        forged = original[0].replace("<eb:Action>Order<", "<eb:Action>Pay<")
        assert forged != original[0]
        envelope = out.envelope.replace(original[0], forged)
        where = "</SOAP:Body>" if wrapper.startswith("<b:") else "</SOAP:Header>"
        return with_envelope(out, envelope.replace(where, wrapper.format(original[0]) + where))

    return change


def hidden(attribute: str) -> Callable[[Signed], Signed]:
    """A header that no signature covers is put before the one that is signed."""

    def change(out: Signed) -> Signed:
        original = re.search("(?s)<eb:MessageHeader.*</eb:MessageHeader>", out.envelope)
        assert original
        forged = original[0].replace(">Order<", ">Pay<")
        forged = forged.replace("<eb:MessageHeader", f"<eb:MessageHeader {attribute}", 1)
        return with_envelope(out, out.envelope.replace(original[0], forged + original[0]))

    return change


def two_signatures(out: Signed) -> Signed:
    found = re.search(SIGNATURE, out.envelope)
    assert found
    return with_envelope(out, out.envelope.replace(found[0], found[0] * 2))


def moved_to(place: str) -> Callable[[Signed], Signed]:
    def change(out: Signed) -> Signed:
        found = re.search(SIGNATURE, out.envelope)
        assert found
        bare = out.envelope.replace(found[0], "")
        return with_envelope(out, bare.replace(place, found[0] + place))

    return change


def inside_of_another(out: Signed) -> Signed:
    """The whole signed envelope in the Body of one that is forged."""
    forged = re.sub(SIGNATURE, "", out.envelope).replace(">Order<", ">Pay<")
    whole = re.sub(r"<\?xml[^>]*\?>", "", out.envelope)
    return with_envelope(
        out, forged.replace("</SOAP:Body>", f"<b:o xmlns:b='urn:b'>{whole}</b:o></SOAP:Body>")
    )


MISSING = "is missing: the agreement wants messages signed"
PLACE = "has to stand once, as a child of the SOAP Header"
CHANGED, ANOTHER = "does not fit: the envelope", "covers another message than the one that is read"
WRAPPED = {
    "in the Header": (wrapped("<h:old xmlns:h='urn:h'>{}</h:old>"), CHANGED),
    "in the Body": (wrapped("<b:old xmlns:b='urn:b'>{}</b:old>"), CHANGED),
    "for the next node": (
        wrapped(f"<h:old xmlns:h='urn:h' SOAP:actor='{NEXT}'>{{}}</h:old>"),
        CHANGED,
    ),
    "two headers, one for the next node": (hidden(f'SOAP:actor="{NEXT}"'), ANOTHER),
    "two signatures": (two_signatures, PLACE),
    "signature in the Body": (moved_to("</SOAP:Body>"), MISSING),
    "signature in the MessageHeader": (moved_to("</eb:MessageHeader>"), MISSING),
    "signature under the Envelope": (moved_to("</SOAP:Envelope>"), MISSING),
    "all of it in the Body": (inside_of_another, MISSING),
}


@pytest.mark.requirement("EB-174")
@pytest.mark.parametrize(("wrap", "reason"), WRAPPED.values(), ids=list(WRAPPED))
def test_wrapped_message_is_refused(
    send: Send, theirs: Partner, wrap: Callable[[Signed], Signed], reason: str
) -> None:
    assert_refused(send, wrap(signed()), reason)


@pytest.mark.requirement("EB-166", "EB-174")
def test_what_no_signature_covers_may_be_added_on_the_way(send: Send, theirs: Partner) -> None:
    """SyncReply is for the next node."""
    agree(theirs, sync_reply="mshSignalsOnly")
    out = signed(message(extra=SYNC_REPLY))
    response = send(out)
    assert (response.status, Envelope(response.body).action) == (200, "Acknowledgment")


@pytest.mark.requirement("EB-172")
def test_certificate_that_has_expired_counts_only_where_it_was_agreed(
    send: Send, theirs: Partner
) -> None:
    old = new_key("old", -3, -2)
    agree(theirs, certificate=pem_of(old))
    assert_refused(send, signed(key=old), "has run out on")
    agree(theirs, keep_expired=True)
    assert_taken(send, signed(key=old))


@pytest.mark.requirement("EB-172")
def test_both_certificates_count_while_the_partner_changes_it(send: Send, theirs: Partner) -> None:
    new = new_key("new")
    agree(theirs, certificate=f"{pem_of(new_key(THEM))}\n{pem_of(new)}")
    assert_taken(send, signed())
    assert_taken(send, signed(key=new))


@pytest.mark.requirement("EB-169")
def test_sha_1_counts_only_where_it_was_agreed(send: Send, theirs: Partner) -> None:
    agree(theirs, allow_sha1=True)
    assert_taken(send, signed(algorithm="rsa-sha1"))


@pytest.mark.requirement("EB-176")
def test_copy_of_a_known_message_is_answered_and_a_forged_one_is_refused(
    send: Send, theirs: Partner
) -> None:
    """Also if the certificate has changed between the copies: it is the message that was taken."""
    out = signed()
    assert_taken(send, out)
    let_answers_leave()
    agree(theirs, certificate=pem_of(new_key("new")))
    send(out)
    (answer,) = answers(out)
    assert answer.action == "Acknowledgment"

    send(SPOILT["a bit of a part"][0](out))
    kinds = [one.action for one in answers(out)]
    assert kinds == ["Acknowledgment", "MessageError"]
    assert InboundMessage.objects.count() == 1


@pytest.mark.requirement("EB-062", "EB-175")
def test_signal_whose_signature_does_not_fit_counts_for_nothing(
    send: Send, theirs: Partner
) -> None:
    assert send(signed(ping())).error == ""
    forged = signed(ping(), new_key(STRANGER))
    assert "names a certificate that is none of" in send(forged).error
    assert Signal.objects.count() == 1
