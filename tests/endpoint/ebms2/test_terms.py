"""What an agreement says of the messages that come under it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from msh.models import History, InboundMessage
from partners.models import Partner
from tests.endpoint.ebms2 import Send, answers, assert_refused
from tests.peer.ebms2 import SIGNATURE, acknowledgment, message, ping

pytestmark = pytest.mark.django_db(transaction=True)

XENC = "http://www.w3.org/2001/04/xmlenc#"
ENCRYPTED = f'<xenc:EncryptedData xmlns:xenc="{XENC}"><xenc:CipherData/></xenc:EncryptedData>'


def one_payload(content: str | bytes, content_type: str = "application/xml") -> dict[str, Any]:
    body = content.encode() if isinstance(content, str) else content
    return {"payloads": (("order@peer", content_type, body),)}


CIPHER_TEXTS = {
    "prefixed": one_payload(ENCRYPTED),
    "bare": one_payload(f'<EncryptedData xmlns="{XENC}"/>', "text/xml"),
    "declared": one_payload(f'<?xml version="1.0"?>\n<!-- > -->\r\n{ENCRYPTED}'),
    "with a mark": one_payload(b"\xef\xbb\xbf" + ENCRYPTED.encode()),
    "UTF-16": one_payload(ENCRYPTED.encode("utf-16")),
    "of another type": one_payload(ENCRYPTED, "application/octet-stream"),
    "by its type": one_payload(b"\x00", "application/xenc+xml"),
    "with attributes": one_payload(f'<e:EncryptedData\n Id="a" MimeType="b"\n xmlns:e="{XENC}"/>'),
}


@pytest.mark.requirement("EB-010", "EB-175", "EB-185")
@pytest.mark.parametrize("payload", CIPHER_TEXTS.values(), ids=list(CIPHER_TEXTS))
def test_encrypted_payload_is_never_delivered_as_it_is(send: Send, payload: dict[str, Any]) -> None:
    assert_refused(send, message(**payload), ("SecurityFailure", "cid:order@peer"))


@pytest.mark.requirement("EB-010", "EB-175")
def test_signature_that_nobody_verifies_is_refused(send: Send) -> None:
    assert_refused(send, message(extra=SIGNATURE), ("SecurityFailure", "ds:Signature"))


@pytest.mark.requirement("EB-175", "EB-185")
@pytest.mark.parametrize(
    ("rule", "fields"),
    [("EB-175", {"extra": SIGNATURE}), ("EB-185", one_payload(ENCRYPTED))],
)
def test_agreement_may_leave_security_to_the_application(
    send: Send, ebms2: Partner, rule: str, fields: dict[str, Any]
) -> None:
    ebms2.agreements.update(lenient=[rule])
    out = message(**fields)

    send(out)

    assert [one.action for one in answers(out)] == ["Acknowledgment"]
    stored = InboundMessage.objects.get().payloads.get()
    assert bytes(stored.content) == out.payloads[0][2]
    notes = History.objects.of_message(out.message_id).filter(event="Note")
    assert [one.detail.split(":")[0] for one in notes] == [rule]


@pytest.mark.requirement("EB-065")
def test_security_is_asked_before_the_terms_and_the_time(send: Send, ebms2: Partner) -> None:
    ebms2.agreements.update(ack="never")
    out = message(**one_payload(ENCRYPTED), time_to_live="2020-01-01T00:00:00Z")
    assert_refused(send, out, ("SecurityFailure", "cid:order@peer"))


@pytest.mark.requirement("EB-186")
@pytest.mark.parametrize(
    "payload",
    [
        one_payload(b"0\x80", "application/pkcs7-mime"),
        one_payload(f'<order xmlns:xenc="{XENC}"><xenc:EncryptedData/></order>'),
        one_payload("<EncryptedData>of another vocabulary</EncryptedData>"),
        one_payload(f"<!-- <xenc:EncryptedData xmlns:xenc='{XENC}'> --><order/>"),
    ],
)
def test_what_is_only_like_it_passes(send: Send, payload: dict[str, Any]) -> None:
    out = message(**payload)
    send(out)
    assert [one.action for one in answers(out)] == ["Acknowledgment"]


@pytest.mark.requirement("EB-062")
def test_signed_signals_are_taken(send: Send) -> None:
    block = acknowledgment("nothing").extra
    for out in (acknowledgment("nothing").but(extra=block + SIGNATURE), ping(extra=SIGNATURE)):
        response = send(out)
        assert (response.status, response.error) == (204, "")


@pytest.mark.requirement("EB-034")
@pytest.mark.parametrize("wrong", ["urn:nonsense", ""])
def test_service_of_another_type_is_not_recognised(send: Send, ebms2: Partner, wrong: str) -> None:
    ebms2.agreements.update(service_type="urn:osb")
    assert_refused(send, message(service_type=wrong), ("ValueNotRecognized", "eb:Service"))

    right = message(service_type="urn:osb")
    send(right)
    assert [one.action for one in answers(right)] == ["Acknowledgment"]


@pytest.mark.requirement("EB-034")
def test_agreement_without_a_type_takes_any(send: Send) -> None:
    for out in (message(service_type="urn:any"), message(service_type="")):
        send(out)
        assert [one.action for one in answers(out)] == ["Acknowledgment"]


@pytest.mark.requirement("EB-040")
@pytest.mark.parametrize(
    ("tolerance", "late", "accepted"),
    [(60, 30, True), (60, 120, False), (0, 5, False), (3600, 1800, True)],
)
def test_clocks_may_differ_by_what_the_agreement_tolerates(
    send: Send, ebms2: Partner, tolerance: int, late: int, accepted: bool
) -> None:
    ebms2.agreements.update(clock_tolerance=tolerance)
    end = datetime.now(UTC) - timedelta(seconds=late)
    out = message(time_to_live=f"{end:%FT%TZ}")

    send(out)

    (answer,) = answers(out)
    assert answer.action == ("Acknowledgment" if accepted else "MessageError")
