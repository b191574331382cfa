"""What an agreement wants encrypted, and what a partner is told of what cannot be decrypted."""

from dataclasses import replace
from typing import Any

import pytest

from msh.protocol import effects as do
from msh.protocol.ebms.encryption import (
    CBC,
    CONTENT,
    GCM,
    MANIFEST,
    RSA_1_5,
    RSA_OAEP,
    RSA_OAEP_MGF1P,
    Algorithms,
    DecryptionTerms,
    decrypted,
    has_to_be_decrypted,
    terms_of,
    told_alike,
    undecrypted,
    why_not_taken,
)
from msh.protocol.ebms.message import Defect, Error, ReceivedMessage, Service
from msh.protocol.ebms.proof import refused
from msh.protocol.ebms.vocabulary import SERVICE, ErrorCode, Stage
from msh.protocol.kinds import IncidentKind
from msh.protocol.message import Payload
from msh.protocol.receiver import Known
from tests.protocol.ebms.test_arrival import AGREED, codes, places
from tests.protocol.ebms.test_proof import SIGNED, received, ruling

ENCRYPTED = replace(AGREED, encrypted=True)
BOTH = replace(SIGNED, encrypted=True)
PLAIN = Payload(b"<order/>", "text/xml", "order@peer")
CIPHER = replace(PLAIN, content=b"<EncryptedData/>", content_type="application/xml")


def with_payload(payload: Payload = CIPHER, *, encrypted: bool, **how: Any) -> ReceivedMessage:
    """As it is parsed."""
    names = frozenset({payload.content_id}) if encrypted else frozenset()
    error = Error(ErrorCode.SECURITY_FAILURE, location="cid:order@peer", description="encrypted")
    defect = Defect("EB-185", Stage.SECURITY, error, waivable=True)
    defects = (defect,) if encrypted else ()
    return replace(received(**how), payloads=(payload,), encrypted=names, defects=defects)


def opened(one: ReceivedMessage) -> ReceivedMessage:
    return decrypted(one, [PLAIN], b"plain")


@pytest.mark.requirement("EB-185")
def test_only_an_agreement_has_payloads_decrypted() -> None:
    one = with_payload(encrypted=True, signed=False)
    assert has_to_be_decrypted(one, ENCRYPTED)
    assert not has_to_be_decrypted(one, AGREED)
    assert not has_to_be_decrypted(with_payload(PLAIN, encrypted=False), ENCRYPTED)
    assert codes(ruling(one, AGREED)) == ["SecurityFailure"]
    lenient = replace(AGREED, lenient=frozenset({"EB-185"}))
    assert [note.partition(":")[0] for note in ruling(one, lenient).notes] == ["EB-185"]


@pytest.mark.requirement("EB-187")
def test_what_is_not_signed_is_not_decrypted_where_it_has_to_be() -> None:
    """Else anybody could ask us what decrypts to something."""
    one = with_payload(encrypted=True, signed=False)
    assert not has_to_be_decrypted(one, BOTH)
    assert places(ruling(one, BOTH)) == ["ds:Signature"]
    assert has_to_be_decrypted(with_payload(encrypted=True), BOTH)


@pytest.mark.requirement("EB-185")
def test_signals_are_not_decrypted() -> None:
    one = with_payload(encrypted=True)
    header = replace(one.message.header, service=Service(SERVICE), action="Ping")
    ping = replace(one, message=replace(one.message, header=header))
    assert not has_to_be_decrypted(ping, ENCRYPTED)


@pytest.mark.requirement("EB-101", "EB-185")
def test_a_decrypted_message_is_taken_as_if_it_had_come_so() -> None:
    one = opened(with_payload(encrypted=True, signed=False))
    assert (one.payloads, one.content_digest, one.defects) == ((PLAIN,), b"plain", ())
    assert ruling(one, ENCRYPTED).effects == (do.Accept(None, None), do.QueueAck())


@pytest.mark.requirement("EB-185", "EB-186")
@pytest.mark.parametrize(
    "content_type", ["Application/PKCS7-Mime ; x=y", "application/x-pkcs7-mime"]
)
def test_each_payload_has_to_be_encrypted_but_what_the_application_has_encrypted(
    content_type: str,
) -> None:
    plain = with_payload(PLAIN, encrypted=False, signed=False)
    one = ruling(plain, ENCRYPTED)
    assert (codes(one), places(one)) == (["SecurityFailure"], ["cid:order@peer"])
    assert one.effects == (do.KeepRefusal(),)
    assert ruling(plain, AGREED).errors == ()
    cms = with_payload(replace(PLAIN, content_type=content_type), encrypted=False, signed=False)
    assert ruling(cms, ENCRYPTED).errors == ()


@pytest.mark.requirement("EB-176", "EB-187")
@pytest.mark.parametrize("known", [Known.NO, Known.OTHER])
def test_whatever_fails_is_told_alike_and_not_kept(known: Known) -> None:
    """Operators are told what it was. A copy of other content is no copy."""
    one = opened(with_payload(encrypted=True))
    failures = {
        "a": undecrypted(one, "a"),
        "a; b": undecrypted(undecrypted(one, "a"), "b"),
        "/SOAP:Envelope/SOAP:Header/ds:Signature c": refused(one, "c"),
        "a; /SOAP:Envelope/SOAP:Header/ds:Signature c": refused(undecrypted(one, "a"), "c"),
    }
    rulings = {reason: ruling(told_alike(each), BOTH, known) for reason, each in failures.items()}
    assert len({one.errors for one in rulings.values()}) == 1
    for reason, each in rulings.items():
        assert (codes(each), [one.location for one in each.errors]) == (
            ["SecurityFailure"],
            [MANIFEST],
        )
        assert each.effects == (do.OpenIncident(IncidentKind.SIGNATURE_REFUSED, "m1", reason),)


@pytest.mark.requirement("EB-187")
def test_what_does_not_fail_is_told_nothing() -> None:
    one = opened(with_payload(encrypted=True))
    assert told_alike(one) is one


@pytest.mark.requirement("EB-185", "EB-187")
def test_algorithms_that_are_taken() -> None:
    """CBC only under a signature, RSA 1.5 only where it was agreed."""
    all_of_it = DecryptionTerms(allow_cbc=True, allow_rsa_1_5=True)
    assert terms_of(replace(BOTH, allow_rsa_1_5=True)) == all_of_it
    assert terms_of(ENCRYPTED) == DecryptionTerms()
    for content in CONTENT:
        for key in (RSA_OAEP, RSA_OAEP_MGF1P, RSA_1_5):
            assert why_not_taken(Algorithms(content, key), all_of_it) == ""
            strict = why_not_taken(Algorithms(content, key), DecryptionTerms())
            assert bool(strict) == (content in CBC or key == RSA_1_5)
    (gcm, *_) = GCM
    for wrong in (
        Algorithms("urn:none", RSA_OAEP),
        Algorithms(gcm, "urn:none"),
        Algorithms(gcm, RSA_OAEP, digest="urn:none"),
        Algorithms(gcm, RSA_OAEP, mask="urn:none"),
    ):
        assert why_not_taken(wrong, all_of_it) == "is encrypted by 'urn:none', which is not taken"
