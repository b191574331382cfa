"""Copies of one message in another dress, or damaged on their way (EB-101, EB-112)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from msh.models import History, InboundMessage, Incident, Signal
from tests.endpoint.ebms2 import Send, answers, let_answers_leave
from tests.peer.ebms2 import Outgoing, message

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True)
class Raw:
    """A message whose body was changed after it was composed."""

    of: Outgoing
    body: bytes
    content_type: str

    @classmethod
    def changed(cls, out: Outgoing, *changes: tuple[bytes, bytes]) -> "Raw":
        body = out.body
        for old, new in changes:
            assert old in body
            body = body.replace(old, new)
        return cls(out, body, out.content_type)


_PART = b"Content-ID: <order@peer>\r\nContent-Type: text/xml\r\n\r\n<order/>"
_BASE64 = _PART.replace(b"\r\n\r\n<order/>", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n")


def _without_closing_boundary(out: Outgoing) -> Raw:
    return Raw.changed(out, (b"--peer-boundary--\r\n", b""))


def _cut_in_the_payload(out: Outgoing) -> Raw:
    return Raw(out, out.body[: out.body.index(b"<order/>") + 3], out.content_type)


def _cut_in_the_headers_of_a_part(out: Outgoing) -> Raw:
    return Raw(out, out.body[: out.body.index(b"Content-ID: <order@peer>") + 9], out.content_type)


def _in_broken_base64(out: Outgoing) -> Raw:
    return Raw.changed(out, (_PART, _BASE64 + b"PG9y*ZGVy"))


def _in_an_unknown_encoding(out: Outgoing) -> Raw:
    return Raw.changed(out, (_PART, _BASE64.replace(b"base64", b"x-uuencode") + b"<order/>"))


def _without_its_part(out: Outgoing) -> Raw:
    return Raw.changed(out, (b"--peer-boundary\r\n" + _PART + b"\r\n", b""))


def _with_a_part_twice(out: Outgoing) -> Raw:
    twice = _PART + b"\r\n--peer-boundary\r\n" + _PART
    return Raw.changed(out, (_PART, twice))


def _with_a_part_of_a_gateway(out: Outgoing) -> Raw:
    more = b"\r\n--peer-boundary\r\nContent-Type: text/plain\r\n\r\nscanned"
    return Raw.changed(out, (_PART, _PART + more))


def _with_a_renamed_part(out: Outgoing) -> Raw:
    return Raw.changed(out, (b"Content-ID: <order@peer>", b"Content-ID: <other@peer>"))


SPOILT = [
    _without_closing_boundary,
    _cut_in_the_payload,
    _cut_in_the_headers_of_a_part,
    _in_broken_base64,
    _in_an_unknown_encoding,
    _without_its_part,
    _with_a_part_twice,
    _with_a_part_of_a_gateway,
    _with_a_renamed_part,
]
Spoil = Callable[[Outgoing], Raw]


@pytest.mark.requirement("EB-112")
@pytest.mark.parametrize("spoil", SPOILT)
def test_spoilt_copy_of_an_accepted_message_gets_the_first_answer(send: Send, spoil: Spoil) -> None:
    out = message()
    send(out)
    let_answers_leave()

    response = send(spoil(out))

    assert (response.status, response.error) == (204, "")
    (ack,) = answers(out)
    assert ack.action == "Acknowledgment"
    assert Signal.objects.get().pending == 1
    assert InboundMessage.objects.get().duplicates == 1
    assert History.objects.of_message(out.message_id).filter(event="Note").exists()
    assert not Incident.objects.exists()


@pytest.mark.requirement("EB-101", "EB-112")
@pytest.mark.parametrize("spoil", SPOILT)
def test_intact_message_is_accepted_after_a_spoilt_first_copy(send: Send, spoil: Spoil) -> None:
    out = message()
    for _ in range(2):
        assert send(spoil(out)).status == 204
    (error,) = answers(out)
    assert error.errors[0][0] == "MimeProblem"

    response = send(out)

    assert (response.status, response.error) == (204, "")
    assert [one.action for one in answers(out)] == ["MessageError", "Acknowledgment"]
    (payload,) = InboundMessage.objects.get().payloads.all()
    assert bytes(payload.content) == b"<order/>"
    assert not Incident.objects.exists()


@pytest.mark.requirement("EB-101")
def test_spoilt_copy_of_another_message_is_no_copy(send: Send) -> None:
    out = message()
    send(out)

    send(_without_closing_boundary(out.but(action="Cancel")))

    _, error = answers(out)
    assert [code for code, _ in error.errors] == ["Inconsistent"]


def _other_prefixes(out: Outgoing) -> Raw:
    eb = ((b"eb:", b"e:"), (b"xmlns:eb", b"xmlns:e"))
    return Raw.changed(out, *eb, (b"SOAP", b"s"))


def _with_ids(out: Outgoing) -> Raw:
    return Raw.changed(
        out,
        (b"<eb:MessageHeader ", b'<eb:MessageHeader eb:id="h-77" '),
        (b"<eb:Manifest ", b'<eb:Manifest eb:id="m-77" '),
        (b"<eb:Reference ", b'<eb:Reference eb:id="r-77" '),
    )


def _in_another_order(out: Outgoing) -> Raw:
    cpa = b"<eb:CPAId>cpa-1</eb:CPAId>"
    conversation = b"<eb:ConversationId>conversation-1</eb:ConversationId>"
    return Raw.changed(out, (cpa + conversation, conversation + b"\n  " + cpa))


def _in_base64(out: Outgoing) -> Raw:
    return Raw.changed(out, (_PART, _BASE64 + b"PG9yZGVyLz4="))


def _typed_by_a_gateway(out: Outgoing) -> Raw:
    return Raw.changed(out, (_PART, _PART.replace(b"text/xml", b"text/xml; charset=UTF-8")))


def _with_an_escaped_reference(out: Outgoing) -> Raw:
    return Raw.changed(out, (b"cid:order@peer", b"cid:order%40peer"))


@pytest.mark.requirement("EB-101")
@pytest.mark.parametrize(
    "dress",
    [
        _other_prefixes,
        _with_ids,
        _in_another_order,
        _in_base64,
        _typed_by_a_gateway,
        _with_an_escaped_reference,
        lambda out: out.but(time_to_live="2040-01-01T00:10:00Z"),
        lambda out: out.but(time_to_live=""),
        lambda out: out.but(timestamp="2026-11-22T12:30:00Z", time_to_live="2040-01-01T00:30:00Z"),
        lambda out: out.but(extra="<x:y xmlns:x='urn:x'/>", eliminates=False),
    ],
)
def test_copy_in_another_dress_gets_the_first_answer(
    send: Send, dress: Callable[[Outgoing], Any]
) -> None:
    out = message(time_to_live="2040-01-01T00:00:00Z")
    send(out)
    let_answers_leave()

    assert send(dress(out)).error == ""

    assert Signal.objects.get().pending == 1
    assert InboundMessage.objects.get().duplicates == 1
    assert not Incident.objects.exists()


@pytest.mark.requirement("EB-101")
@pytest.mark.parametrize(
    "change",
    [
        lambda out: out.but(action="Cancel"),
        lambda out: out.but(conversation_id="other"),
        lambda out: out.but(payloads=(("order@peer", "a/b", b""),)),
        lambda out: out.but(ref_to_message_id="m-of-before"),
        lambda out: out.but(service="urn:example:invoices"),
        lambda out: out.but(service_type="urn:example:types"),
        lambda out: out.but(from_role="Buyer"),
        lambda out: Raw.changed(out, (b"<order/>", b"<order />")),
        lambda out: Raw.changed(out, (b"<eb:Reference ", b'<eb:Reference xlink:role="urn:r" ')),
        lambda out: Raw.changed(
            out,
            (
                b'cid:order@peer"/>',
                b'cid:order@peer"><eb:Schema eb:location="urn:s" eb:version="2"/></eb:Reference>',
            ),
        ),
    ],
)
def test_what_identifies_makes_it_another_message(
    send: Send, change: Callable[[Outgoing], Any]
) -> None:
    out = message()
    send(out)

    send(change(out))

    ack, error = answers(out)
    assert ack.action == "Acknowledgment"
    assert [(code, place.rpartition("/")[2]) for code, place in error.errors] == [
        ("Inconsistent", "eb:MessageId")
    ]
    assert InboundMessage.objects.get().duplicates == 0
    assert Incident.objects.get().kind == "message_id_reused"


@pytest.mark.requirement("EB-065")
def test_broken_part_decides_before_an_unusable_header(send: Send) -> None:
    out = message(timestamp="never")

    response = send(_in_broken_base64(out))

    (error,) = answers(out)
    assert [code for code, _ in error.errors] == ["MimeProblem"]
    assert "cid:order@peer" in response.error


@pytest.mark.requirement("EB-101", "EB-112")
def test_refusal_of_a_damaged_message_is_that_of_the_intact_one_too(send: Send) -> None:
    """Its time had passed: that decides before the Manifest."""
    out = message(time_to_live="2020-01-01T00:00:00Z")
    send(_without_its_part(out))

    send(out)

    (error,) = answers(out)
    assert [code for code, _ in error.errors] == ["TimeToLiveExpired"]
