"""A conversation that is sent in order: what starts, and numbers at the wrap-around."""

from dataclasses import replace

import pytest

from msh.protocol import flight
from msh.protocol.flight import Flight, FlightState
from msh.protocol.flight.numbering import (
    LastNumberSet,
    MessageLost,
    MessageResumed,
    MessageStarted,
    MessageStopped,
    MessageTaken,
    Numbering,
    NumberingEvent,
    event_of,
    step,
)
from msh.protocol.flight.serial import Order, distance, is_behind
from msh.protocol.kinds import Verdict
from tests.protocol.tables.flight import COLUMNS, NUMBERED, flight_in
from tests.protocol.tables.numbering import CONFIRMING, NEW, RUNNING, stopped

LAST = 99_999_999


def test_first_number_is_0_with_reset_and_the_wrap_is_0_with_continue() -> None:
    """EB-121."""
    orders, numbering = [], NEW
    for message_id in ("m1", "m2", "m3"):
        orders.append(numbering.order)
        numbering = step(step(numbering, MessageStarted(message_id)), MessageTaken(message_id))
    assert orders == [Order(0, resets=True), Order(1), Order(2)]
    last = step(NEW, LastNumberSet(LAST - 1, outstanding=0))
    assert (last.order, step(last, MessageStarted("m9")).order) == (Order(LAST), Order(0))


@pytest.mark.parametrize(
    ("numbering", "starts"),
    [(NEW, True), (CONFIRMING, False), (RUNNING, True), (stopped(RUNNING, "m1"), False)],
)
def test_what_may_start(numbering: Numbering, starts: bool) -> None:
    """EB-123, EB-124."""
    assert numbering.may_start is starts
    assert replace(RUNNING, broken=True).may_start is False


READY, WAITING, HELD, ACKNOWLEDGED, FAILED, CANCELLED = FlightState
EVENTS = {
    (READY, HELD): MessageStopped("m7"),
    (READY, FAILED): MessageStopped("m7"),
    (WAITING, HELD): MessageStopped("m7"),
    (WAITING, FAILED): MessageStopped("m7"),
    (HELD, FAILED): MessageStopped("m7"),
    (HELD, READY): MessageResumed("m7"),
    (FAILED, READY): MessageResumed("m7"),
    **{(state, ACKNOWLEDGED): MessageTaken("m7") for state in (READY, WAITING, HELD, FAILED)},
}
"""What each change of a flight's state means for its conversation."""
CHANGES = sorted(
    {
        (before, after)
        for before, row in flight.TRANSITIONS.items()
        for cell in row.values()
        for after in (cell.targets if cell else ())
        if after is not CANCELLED
    }
)


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_event_of_a_flight(before: FlightState, after: FlightState) -> None:
    happened = event_of(replace(NUMBERED, state=before), replace(NUMBERED, state=after))
    assert happened == EVENTS.get((before, after))


@pytest.mark.parametrize(
    ("verdict", "event"),
    [
        (Verdict.RECEIVED, MessageTaken("m7")),
        (Verdict.UNKNOWN, MessageLost("m7")),
        (Verdict.NOT_RECEIVED, MessageLost("m7")),
    ],
)
def test_event_of_a_flight_that_is_cancelled(verdict: Verdict, event: NumberingEvent) -> None:
    """EB-124."""
    after = flight_in("cancelled", NUMBERED)
    assert event_of(flight_in("waiting", NUMBERED), after, verdict) == event


@pytest.mark.parametrize("column", COLUMNS)
def test_flight_without_number_is_no_matter_of_a_conversation(column: str) -> None:
    before: Flight = flight_in("ready")
    assert event_of(before, flight_in(column)) is None


@pytest.mark.parametrize(
    ("number", "of", "ahead", "behind"),
    [
        (5, 5, 0, False),
        (6, 5, 1, False),
        (4, 5, -1, True),
        (0, LAST, 1, False),
        (LAST, 0, -1, True),
        (50_000_000, 0, 50_000_000, False),
        (50_000_001, 0, -49_999_999, True),
        (0, 50_000_000, 50_000_000, False),
        (1, 50_000_000, -49_999_999, True),
    ],
)
def test_higher_and_lower_by_the_shorter_way(
    number: int, of: int, ahead: int, behind: bool
) -> None:
    """EB-121, EB-128: less than 50,000,000 behind is lower."""
    assert (distance(number, of), is_behind(number, of)) == (ahead, behind)
