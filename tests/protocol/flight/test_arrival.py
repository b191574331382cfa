"""What happens to an ebMS message that arrives: duplicates, the first answer, what is refused."""

from dataclasses import replace

import pytest

from msh.protocol import effects as do
from msh.protocol.admission import Postponed, Shortage
from msh.protocol.flight.arrival import MessageArrived, Terms, unordered
from msh.protocol.flight.serial import Order
from msh.protocol.kinds import IncidentKind
from msh.protocol.message import Field
from msh.protocol.receiver import Known
from msh.protocol.vocabulary import ErrorCode

NEW = MessageArrived("m7")
TERMS = Terms()
SHORT = Postponed(Shortage.RATE, 7, "slower, please")
FULL = Postponed(Shortage.STORE, 60, "full")
OTHER = "MessageId m7 was accepted before with other content"
MAKING = "the answer to the first copy is being prepared"
ANSWERED = (do.CountDuplicate(), do.RepeatAnswer())
REUSED = (
    do.QueueError(ErrorCode.MESSAGE_ID_REUSED, Field.MESSAGE_ID, OTHER),
    do.OpenIncident(IncidentKind.MESSAGE_ID_REUSED, "m7", OTHER),
)
BUSY = (do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, MAKING, 5),)
EXPIRED = (
    do.QueueError(ErrorCode.TIME_TO_LIVE_EXPIRED, Field.MESSAGE, "its TimeToLive has expired"),
    do.KeepRefusal(),
)


def refused(code: ErrorCode, text: str) -> tuple[do.ConversationEffect, ...]:
    return do.QueueError(code, Field.SEQUENCE_NUMBER, text), do.KeepRefusal()


@pytest.mark.parametrize(
    ("event", "effects"),
    [
        (NEW, (do.Accept(None, None), do.QueueAck())),
        (replace(NEW, asks_ack=False), (do.Accept(None, None),)),
        (replace(NEW, eliminates=False), (do.Accept(None, None), do.QueueAck())),
        (replace(NEW, known=Known.SAME), ANSWERED),
        (replace(NEW, known=Known.SAME, asks_ack=False), (do.CountDuplicate(),)),
        (replace(NEW, known=Known.SAME, asks_ack=False, answered_by_error=True), ANSWERED),
        (replace(NEW, known=Known.WITHHELD), BUSY),
        (replace(NEW, known=Known.OTHER), REUSED),
        (replace(NEW, expired=True), EXPIRED),
        (
            replace(NEW, postponed=SHORT),
            (do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, "slower, please", 7),),
        ),
        (
            replace(NEW, postponed=FULL),
            (
                do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, "full", 60),
                do.OpenIncident(IncidentKind.STORE_SHORT, "m7", "full"),
            ),
        ),
    ],
)
def test_message_without_order(
    event: MessageArrived, effects: tuple[do.ConversationEffect, ...]
) -> None:
    """EB-040, EB-094, EB-100, EB-101, EB-103, EB-112, EB-113."""
    assert unordered(event, TERMS) == effects


@pytest.mark.parametrize("known", [Known.SAME, Known.OTHER, Known.WITHHELD])
def test_copy_of_a_known_message_is_answered_before_anything_else_is_asked(known: Known) -> None:
    """EB-040, EB-112, EB-114, and the order of EB-065."""
    spoilt = replace(NEW, known=known, expired=True, postponed=FULL, order=Order(3))
    assert unordered(spoilt, TERMS) == unordered(replace(NEW, known=known), TERMS)


def test_what_is_wrong_with_the_message_goes_before_our_own_limits() -> None:
    """EB-065."""
    assert unordered(replace(NEW, expired=True, postponed=FULL), TERMS) == EXPIRED


ORDERED = Terms(ordered=True)
LACKS = refused(
    ErrorCode.INCONSISTENT, "the agreement requires MessageOrder, which the message does not have"
)
NEEDS = "MessageOrder needs AckRequested and DuplicateElimination"
SYNC = "MessageOrder and SyncReply cannot be combined"
WITH = replace(NEW, order=Order(3))
TAKEN = (do.Accept(None, None), do.QueueAck())


@pytest.mark.parametrize(
    ("event", "terms", "effects"),
    [
        (
            WITH,
            TERMS,
            refused(ErrorCode.NOT_SUPPORTED, "the agreement does not allow MessageOrder"),
        ),
        (WITH, Terms(lenient_order=True), TAKEN),
        (NEW, ORDERED, LACKS),
        (NEW, replace(ORDERED, lenient_order=True), TAKEN),
        (replace(NEW, asks_ack=False), ORDERED, (do.Accept(None, None),)),
        (replace(NEW, eliminates=False), ORDERED, TAKEN),
        (replace(WITH, asks_ack=False), ORDERED, refused(ErrorCode.INCONSISTENT, NEEDS)),
        (replace(WITH, eliminates=False), ORDERED, refused(ErrorCode.INCONSISTENT, NEEDS)),
        (replace(WITH, asks_sync=True), ORDERED, refused(ErrorCode.INCONSISTENT, SYNC)),
    ],
)
def test_order_and_agreement(
    event: MessageArrived, terms: Terms, effects: tuple[do.ConversationEffect, ...]
) -> None:
    """EB-076, EB-125, EB-133."""
    assert unordered(event, terms) == effects
