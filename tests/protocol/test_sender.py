"""The Sender's table, cell by cell, and what holds for the table as a whole."""

from dataclasses import replace
from typing import get_args

import pytest

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.agreement import Terms
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR, InFlight, Lane, LaneState
from msh.protocol.reason import Reason
from msh.protocol.sender import TRANSITIONS, step
from msh.protocol.sender.answers import wait_asked_for

from .sender_table import ROWS
from .sender_table.answers import GAP, HARD
from .sender_table.lanes import COLUMNS, NOW, Row, lane_in

EVENTS = set(get_args(on.SenderEvent))
Arrow = tuple[LaneState, type, LaneState]


CELLS = [
    pytest.param(
        row,
        column,
        id=f"{row.name}-{column}",
        marks=[pytest.mark.requirement(*row.proves)] if row.proves else [],
    )
    for row in ROWS
    for column in COLUMNS
]


@pytest.mark.parametrize(("row", "column"), CELLS)
def test_cell(row: Row, column: str) -> None:
    before, expected = row.lane(column), row.cells[column]
    if not expected.legal:
        with pytest.raises(IllegalTransition) as refusal:
            step(before, row.event, now=NOW)
        refused = (refusal.value.state, refusal.value.event)
        assert refused == (before.state, type(row.event).__name__)
        return

    after, effects = step(before, row.event, now=NOW)

    assert after == replace(before, **expected.changes)
    assert effects == expected.effects


def test_every_row_has_every_cell_and_every_event_a_row() -> None:
    assert {type(row.event) for row in ROWS} == EVENTS
    assert [set(row.cells) for row in ROWS] == [set(COLUMNS)] * len(ROWS)


def test_the_table_has_a_cell_for_every_state_and_event() -> None:
    assert {state: set(row) for state, row in TRANSITIONS.items()} == dict.fromkeys(
        LaneState, EVENTS
    )


def test_every_arrow_that_the_table_states_is_walked_by_a_row() -> None:
    """The diagram is drawn from the cells' targets: one that is never reached would be a lie."""
    walked = {
        (before.state, type(row.event), step(before, row.event, now=NOW)[0].state)
        for row in ROWS
        for column, before in ((column, row.lane(column)) for column in COLUMNS)
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


_OF_AN_ATTEMPT = [on.AttemptBegun, on.AttemptTransmitted, on.AttemptFailed, on.AttemptRefused]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize(("message_id", "attempt"), [("m7", 1), ("m7", 3), ("m6", 2)])
@pytest.mark.parametrize("event", _OF_AN_ATTEMPT)
def test_an_attempt_that_is_not_the_latest_does_nothing(
    event: type[on.AttemptEvent], message_id: str, attempt: int, column: str
) -> None:
    lane = lane_in(column)
    assert step(lane, event(message_id, attempt), now=NOW) == (lane, ())  # type: ignore[arg-type]


@pytest.mark.requirement("000-014", "000-097")
@pytest.mark.parametrize("column", ["waiting", "unsent", "promised", "transient", "suspended"])
@pytest.mark.parametrize(
    "event",
    [
        on.AckReceived("m6"),
        on.TransientErrorReceived("m6", 30),
        on.SequenceErrorReceived("m6", GAP),
        on.ErrorReceived("m6", HARD),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_answer_to_another_message_never_touches_the_one_in_flight(
    event: on.SenderEvent, column: str
) -> None:
    with pytest.raises(IllegalTransition):
        step(lane_in(column), event, now=NOW)


@pytest.mark.requirement("000-029")
@pytest.mark.parametrize(
    ("kind", "then"),
    [
        (
            IncidentKind.REFUSED_BY_PEER,
            [do.ExplainSuspension("m7", "SequenceGap: 5 missing", Reason.NUMBERS)],
        ),
        (
            OPERATOR,
            [
                do.OpenIncident(
                    IncidentKind.RESYNCHRONISE, "m7", "SequenceGap: 5 missing", Reason.NUMBERS
                )
            ],
        ),
        (IncidentKind.RESYNCHRONISE, []),
        (IncidentKind.ERROR_RECEIVED, []),
    ],
)
def test_an_error_about_numbers_while_suspended_says_why_if_nobody_else_has(
    kind: str, then: list[do.SenderEffect]
) -> None:
    lane = replace(lane_in("suspended"), suspended_for=kind)
    noted = do.Note("m7", "Error SequenceGap: 5 missing")
    assert step(lane, on.SequenceErrorReceived("m7", GAP), now=NOW) == (lane, (noted, *then))


def test_only_the_latest_copy_may_ask_for_a_wait() -> None:
    """D54."""
    terms = Terms(60, 3, 120)
    lane = Lane(LaneState.WAITING, 8, in_flight=InFlight("m7", 7, terms, attempt=2))
    asked = on.AttemptFailed("m7", 2, "503", retry_after=5.0, asked_to_wait=True)
    assert wait_asked_for(lane, asked) == on.TransientErrorReceived("m7", 120, "503")
    longer = replace(asked, retry_after=300.4)
    assert wait_asked_for(lane, longer) == on.TransientErrorReceived("m7", 301, "503")
    for event in (
        replace(asked, attempt=1),
        replace(asked, message_id="m6"),
        replace(asked, asked_to_wait=False),
    ):
        assert wait_asked_for(lane, event) is event
    assert wait_asked_for(replace(lane, unsent=True), asked) is asked
    assert wait_asked_for(replace(lane, in_flight=None), asked) is asked
