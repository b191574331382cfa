"""A conversation that is received in order: what becomes of a message at each position."""

from dataclasses import replace
from datetime import datetime

import pytest

from msh.protocol import effects as do
from msh.protocol.admission import Postponed, Shortage
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight.arrival import MessageArrived, Terms, of_known
from msh.protocol.flight.conversation import (
    HELD_LIMIT,
    TABLE,
    Conversation,
    Outcome,
    Position,
    drop,
    expect,
    extend_wait,
    hole_is_due,
    position,
    skip,
    step,
)
from msh.protocol.flight.serial import Order
from msh.protocol.kinds import IncidentKind
from msh.protocol.message import Field
from msh.protocol.receiver import Known
from msh.protocol.vocabulary import ErrorCode
from tests.protocol.tables.form import NOW, after

LAST = 99_999_999
HORIZON = 80
TERMS = Terms(ordered=True, horizon=HORIZON)
DUE = after(HORIZON)
EARLIER = after(30)
MISSING = IncidentKind.PREDECESSOR_MISSING
RESOLVED = do.ResolveIncident(MISSING)
RESET = Order(0, resets=True)
ACK = do.QueueAck()


def conversation(
    next_number: int | None, *held: int, due: datetime | None = None, called: bool = False
) -> Conversation:
    return Conversation(next_number, frozenset(held), due, called)


NEW = MessageArrived("m")


def comes(before: Conversation, order: Order, event: MessageArrived = NEW) -> Outcome:
    return step(before, replace(event, order=order), order, TERMS, now=NOW)


@pytest.mark.parametrize(
    ("before", "order", "after", "effects"),
    [
        (conversation(None), RESET, conversation(1), ()),
        (conversation(7), Order(7), conversation(8), ()),
        (conversation(LAST), Order(LAST), conversation(0), ()),
        (conversation(0), Order(0), conversation(1), ()),
        (conversation(7, 8, 9, due=EARLIER), Order(7), conversation(10), (do.Release((8, 9)),)),
        (
            conversation(7, 8, 11, due=EARLIER),
            Order(7),
            conversation(9, 11, due=DUE),
            (do.Release((8,)),),
        ),
        (conversation(7, 9, due=EARLIER), Order(7), conversation(8, 9, due=DUE), ()),
        (
            conversation(7, 8, called=True),
            Order(7),
            conversation(9),
            (do.Release((8,)), RESOLVED),
        ),
        (
            conversation(LAST, 0, 1, due=EARLIER),
            Order(LAST),
            conversation(2),
            (do.Release((0, 1)),),
        ),
        (conversation(None, 1, 2, due=EARLIER), RESET, conversation(3), (do.Release((1, 2)),)),
    ],
)
def test_next_number_is_accepted_and_releases_what_follows(
    before: Conversation, order: Order, after: Conversation, effects: tuple[object, ...]
) -> None:
    """EB-121, EB-127."""
    expected = (do.Accept(order.number, None), ACK, *effects)
    assert comes(before, order) == (after, expected)


@pytest.mark.parametrize(
    ("before", "number", "after"),
    [
        (conversation(7), 9, conversation(7, 9, due=DUE)),
        (conversation(7, 9, due=EARLIER), 8, conversation(7, 8, 9, due=EARLIER)),
        (conversation(7, 9, called=True), 12, conversation(7, 9, 12, called=True)),
        (conversation(LAST), 0, conversation(LAST, 0, due=DUE)),
        (conversation(7), 50_000_007, conversation(7, 50_000_007, due=DUE)),
        (conversation(None), 5, conversation(None, 5, due=DUE)),
        (conversation(None), 0, conversation(None, 0, due=DUE)),
        (conversation(None), 60_000_000, conversation(None, 60_000_000, due=DUE)),
    ],
)
def test_higher_number_is_stored_acknowledged_and_held(
    before: Conversation, number: int, after: Conversation
) -> None:
    """EB-127, EB-130."""
    assert comes(before, Order(number)) == (after, (do.Hold(number), ACK))


def refusal(text: str, code: ErrorCode) -> tuple[do.ConversationEffect, ...]:
    return do.QueueError(code, Field.SEQUENCE_NUMBER, text), do.KeepRefusal()


STALE = "number 6 is below the next number, 7, and its MessageId is unknown"
FAR = "number 50000008 is below the next number, 7, and its MessageId is unknown"
CONFLICT = "number 9 was accepted before for another MessageId"
ODD = "Reset requires number 0, but the number is 3"


@pytest.mark.parametrize(
    ("before", "order", "effects"),
    [
        (conversation(7), Order(6), refusal(STALE, ErrorCode.SEQUENCE_STALE)),
        (conversation(7), Order(50_000_008), refusal(FAR, ErrorCode.SEQUENCE_STALE)),
        (conversation(7, 9), Order(9), refusal(CONFLICT, ErrorCode.SEQUENCE_CONFLICT)),
        (conversation(None, 9), Order(9), refusal(CONFLICT, ErrorCode.SEQUENCE_CONFLICT)),
        (conversation(7), Order(3, resets=True), refusal(ODD, ErrorCode.INCONSISTENT)),
        (conversation(None), Order(3, resets=True), refusal(ODD, ErrorCode.INCONSISTENT)),
        (
            conversation(7, 9),
            RESET,
            (
                do.QueueError(
                    ErrorCode.INCONSISTENT,
                    Field.SEQUENCE_NUMBER,
                    "Reset is not possible while 1 message waits for number 7",
                ),
            ),
        ),
    ],
)
def test_number_that_cannot_be(
    before: Conversation, order: Order, effects: tuple[do.ConversationEffect, ...]
) -> None:
    """EB-128, EB-129."""
    assert comes(before, order) == (before, effects)


@pytest.mark.parametrize("next_number", [7, 0])
def test_reset_of_a_conversation_that_has_begun_is_taken_and_shown(next_number: int) -> None:
    """EB-129."""
    detail = f"the partner restarted the conversation; number {next_number} was expected"
    incident = do.OpenIncident(IncidentKind.ORDER_RESTARTED, "m", detail)
    assert comes(conversation(next_number), RESET) == (
        conversation(1),
        (do.Accept(0, None), ACK, incident),
    )


def test_reset_waits_until_everything_is_delivered() -> None:
    """EB-129."""
    before = conversation(7)
    after, (error,) = comes(before, RESET, MessageArrived("m", undelivered=True))
    assert after == before
    assert isinstance(error, do.QueueError)
    assert (error.code, error.min_retry_secs) == (ErrorCode.TRANSIENT_ERROR, 30)
    assert comes(before, Order(7), MessageArrived("m", undelivered=True))[0] == conversation(8)


def test_only_a_hundred_are_held() -> None:
    """EB-131: and the one that fills the hole is taken."""
    before = conversation(7, *range(8, 8 + HELD_LIMIT), due=EARLIER)
    text = "100 messages wait for number 7 already: send that one first"
    error = do.QueueError(ErrorCode.DELIVERY_FAILURE, Field.SEQUENCE_NUMBER, text)
    assert comes(before, Order(108)) == (before, (error,))
    assert comes(before, Order(7))[0] == conversation(108)
    one_less = replace(before, held=before.held - {107})
    assert comes(one_less, Order(108))[0].held == {*range(8, 107), 108}


@pytest.mark.parametrize("order", [Order(7), Order(9), Order(6), RESET, Order(3, resets=True)])
@pytest.mark.parametrize("known", [Known.SAME, Known.WITHHELD, Known.OTHER])
def test_known_message_is_answered_whatever_its_number(known: Known, order: Order) -> None:
    """EB-112: the MessageId is asked before the number."""
    event = MessageArrived("m", known, expired=True)
    before = conversation(7, 8, due=EARLIER)
    assert comes(before, order, event) == (before, of_known(event))


def test_agreement_and_time_to_live_are_asked_before_the_number() -> None:
    """EB-065, EB-125."""
    before = conversation(7)
    _, (error, _) = comes(before, Order(6), MessageArrived("m", asks_ack=False))
    assert isinstance(error, do.QueueError)
    assert error.code is ErrorCode.INCONSISTENT
    _, (error, _) = comes(before, Order(6), MessageArrived("m", expired=True))
    assert isinstance(error, do.QueueError)
    assert error.code is ErrorCode.TIME_TO_LIVE_EXPIRED


def test_limits_of_ours_are_asked_last() -> None:
    """EB-065, EB-103: nothing is stored, and what is wrong with a number stays an Error."""
    short = MessageArrived("m", postponed=Postponed(Shortage.RATE, 7, "slower, please"))
    before = conversation(7)
    for number in (7, 9):
        after, (error,) = comes(before, Order(number), short)
        assert (after, error) == (
            before,
            do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, "slower, please", 7),
        )
    assert comes(before, Order(6), short) == comes(before, Order(6))


def test_the_table_has_a_cell_for_everything() -> None:
    assert [set(TABLE[known]) for known in Known] == [set(Position)] * len(Known)


@pytest.mark.parametrize(
    ("before", "order", "where"),
    [
        (conversation(None), RESET, Position.NEXT),
        (conversation(None, 4), RESET, Position.NEXT),
        (conversation(None), Order(0), Position.AHEAD),
        (conversation(None, 0), RESET, Position.HELD),
        (conversation(None), Order(1, resets=True), Position.MISNUMBERED),
        (conversation(0), Order(0), Position.NEXT),
        (conversation(0), RESET, Position.RESET),
        (conversation(0, 2), RESET, Position.RESET_HELD),
        (conversation(0), Order(LAST), Position.BEHIND),
        (conversation(0), Order(1), Position.AHEAD),
    ],
)
def test_position(before: Conversation, order: Order, where: Position) -> None:
    assert position(before, order) is where


# --- time and operators -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("due", "called"), [(0, True), (-5, True), (1, False), (160, False), (161, True)]
)
def test_hole_that_does_not_fill_calls_an_operator(due: float, called: bool) -> None:
    """EB-130, EB-132. A time farther away than two horizons: the clock was set back (D13)."""
    before = conversation(7, 9, 10, due=after(due))
    detail = "number 7 is missing: 2 messages wait for number 7"
    expected: Outcome = (
        (conversation(7, 9, 10, called=True), (do.OpenIncident(MISSING, "", detail),))
        if called
        else (before, ())
    )
    assert hole_is_due(before, HORIZON, now=NOW) == expected
    assert hole_is_due(expected[0], HORIZON, now=NOW) == (expected[0], ())


@pytest.mark.parametrize(("called", "effects"), [(True, (RESOLVED,)), (False, ())])
def test_an_operator_waits_on(called: bool, effects: tuple[object, ...]) -> None:
    """EB-132."""
    before = conversation(7, 9, called=called)
    assert extend_wait(before, HORIZON, now=NOW) == (conversation(7, 9, due=DUE), effects)


@pytest.mark.parametrize(
    ("before", "after", "effects"),
    [
        (conversation(7, 9, 10, called=True), conversation(11), (do.Release((9, 10)), RESOLVED)),
        (
            conversation(7, 9, 12, due=EARLIER),
            conversation(10, 12, due=DUE),
            (do.Release((9,)),),
        ),
        (conversation(None, 5, 6, due=EARLIER), conversation(7), (do.Release((5, 6)),)),
        (conversation(LAST - 1, 1, 0, due=EARLIER), conversation(2), (do.Release((0, 1)),)),
    ],
)
def test_an_operator_delivers_past_the_hole(
    before: Conversation, after: Conversation, effects: tuple[object, ...]
) -> None:
    """EB-130, EB-132."""
    assert skip(before, HORIZON, now=NOW) == (after, effects)


@pytest.mark.parametrize(("called", "effects"), [(True, (RESOLVED,)), (False, ())])
def test_an_operator_drops_what_is_held(called: bool, effects: tuple[object, ...]) -> None:
    """EB-132: and the partner may start anew."""
    before = conversation(LAST - 1, 0, LAST, 4, due=EARLIER, called=called)
    after, dropped = drop(before)
    assert (after, dropped) == (conversation(LAST - 1), (do.Drop((LAST, 0, 4)), *effects))
    assert comes(after, RESET)[0] == conversation(1)


@pytest.mark.parametrize(
    ("before", "number", "after", "effects"),
    [
        (conversation(None), 42, conversation(42), ()),
        (conversation(7), 42, conversation(42), ()),
        (conversation(LAST), 3, conversation(3), ()),
        (
            conversation(7, 9, 11, 12, called=True),
            11,
            conversation(13),
            (do.Release((9,)), do.Release((11, 12)), RESOLVED),
        ),
        (
            conversation(7, 9, 20, due=EARLIER),
            12,
            conversation(12, 20, due=DUE),
            (do.Release((9,)),),
        ),
    ],
)
def test_an_operator_says_which_number_comes_next(
    before: Conversation, number: int, after: Conversation, effects: tuple[object, ...]
) -> None:
    assert expect(before, number, HORIZON, now=NOW) == (after, effects)


@pytest.mark.parametrize("number", [7, 6, 50_000_008])
def test_expected_number_must_be_ahead(number: int) -> None:
    with pytest.raises(IllegalTransition):
        expect(conversation(7), number, HORIZON, now=NOW)


def test_verbs_about_what_is_held_need_something_held() -> None:
    before = conversation(7)
    with pytest.raises(IllegalTransition):
        extend_wait(before, HORIZON, now=NOW)
    with pytest.raises(IllegalTransition):
        skip(before, HORIZON, now=NOW)
    with pytest.raises(IllegalTransition):
        drop(before)
