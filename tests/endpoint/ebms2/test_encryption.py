"""Encrypted messages through a socket: what is taken, what is refused, and that nobody finds out by
the answer what was wrong (EB-187)."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import pytest

from msh.flows.receiving.ebms2 import receive
from msh.flows.receiving.incoming import Incoming
from msh.flows.sending import proof
from msh.models import History, InboundMessage, Incident, Signal
from msh.pem import SigningKey
from msh.wire.ebms2 import encryption, signature
from msh.wire.ebms2.encryption import encrypt
from partners.models import Partner
from tests.endpoint.ebms2 import Send, answers, assert_refused, let_answers_leave
from tests.endpoint.ebms2.test_signatures import (
    SPOILT,
    THEM,
    TWO,
    Signed,
    agree,
    assert_taken,
    in_envelope,
    signed,
    with_envelope,
)
from tests.keys import decrypting, new_key, pem_of
from tests.peer.ebms2 import Outgoing, message

pytestmark = pytest.mark.django_db(transaction=True)

OUT = message(payloads=TWO)
ALIKE = "names payloads that cannot be decrypted, or do not fit the signature"


@pytest.fixture
def theirs(ebms2: Partner) -> Partner:
    """The partner under an agreement that wants messages signed by it and encrypted for us."""
    agree(ebms2, signed=True, encrypted=True, certificate=pem_of(new_key(THEM)))
    return ebms2


@pytest.fixture
def unsigned(ebms2: Partner) -> Partner:
    agree(ebms2, encrypted=True, encryption_certificate=pem_of(new_key(THEM)))
    return ebms2


def encrypted(
    out: Outgoing, method: str = "aes256-gcm", key: SigningKey | None = None
) -> tuple[tuple[str, str, bytes], ...]:
    """Its payloads as they are sent."""
    certificate = (key or new_key("us")).certificate
    return tuple(
        (name, "application/xml", encrypt(content, content_type, certificate, method))
        for name, content_type, content in out.payloads
    )


def sealed(
    out: Outgoing | None = None, method: str = "aes256-gcm", key: SigningKey | None = None
) -> Signed:
    """Signed, and then encrypted, as ebms-core does it."""
    plain = signed(out or OUT)
    return with_envelope(plain.but(payloads=encrypted(plain, method, key)), plain.envelope)


def contents(out: Outgoing) -> list[tuple[str, bytes]]:
    stored = InboundMessage.objects.get(message_id=out.message_id)
    parts = stored.payloads.order_by("position")
    return [(one.content_type, bytes(one.content)) for one in parts]


PLAIN = [(content_type, content) for _, content_type, content in TWO]


@pytest.mark.requirement("EB-098", "EB-167", "EB-176", "EB-185")
@pytest.mark.parametrize("method", ["aes256-gcm", "aes128-cbc"])
def test_signed_and_encrypted_message_is_taken_as_it_was_before(
    send: Send, theirs: Partner, method: str
) -> None:
    out = sealed(method=method)
    assert send(out).error == ""
    assert contents(out) == PLAIN
    (answer,) = answers(out)
    digests = answer.all("eb:Acknowledgment/{*}Reference")
    assert [one.get("URI") for one in digests] == ["", "cid:order@peer", "cid:picture@peer"]
    assert not Incident.objects.exists()


@pytest.mark.requirement("EB-010", "EB-178", "EB-185")
def test_either_of_our_keys_decrypts_and_the_content_type_is_kept(
    send: Send, unsigned: Partner
) -> None:
    kind = 'text/xml; charset=iso-8859-1; x="a;b"'
    for number, name in enumerate(("us", "our next")):
        out = message(message_id=f"{number}@peer", payloads=(("order@peer", kind, b"<order/>"),))
        assert send(out.but(payloads=encrypted(out, key=new_key(name)))).error == ""
        assert contents(out) == [(kind, b"<order/>")]


@pytest.mark.requirement("EB-101", "EB-112", "EB-185")
@pytest.mark.parametrize("is_signed", [True, False])
def test_copy_that_was_encrypted_anew_is_a_copy(
    send: Send, ebms2: Partner, is_signed: bool
) -> None:
    """It is told by what was encrypted; so is another message of the same id."""
    agree(ebms2, signed=is_signed, encrypted=True, certificate=pem_of(new_key(THEM)))
    plain = message(payloads=TWO)
    make: Callable[[Outgoing], Outgoing] = (
        sealed if is_signed else lambda out: out.but(payloads=encrypted(out))
    )
    first, again = make(plain), make(plain)
    assert first.body != again.body
    for one in (first, again):
        assert send(one).error == ""
        (answer,) = answers(plain)
        assert answer.action == "Acknowledgment"
        let_answers_leave()
    assert InboundMessage.objects.get().duplicates == 1

    send(make(plain.but(payloads=(("order@peer", "text/xml", b"<other/>"),))))
    assert [one.errors[0][0] for one in answers(plain) if one.errors] == ["Inconsistent"]
    assert InboundMessage.objects.count() == 1


@pytest.mark.requirement("EB-185")
def test_payload_that_is_not_encrypted_is_refused_where_it_was_agreed(
    send: Send, unsigned: Partner
) -> None:
    places = [("SecurityFailure", f"cid:{name}") for name, _, _ in TWO]
    assert_refused(send, message(payloads=TWO), *places)
    half = message(message_id="half@peer", payloads=TWO)
    mixed = (encrypted(half)[0], TWO[1])
    assert_refused(send, half.but(payloads=mixed), ("SecurityFailure", "cid:picture@peer"))
    without = message(message_id="none@peer", payloads=())
    assert send(without).error == ""


@pytest.mark.requirement("EB-186")
def test_cms_passes_as_it_is(send: Send, unsigned: Partner) -> None:
    cms = ("a@peer", 'application/pkcs7-mime; smime-type="enveloped-data"', b"0\x80")
    out = message(payloads=(cms,))
    assert send(out).error == ""
    assert contents(out) == [cms[1:]]


@pytest.mark.requirement("EB-010", "EB-185")
def test_agreement_that_does_not_encrypt_takes_nothing_encrypted(
    send: Send, ebms2: Partner
) -> None:
    out = message(payloads=TWO[:1])
    cipher = out.but(payloads=encrypted(out))
    assert_refused(send, cipher, ("SecurityFailure", "cid:order@peer"))
    agree(ebms2, lenient=["EB-185"])
    Signal.objects.all().delete()
    assert send(cipher).error == ""
    assert contents(out) == [cipher.payloads[0][1:]]


def of_value(part: int, place: int, at: int, bits: int = 1) -> Callable[[Signed], Signed]:
    """Flip bits of what the CipherValue of the key, 0, or of the content, 1, has."""

    def change(out: Signed) -> Signed:
        payloads = list(out.payloads)
        name, kind, text = payloads[part]
        found = list(re.finditer(rb"(?<=CipherValue>)[^<]+", text))[place]
        octets = bytearray(b64decode(found[0]))
        octets[at] ^= bits
        changed = text[: found.start()] + b64encode(octets) + text[found.end() :]
        payloads[part] = (name, kind, changed)
        return with_envelope(out.but(payloads=tuple(payloads)), out.envelope)

    return change


def of_other(*payloads: tuple[str, str, bytes]) -> Callable[[Signed], Signed]:
    """Encrypted for us by somebody who has not signed it."""

    def change(out: Signed) -> Signed:
        forged = encrypted(message(payloads=payloads))
        return with_envelope(out.but(payloads=forged), out.envelope)

    return change


def part_replaced(part: int, content: bytes) -> Callable[[Signed], Signed]:
    def change(out: Signed) -> Signed:
        payloads = list(out.payloads)
        payloads[part] = (*payloads[part][:2], content)
        return with_envelope(out.but(payloads=tuple(payloads)), out.envelope)

    return change


ORDER, PICTURE = TWO


def first_part(pattern: bytes, new: bytes) -> Callable[[], Signed]:
    out = sealed()
    content = re.sub(pattern, new, out.payloads[0][2])
    return lambda: part_replaced(0, content)(out)


FAILURES: dict[str, tuple[Callable[[], Signed], str]] = {
    "the key": (lambda: of_value(0, 0, 9)(sealed()), "'order@peer' cannot be decrypted"),
    "the content": (lambda: of_value(0, 1, 14)(sealed()), "'order@peer' cannot be decrypted"),
    "the tag": (lambda: of_value(1, 1, -1)(sealed()), "'picture@peer' cannot be decrypted"),
    "another's key": (lambda: sealed(key=new_key("stranger")), "cannot be decrypted by a key"),
    "other content": (lambda: of_other((*ORDER[:2], b"<o/>"), PICTURE)(sealed()), "is another"),
    "a padding that fits": (lambda: of_value(0, 1, 15)(sealed(method="aes256-cbc")), "is another"),
    "a padding that does not fit": (
        lambda: of_value(0, 1, 15, 0x80)(sealed(method="aes256-cbc")),
        "'order@peer' cannot be decrypted",
    ),
    "the beginning of CBC": (lambda: of_value(0, 1, 0)(sealed(method="aes256-cbc")), "is another"),
    "RSA 1.5": (first_part(b"rsa-oaep-mgf1p", b"rsa-1_5"), "rsa-1_5', which is not taken"),
    "no key": (first_part(b"<ds:KeyInfo.*</ds:KeyInfo>", b""), "has no EncryptedKey"),
    "the envelope": (
        lambda: in_envelope("conversation-1<", "conversation-0<")(sealed()),
        "the envelope or the signature was changed",
    ),
    "the value of the signature": (
        lambda: in_envelope("(?<=<ds:SignatureValue>)..", "AA")(sealed()),
        "the envelope or the signature was changed",
    ),
}


def without_ids(body: bytes) -> str:
    text = re.sub(r"(?s)<ds:Signature .*</ds:Signature>", "", body.decode())
    names = "Timestamp|MessageId|RefToMessageId|ConversationId"
    return re.sub(f"<eb:({names})>[^<]*<", r"<eb:\1><", text)


@pytest.mark.requirement("EB-177", "EB-187")
def test_whatever_is_wrong_has_the_same_answer_and_the_genuine_message_is_taken(
    send: Send, theirs: Partner
) -> None:
    told: set[tuple[object, str]] = set()
    for name, (make, reason) in FAILURES.items():
        out = make()
        response = send(out)
        assert (response.status, response.body) == (204, b""), name
        signal = Signal.objects.get()
        assert ALIKE in response.error
        told.add((response.error, without_ids(bytes(signal.body or b""))))
        incident = Incident.objects.get()
        assert incident.kind == "signature_refused"
        assert reason in incident.detail, name
        assert not InboundMessage.objects.exists()
        recorded = History.objects.of_message(out.message_id).get(event="SecurityFailure")
        assert recorded.detail == response.error
        Signal.objects.all().delete()
        Incident.objects.all().delete()
    ((_, body),) = told
    assert [body.count(one) for one in ("SecurityFailure", "eb:Manifest")] == [1, 2]

    assert send(sealed()).error == ""
    assert contents(OUT) == PLAIN


STEPS = [*["_session_key", "_deciphered"] * 4, "_verified", "_check_parts"]
"""Of two payloads, by two keys of ours."""


@pytest.fixture
def steps(settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done with what came."""
    (keys,) = decrypting(tmp_path, [new_key("us"), new_key("our next")]).values()
    settings.MSH_DECRYPTION_KEY = keys.split(",")
    done: list[str] = []
    for module, name in (
        (encryption, "_session_key"),
        (encryption, "_deciphered"),
        (proof, "_verified"),
        (signature, "_check_parts"),
    ):
        monkeypatch.setattr(module, name, noted(done, module, name))
    return done


def why_refused(theirs: Partner, out: Outgoing) -> str:
    return receive(theirs, Incoming(out.content_type, out.body)).reason


@pytest.mark.requirement("EB-176", "EB-187")
def test_whatever_is_wrong_takes_the_same_steps(theirs: Partner, steps: list[str]) -> None:
    for name, (make, _) in FAILURES.items():
        if name in ("RSA 1.5", "no key"):
            continue  # everybody sees what is wrong with them
        steps.clear()
        assert ALIKE in why_refused(theirs, make())
        assert steps == STEPS, name


@pytest.mark.requirement("EB-176")
def test_header_and_agreement_are_read_before_anything_is_decrypted(
    theirs: Partner, steps: list[str]
) -> None:
    for wrong in ({"cpa_id": "cpa-none"}, {"timestamp": "never"}):
        assert why_refused(theirs, sealed(message(payloads=TWO, **wrong)))
    assert steps == []
    assert why_refused(theirs, sealed()) == ""
    assert steps == STEPS


@pytest.mark.requirement("EB-176", "EB-186")
def test_a_signature_is_over_cms_as_it_comes(send: Send, theirs: Partner) -> None:
    """Beside a payload that was signed before it was encrypted."""
    cms = ("cms@peer", "application/pkcs7-mime", b"0\x80")
    plain = signed(message(payloads=(ORDER, cms)))
    cipher, _ = encrypted(plain)

    def with_cms(content: bytes) -> Signed:
        return with_envelope(plain.but(payloads=(cipher, (*cms[:2], content))), plain.envelope)

    assert ALIKE in send(with_cms(b"0\x81")).error
    assert "does not fit part 'cid:cms@peer'" in Incident.objects.get().detail
    assert send(with_cms(cms[2])).error == ""
    assert contents(plain) == [ORDER[1:], cms[1:]]


def noted(steps: list[str], module: Any, name: str) -> Callable[..., object]:
    function = getattr(module, name)

    def call(*arguments: object) -> object:
        steps.append(name)
        return function(*arguments)

    return call


@pytest.mark.requirement("EB-187")
def test_copy_that_was_changed_is_not_told_what_the_first_one_was(
    send: Send, theirs: Partner
) -> None:
    out = sealed()
    assert send(out).error == ""
    let_answers_leave()
    for name in ("the key", "the content", "the tag", "other content"):
        assert ALIKE in send(FAILURES[name][0]()).error, name
    assert InboundMessage.objects.get().duplicates == 0


@pytest.mark.requirement("EB-175", "EB-187")
def test_message_whose_signature_was_removed_is_not_decrypted(send: Send, theirs: Partner) -> None:
    """Whether it could be: the answer is the same."""
    told = {
        send(in_envelope(r"(?s)<ds:Signature .*</ds:Signature>", "")(out)).error
        for out in (sealed(), FAILURES["the content"][0]())
    }
    assert len(told) == 1
    assert "the agreement wants messages signed" in told.pop()


@pytest.mark.requirement("EB-185", "EB-187")
def test_cbc_counts_only_where_messages_are_signed(send: Send, unsigned: Partner) -> None:
    out = message(payloads=TWO)
    assert ALIKE in send(out.but(payloads=encrypted(out, "aes256-cbc"))).error
    assert "aes256-cbc', which is not taken" in Incident.objects.get().detail
    assert send(out.but(payloads=encrypted(out))).error == ""


@pytest.mark.requirement("EB-185")
def test_without_a_key_of_ours_a_message_is_refused_until_there_is_one(
    unsigned: Partner, settings: Any, tmp_path: Any
) -> None:
    out = message(payloads=TWO)
    incoming = Incoming(out.content_type, out.but(payloads=encrypted(out)).body)
    for without in ([], ["/no/such/file"]):
        settings.MSH_DECRYPTION_KEY = without
        assert ALIKE in receive(unsigned, incoming).reason
        assert "cannot be decrypted by a key of ours" in Incident.objects.get().detail
    settings.MSH_DECRYPTION_KEY = list(decrypting(tmp_path, [new_key("us")]).values())
    assert receive(unsigned, incoming).reason == ""
    assert contents(out) == PLAIN


@pytest.mark.requirement("EB-174", "EB-185")
def test_signed_messages_are_still_judged_as_they_were(send: Send, theirs: Partner) -> None:
    """Without payloads nothing is encrypted, and the reason is told."""
    spoilt = SPOILT["a bit of the envelope"][0](signed(message(payloads=())))
    assert "does not fit" in send(spoilt).error
    assert_taken(send, signed(message(message_id="next@peer", payloads=())))
