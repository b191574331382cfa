"""What an agreement wants signed: which messages are refused, and which Acknowledgments count."""

from dataclasses import replace
from typing import Any

import pytest

from msh.protocol import effects as do
from msh.protocol.ebms.arrival import Ruling, decide, event_of
from msh.protocol.ebms.message import Acknowledgment, AckRequested, ReceivedMessage, Service
from msh.protocol.ebms.proof import has_to_be_verified, refused, unproven, why_not_acknowledged
from msh.protocol.ebms.signature import SHA256, SignedReference
from msh.protocol.ebms.vocabulary import SERVICE, Actor
from msh.protocol.flight.conversation import Conversation
from msh.protocol.kinds import IncidentKind
from msh.protocol.receiver import Known
from tests.protocol.ebms.test_arrival import AGREED, MESSAGE, NOW, codes, places

WHOLE = SignedReference("", SHA256, "x")
PART = SignedReference("cid:a", SHA256, "y")
PINNED = replace(AGREED, certificates=("a certificate",))
SIGNED = replace(PINNED, signed=True)


def received(*, signed: bool = True, verified: bool = False, **fields: Any) -> ReceivedMessage:
    message = replace(MESSAGE, signed=signed, **fields)
    references = (WHOLE, PART) if verified else ()
    return ReceivedMessage(message, (), b"digest", b"<envelope/>", signed_by_partner=references)


def ruling(one: ReceivedMessage, agreed: Any = SIGNED, known: Known = Known.NO) -> Ruling:
    event = event_of(one, known=known, answered_by_error=False, postponed=None, now=NOW)
    return decide(one, agreed, event, Conversation(), now=NOW)[1]


@pytest.mark.requirement("EB-175")
def test_a_signature_is_verified_where_there_is_a_certificate() -> None:
    assert has_to_be_verified(received(), PINNED)
    assert not has_to_be_verified(received(), AGREED)
    assert not has_to_be_verified(received(signed=False), SIGNED)


@pytest.mark.requirement("EB-175")
@pytest.mark.parametrize("agreed", [SIGNED, PINNED])
def test_a_verified_message_is_taken(agreed: Any) -> None:
    accepted = ruling(received(verified=True), agreed)
    assert accepted.effects == (do.Accept(None, None), do.QueueAck())
    assert accepted.notes == ()


@pytest.mark.requirement("EB-175")
def test_a_message_without_signature_is_refused_where_it_was_agreed() -> None:
    one = ruling(received(signed=False))
    assert (codes(one), places(one)) == (["SecurityFailure"], ["ds:Signature"])
    assert ruling(received(signed=False), PINNED).errors == ()


@pytest.mark.requirement("EB-175")
def test_a_signature_without_certificate_is_the_application_s_only_if_it_was_agreed() -> None:
    assert codes(ruling(received(), AGREED)) == ["SecurityFailure"]
    lenient = replace(AGREED, lenient=frozenset({"EB-175"}))
    assert [one.partition(":")[0] for one in ruling(received(), lenient).notes] == ["EB-175"]
    for strict in (replace(lenient, certificates=("one",)), replace(lenient, signed=True)):
        assert codes(ruling(received(), strict)) == ["SecurityFailure"]


@pytest.mark.requirement("EB-177")
def test_the_refusal_of_a_signature_is_not_kept() -> None:
    """Else anybody could have a message of the partner refused, by its MessageId."""
    failed = refused(received(), "does not fit")
    one = ruling(failed)
    text = one.errors[0].location + " does not fit"
    assert (codes(one), one.errors[0].description) == (["SecurityFailure"], text)
    assert one.effects == (do.OpenIncident(IncidentKind.SIGNATURE_REFUSED, "m1", text),)
    assert list(unproven(failed, SIGNED)) == []


@pytest.mark.requirement("EB-101", "EB-176")
def test_a_copy_is_answered_and_other_content_is_not_believed() -> None:
    failed = refused(received(), "does not fit")
    assert ruling(failed, known=Known.SAME).effects == (do.CountDuplicate(), do.RepeatAnswer())
    assert codes(ruling(failed, known=Known.OTHER)) == ["SecurityFailure"]
    proven = received(verified=True)
    assert codes(ruling(proven, known=Known.OTHER)) == ["Inconsistent"]


@pytest.mark.requirement("EB-099")
def test_no_unsigned_acknowledgment_is_promised() -> None:
    able = replace(SIGNED, ack_signed=True, can_sign=True)
    unable = replace(able, can_sign=False)
    asks = received(verified=True, ack_requested=(AckRequested(signed=True),))
    plain = received(verified=True)
    for one in (asks, plain):
        assert ruling(one, able).errors == ()
        refusal = ruling(one, unable)
        assert (codes(refusal), places(refusal)) == (["SecurityFailure"], ["eb:AckRequested"])
    assert codes(ruling(asks, SIGNED)) == ["Inconsistent"]
    assert ruling(received(verified=True, ack_requested=()), unable).errors == ()


BLOCK = Acknowledgment("m1", NOW)
DIGESTS = (PART, WHOLE)


@pytest.mark.requirement("EB-098", "EB-179")
@pytest.mark.parametrize(
    ("block", "verified", "ack_signed", "why"),
    [
        (BLOCK, False, False, ""),
        (BLOCK, False, True, "is not signed, which the agreement wants"),
        (BLOCK, True, False, "has no digests of the message"),
        (replace(BLOCK, digests=DIGESTS), True, True, ""),
        (replace(BLOCK, digests=DIGESTS), False, False, ""),
        (replace(BLOCK, digests=DIGESTS), False, True, "is not signed, which the agreement wants"),
        (replace(BLOCK, digests=(PART,)), False, False, "has digests of another message"),
        (replace(BLOCK, digests=(WHOLE, replace(PART, value="z"))), True, True, "has digests of"),
        (replace(BLOCK, digests=(WHOLE, replace(PART, uri="cid:b"))), True, True, "has digests of"),
        (replace(BLOCK, actor=Actor.NEXT_MSH, digests=DIGESTS), True, True, "is not signed"),
    ],
)
def test_an_acknowledgment_of_a_signed_message(
    block: Acknowledgment, verified: bool, ack_signed: bool, why: str
) -> None:
    agreed, one = replace(SIGNED, ack_signed=ack_signed), received(verified=verified)
    found = why_not_acknowledged([block], one, agreed, (WHOLE, PART))
    assert found.startswith(why)
    assert bool(found) == bool(why)
    good = replace(BLOCK, digests=DIGESTS)
    assert bool(why_not_acknowledged([block, good], one, agreed, (WHOLE, PART))) == (
        ack_signed and not verified
    )


@pytest.mark.requirement("EB-179")
def test_of_a_message_that_we_did_not_sign_there_is_nothing_to_compare() -> None:
    block = replace(BLOCK, digests=DIGESTS)
    assert why_not_acknowledged([block], received(verified=True), SIGNED, ()) == ""


@pytest.mark.requirement("EB-088")
def test_blocks_about_one_message() -> None:
    about = [Acknowledgment(one, NOW) for one in ("a", "", "b")]
    header = replace(MESSAGE.header, ref_to_message_id="b")
    message = replace(MESSAGE, header=header, acknowledgments=tuple(about))
    assert message.acknowledging("a") == (about[0],)
    assert message.acknowledging("b") == (about[1], about[2])
    signal = replace(header, service=Service(SERVICE), action="Acknowledgment")
    assert replace(message, header=signal).acknowledging("b") == tuple(about)
