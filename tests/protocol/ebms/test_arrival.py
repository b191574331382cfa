"""What happens to an ebMS message under its agreement: the checks, and their order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from msh.protocol import effects as do
from msh.protocol.admission import Postponed, Shortage
from msh.protocol.ebms.agreement import (
    Agreed,
    answers_on_connection,
    is_between,
    tolerated,
    wrong_parties,
)
from msh.protocol.ebms.arrival import Ruling, decide, event_of, order_of
from msh.protocol.ebms.message import (
    AckRequested,
    Defect,
    Error,
    Message,
    MessageHeader,
    MessageOrder,
    Party,
    PartyId,
    ReceivedMessage,
    Service,
)
from msh.protocol.ebms.vocabulary import ErrorCode, OrderStatus, Stage
from msh.protocol.flight.conversation import Conversation
from msh.protocol.flight.serial import Order
from msh.protocol.kinds import IncidentKind
from msh.protocol.receiver import Known

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
AGREED = Agreed("cpa-1", PartyId("us", "DUNS"), PartyId("them", "DUNS"))
HEADER = MessageHeader(
    Party((PartyId("them", "DUNS"),)),
    Party((PartyId("us", "DUNS"),)),
    "cpa-1",
    "conversation-1",
    Service("urn:example:orders"),
    "Order",
    "m1",
    NOW,
    eliminates_duplicates=True,
)
MESSAGE = Message(HEADER, ack_requested=(AckRequested(),))
RATE = Postponed(Shortage.RATE, 7, "send this later")


def defect(rule: str, stage: Stage, location: str = "here", *, waivable: bool = False) -> Defect:
    return Defect(rule, stage, Error("MimeProblem", location=location, description=rule), waivable)


def ruling(
    message: Message = MESSAGE,
    *,
    defects: tuple[Defect, ...] = (),
    agreed: Agreed = AGREED,
    known: Known = Known.NO,
    postponed: Postponed | None = None,
    answered_by_error: bool = False,
) -> Ruling:
    received = ReceivedMessage(message, (), b"digest", b"<envelope/>", defects, ("a note",))
    event = event_of(
        received, known=known, answered_by_error=answered_by_error, postponed=postponed, now=NOW
    )
    after, ruled = decide(received, agreed, event, Conversation(), now=NOW)
    assert after == Conversation()
    return ruled


def headed(**fields: Any) -> Message:
    return replace(MESSAGE, header=replace(HEADER, **fields))


def codes(ruling: Ruling) -> list[str]:
    return [error.code for error in ruling.errors]


def places(ruling: Ruling) -> list[str]:
    return [error.location.rpartition("/")[2] for error in ruling.errors]


def test_message_without_fault_is_taken_and_acknowledged() -> None:
    taken = ruling()

    assert taken.effects == (do.Accept(None, None), do.QueueAck())
    assert (taken.errors, taken.notes, taken.code, taken.postponed) == ((), ("a note",), "", None)


@pytest.mark.requirement("EB-094")
def test_message_that_asks_for_nothing_gets_nothing() -> None:
    assert ruling(replace(MESSAGE, ack_requested=())).effects == (do.Accept(None, None),)


@pytest.mark.requirement("EB-112")
def test_duplicate_is_answered_whatever_the_terms_say() -> None:
    late = headed(time_to_live=NOW)
    strict = replace(AGREED, ack="never", their_role="Buyer")
    for one in (ruling(late, known=Known.SAME), ruling(agreed=strict, known=Known.SAME)):
        assert one.effects == (do.CountDuplicate(), do.RepeatAnswer())
        assert one.errors == ()


@pytest.mark.requirement("EB-101")
def test_known_id_with_other_content_is_inconsistent() -> None:
    reused = ruling(known=Known.OTHER)

    assert (codes(reused), places(reused)) == (["Inconsistent"], ["eb:MessageId"])
    assert reused.code == "MessageIdReused"
    kinds = [one.kind for one in reused.effects if isinstance(one, do.OpenIncident)]
    assert kinds == [IncidentKind.MESSAGE_ID_REUSED]


@pytest.mark.requirement("EB-103")
def test_shortage_is_no_error_of_the_dialect() -> None:
    postponed = ruling(postponed=RATE)

    assert postponed.postponed is not None
    assert postponed.postponed.min_retry_secs == 7
    assert not any(isinstance(one, do.Accept | do.KeepRefusal) for one in postponed.effects)


@pytest.mark.requirement("EB-040")
@pytest.mark.parametrize(("seconds", "expected"), [(0, ["TimeToLiveExpired"]), (1, [])])
def test_time_to_live(seconds: int, expected: list[str]) -> None:
    one = ruling(headed(time_to_live=NOW + timedelta(seconds=seconds)))
    assert codes(one) == expected


@pytest.mark.requirement("EB-065")
def test_checks_in_their_order() -> None:
    """Each is added before the ones that were there, and decides from then on."""
    message, order = MESSAGE, MessageOrder(1)
    message = replace(message, order=order)
    assert places(ruling(message, postponed=RATE)) == ["eb:MessageOrder"]
    manifest = (defect("EB-047", Stage.MANIFEST, "cid:x"),)
    assert places(ruling(message, defects=manifest)) == ["cid:x"]
    late = replace(message, header=replace(HEADER, time_to_live=NOW))
    assert places(ruling(late, defects=manifest)) == ["eb:TimeToLive"]
    roles = replace(AGREED, their_role="Buyer")
    assert places(ruling(late, defects=manifest, agreed=roles)) == ["eb:Role"]
    other = replace(late, header=replace(late.header, from_party=Party((PartyId("x", "DUNS"),))))
    assert places(ruling(other, defects=manifest, agreed=roles)) == ["eb:PartyId"]
    broken = (*manifest, defect("EB-037", Stage.HEADER, "eb:Timestamp"))
    assert places(ruling(other, defects=broken, agreed=roles)) == ["eb:Timestamp"]


def test_refusal_is_kept() -> None:
    refused = ruling(headed(time_to_live=NOW))
    assert refused.effects == (do.KeepRefusal(),)
    assert refused.code == "TimeToLiveExpired"


@pytest.mark.requirement("EB-022", "EB-048")
def test_what_is_let_pass_is_noted() -> None:
    defects = (
        defect("EB-022", Stage.HEADER, waivable=True),
        defect("EB-048", Stage.MANIFEST, waivable=True),
    )
    lenient = replace(AGREED, lenient=frozenset({"EB-022", "EB-048", "EB-133"}))

    taken = ruling(replace(MESSAGE, order=MessageOrder(1)), defects=defects, agreed=lenient)

    assert taken.effects[0] == do.Accept(None, None)
    assert taken.notes == ("a note", "EB-022: EB-022", "EB-048: EB-048")


@pytest.mark.requirement("EB-043")
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(("agreed", "right"), [("always", True), ("never", False)])
def test_presence(agreed: str, right: bool, there: bool) -> None:
    acks = replace(MESSAGE, ack_requested=MESSAGE.ack_requested if there else ())
    assert places(ruling(acks, agreed=replace(AGREED, ack=agreed))) == (
        [] if there is right else ["eb:AckRequested"]
    )
    eliminates = headed(eliminates_duplicates=there)
    assert places(ruling(eliminates, agreed=replace(AGREED, eliminates=agreed))) == (
        [] if there is right else ["eb:DuplicateElimination"]
    )


@pytest.mark.requirement("EB-031")
def test_signed_acknowledgment_is_not_promised() -> None:
    """EB-043"""
    asks = replace(MESSAGE, ack_requested=(AckRequested(signed=True),))
    assert codes(ruling(asks)) == ["Inconsistent"]


def test_roles() -> None:
    roles = replace(AGREED, their_role="Buyer", our_role="Seller")
    theirs, ours = replace(HEADER.from_party, role="Buyer"), replace(HEADER.to_party, role="Bank")

    assert codes(ruling(agreed=roles)) == [ErrorCode.INCONSISTENT] * 2
    one = ruling(headed(from_party=theirs, to_party=ours), agreed=roles)
    assert (codes(one), places(one)) == ([ErrorCode.VALUE_NOT_RECOGNIZED], ["eb:Role"])


@pytest.mark.requirement("EB-029", "EB-030")
def test_parties() -> None:
    several = Party((PartyId("x"), PartyId("them", "DUNS")))
    untyped = replace(AGREED, their_party=PartyId("them"))

    assert is_between(AGREED, several, HEADER.to_party)
    assert not is_between(AGREED, Party((PartyId("them"),)), HEADER.to_party)
    assert is_between(untyped, several, HEADER.to_party)
    assert [one.code for one in wrong_parties(AGREED, several, several)] == ["ValueNotRecognized"]
    assert AGREED.ours == HEADER.to_party
    assert AGREED.theirs == HEADER.from_party


@pytest.mark.requirement("EB-030")
def test_type_is_not_asked_for_where_the_agreement_has_none() -> None:
    place = "/SOAP:Envelope/SOAP:Header/eb:MessageHeader/eb:{}/eb:PartyId[1]"
    theirs = defect("EB-030", Stage.HEADER, place.format("From"), waivable=True)
    ours = defect("EB-030", Stage.HEADER, place.format("To"), waivable=True)

    acker = "/SOAP:Envelope/SOAP:Header/eb:Acknowledgment/eb:From[1]/eb:PartyId[1]"
    theirs_again = defect("EB-030", Stage.HEADER, acker, waivable=True)
    all_of_them = (theirs, ours, theirs_again)

    assert tolerated(all_of_them, AGREED) == all_of_them
    untyped = replace(AGREED, their_party=PartyId("them"))
    assert tolerated(all_of_them, untyped) == (ours,)


@pytest.mark.requirement("EB-039")
def test_reference_to_an_unknown_message_is_refused_at_its_place() -> None:
    event = event_of(
        ReceivedMessage(MESSAGE, (), b"digest", b"<envelope/>", (), ()),
        known=Known.NO,
        answered_by_error=False,
        postponed=None,
        now=NOW,
        refers_to_unknown=True,
    )
    received = ReceivedMessage(MESSAGE, (), b"digest", b"", (), ())
    _, refused = decide(received, AGREED, event, Conversation(), now=NOW)
    assert codes(refused) == [ErrorCode.VALUE_NOT_RECOGNIZED]
    assert places(refused) == ["eb:RefToMessageId"]


ORDERED = replace(AGREED, ordered=True, horizon=60)


def in_order(
    before: Conversation, number: int, **message: Any
) -> tuple[Conversation, Ruling, Order | None]:
    status = OrderStatus.RESET if number == 0 else OrderStatus.CONTINUE
    whole = replace(MESSAGE, order=MessageOrder(number, status), **message)
    received = ReceivedMessage(whole, (), b"digest", b"<envelope/>", (), ())
    event = event_of(received, known=Known.NO, answered_by_error=False, postponed=None, now=NOW)
    order = order_of(received, ORDERED)
    assert order is not None
    return *decide(received, ORDERED, event, before, now=NOW), order


@pytest.mark.requirement("EB-127", "EB-128")
def test_message_is_taken_held_or_refused_by_its_number() -> None:
    begun, taken, order = in_order(Conversation(), 0)
    assert order == Order(0, resets=True)
    assert [type(effect) for effect in taken.effects] == [do.Accept, do.QueueAck]
    _, held, _ = in_order(begun, 2)
    assert [type(effect) for effect in held.effects] == [do.Hold, do.QueueAck]
    second, _, _ = in_order(begun, 1)
    after, late, _ = in_order(second, 1, header=replace(HEADER, message_id="m9"))
    assert (codes(late), places(late)) == ([ErrorCode.INCONSISTENT], ["eb:SequenceNumber"])
    assert after == second


def test_refused_message_leaves_the_conversation_as_it_was() -> None:
    elsewhere = replace(HEADER, to_party=Party((PartyId("others", "DUNS"),)))
    after, refused, _ = in_order(Conversation(), 0, header=elsewhere)
    assert after == Conversation()
    assert codes(refused) == [ErrorCode.VALUE_NOT_RECOGNIZED]


@pytest.mark.requirement("EB-133")
def test_order_is_none_where_it_was_not_agreed_or_is_missing() -> None:
    received = ReceivedMessage(replace(MESSAGE, order=MessageOrder(1)), (), b"", b"", (), ())
    assert order_of(received, AGREED) is None
    assert order_of(ReceivedMessage(MESSAGE, (), b"", b"", (), ()), ORDERED) is None


@pytest.mark.requirement("EB-073", "EB-074")
@pytest.mark.parametrize(
    ("mode", "answers"),
    [("none", False), ("mshSignalsOnly", True), ("signalsOnly", True), ("responseOnly", False)],
)
def test_signals_go_on_the_connection_if_both_say_so(mode: str, answers: bool) -> None:
    agreed = replace(AGREED, sync_reply=mode)
    assert answers_on_connection(agreed, replace(MESSAGE, sync_reply=True)) is answers
    assert not answers_on_connection(agreed, MESSAGE)


def test_the_parties_of_an_agreement() -> None:
    assert (AGREED.theirs, AGREED.ours) == (HEADER.from_party, HEADER.to_party)
