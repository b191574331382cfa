"""The flight's table, cell by cell, and what holds for the table as a whole."""

from dataclasses import replace
from typing import get_args

import pytest

from msh.protocol import events as on
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import TRANSITIONS, FlightEvent, FlightState, step
from msh.protocol.flight.answers import after_error_of_best_effort, events_of
from msh.protocol.message import ErrorReport
from msh.protocol.vocabulary import ErrorCode, Severity

from .table import ROWS
from .table.answers import FOREIGN, HARD, WARNING
from .table.flights import COLUMNS, NOW, Row, flight_in

EVENTS = set(get_args(FlightEvent))
ENDS = [on.AttemptTransmitted, on.AttemptFailed, on.AttemptRefused]
GONE = (FlightState.ACKNOWLEDGED, FlightState.FAILED, FlightState.CANCELLED)
Arrow = tuple[FlightState, type, FlightState]

CELLS = [pytest.param(row, column, id=f"{row.name}-{column}") for row in ROWS for column in COLUMNS]


@pytest.mark.parametrize(("row", "column"), CELLS)
def test_cell(row: Row, column: str) -> None:
    before, expected = row.before(column), row.cells[column]
    if not expected.legal:
        with pytest.raises(IllegalTransition) as refusal:
            step(before, row.event, now=NOW)
        assert refusal.value.event == type(row.event).__name__
        return

    after, effects = step(before, row.event, now=NOW)

    assert after == replace(before, **expected.changes)
    assert effects == expected.effects


def test_every_row_has_every_cell_and_every_event_a_row() -> None:
    assert {type(row.event) for row in ROWS} == EVENTS
    assert [set(row.cells) for row in ROWS] == [set(COLUMNS)] * len(ROWS)


def test_the_table_has_a_cell_for_every_state_and_event() -> None:
    assert {state: set(row) for state, row in TRANSITIONS.items()} == dict.fromkeys(
        FlightState, EVENTS
    )


def test_every_arrow_that_the_table_states_is_walked_by_a_row() -> None:
    """The diagram is drawn from the cells' targets: one that is never reached would be a lie."""
    walked = {
        (before.state, type(row.event), step(before, row.event, now=NOW)[0].state)
        for row in ROWS
        for column, before in ((column, row.before(column)) for column in COLUMNS)
        if row.cells[column].legal
    }
    stated = {
        (state, event, target)
        for state, events in TRANSITIONS.items()
        for event, cell in events.items()
        for target in (cell.targets if cell else ())
    }
    assert _leaving(walked) == _leaving(stated)


def _leaving(arrows: set[Arrow]) -> set[Arrow]:
    return {(state, event, target) for state, event, target in arrows if target is not state}


def test_what_is_acknowledged_is_never_left() -> None:
    """EB-087: and a failed message becomes acknowledged, or is sent again by an operator."""
    targets = {
        state: {target for cell in TRANSITIONS[state].values() if cell for target in cell.targets}
        for state in GONE
    }
    assert targets[FlightState.ACKNOWLEDGED] == {FlightState.ACKNOWLEDGED}
    assert targets[FlightState.CANCELLED] == {FlightState.CANCELLED}


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(("message_id", "attempt"), [("m7", 1), ("m7", 3), ("m6", 2)])
@pytest.mark.parametrize("event", ENDS)
def test_an_attempt_that_is_not_the_latest_does_nothing(
    event: type[on.AttemptEvent], message_id: str, attempt: int, column: str
) -> None:
    flight = flight_in(column)
    assert step(flight, event(message_id, attempt), now=NOW) == (flight, ())  # type: ignore[arg-type]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("event", [on.AckReceived("m6"), on.ErrorReceived("m6", HARD)])
def test_an_answer_to_another_message_never_touches_this_one(
    event: FlightEvent, column: str
) -> None:
    """EB-070, EB-086."""
    with pytest.raises(IllegalTransition):
        step(flight_in(column), event, now=NOW)


def test_the_reason_is_given_for_what_is_refused_at_the_end_of_a_life() -> None:
    """EB-084."""
    flight = replace(flight_in("held"), persists_until=NOW)
    with pytest.raises(IllegalTransition) as refusal:
        step(flight, on.SendNowRequested(), now=NOW)
    assert str(refusal.value) == "SendNowRequested may not happen while past its PersistDuration"


@pytest.mark.parametrize(
    ("reports", "acknowledged", "events"),
    [
        ([], True, ("ack",)),
        ([], False, ()),
        ([WARNING], True, (WARNING, "ack")),
        ([WARNING], False, (WARNING,)),
        ([HARD], True, (HARD,)),
        ([HARD, WARNING, FOREIGN], True, (WARNING, HARD, FOREIGN)),
        ([FOREIGN, HARD], False, (FOREIGN, HARD)),
    ],
)
def test_an_error_beside_an_acknowledgment_wins(
    reports: list[ErrorReport], acknowledged: bool, events: tuple[ErrorReport | str, ...]
) -> None:
    """EB-059, EB-060."""
    expected = tuple(
        on.AckReceived("m7") if isinstance(one, str) else on.ErrorReceived("m7", one)
        for one in events
    )
    assert events_of("m7", reports, acknowledged=acknowledged) == expected


FAILED = on.AttemptFailed("m7", 2, detail="Cannot connect", unreachable=True, nothing_sent=True)


def test_the_life_of_a_message_begins_with_the_first_byte_that_may_have_left() -> None:
    """The second attempt has sent nothing, nor had the first."""
    flight = flight_in("waiting")
    once, _ = step(replace(flight, unsent=flight.attempt - 1), FAILED, now=NOW)
    assert (once.expires_at, once.persists_until) == (None, None)
    again, _ = step(flight, FAILED, now=NOW)
    assert (again.expires_at, again.unsent) == (flight.expires_at, flight.unsent + 1)


@pytest.mark.requirement("EB-090")
def test_a_wait_that_the_partner_asks_for_spends_no_retry() -> None:
    asked = on.AttemptFailed("m7", 2, detail="429", retry_after=50, asked_to_wait=True)
    flight = flight_in("waiting")
    after, _ = step(flight, asked, now=NOW)
    assert (after.copies, after.reached) == (flight.copies - 1, True)


@pytest.mark.parametrize("severity", Severity)
@pytest.mark.parametrize("is_open", [True, False])
def test_an_error_about_a_best_effort_message(severity: Severity, *, is_open: bool) -> None:
    report = ErrorReport(ErrorCode.UNKNOWN, severity, description="no such service")
    kinds = [
        type(one).__name__ for one in after_error_of_best_effort("m7", report, is_open=is_open)
    ]
    if severity is Severity.WARNING:
        assert kinds == ["Note", "NotifyFromParty"]
    elif is_open:
        assert kinds == ["Fail", "OpenIncident", "NotifyFromParty"]
    else:
        assert kinds == ["Note"]
