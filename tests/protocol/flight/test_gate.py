"""The gate of a partner: its table cell by cell, the breaker, probes, and the window."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, get_args

import pytest

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import ProbeClaimed
from msh.protocol.flight.gate import (
    BREAKER,
    TRANSITIONS,
    Gate,
    GateEvent,
    GateState,
    Leave,
    MessageUnreached,
    may_leave,
    step,
)
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR

from .table.flights import COLUMNS, NOW, after, changed, flight_in

UNREACHABLE = IncidentKind.PARTNER_UNREACHABLE
OPEN = Gate(60, 30, failures=3)
BROKEN = Gate(60, 30, GateState.SUSPENDED, BREAKER, after(-5), UNREACHABLE)
STOPPED = Gate(60, 30, GateState.SUSPENDED, 3, None, OPERATOR)
GATES = {"open": OPEN, "broken": BROKEN, "stopped": STOPPED}
IN_A_ROW = "8 attempts in a row were not answered, the last: 503"


@dataclass(frozen=True)
class Expected:
    changes: dict[str, Any] = field(default_factory=dict)
    effects: tuple[do.GateEffect, ...] = ()


def becomes(*effects: do.GateEffect, **changes: Any) -> Expected:
    return Expected(changes, effects)


OPENS = becomes(
    do.ResolveIncidents(),
    do.PollLane(),
    state=GateState.OPEN,
    failures=0,
    due=None,
    suspended_for="",
)


def breaks(detail: str, failures: int, due: datetime | None) -> Expected:
    return becomes(
        do.OpenIncident(UNREACHABLE, "m7", detail),
        state=GateState.SUSPENDED,
        failures=failures,
        due=due,
        suspended_for=UNREACHABLE,
    )


FORGETS = becomes(failures=0)
STOPS = becomes(state=GateState.SUSPENDED, due=None, suspended_for=OPERATOR)
FAILED = on.AttemptFailed("m7", 2, "503", unreachable=True)
ANSWERED: list[GateEvent] = [
    on.AttemptTransmitted("m7", 2),
    on.AttemptRefused("m7", 2, "400"),
    on.AttemptFailed("m7", 2, "500"),
]

Cells = dict[str, Expected | None]
"""None: the event may not happen there."""

ON_AN_ANSWER: Cells = {"open": FORGETS, "broken": OPENS, "stopped": FORGETS}
ROWS: list[tuple[GateEvent, Cells]] = [
    *((event, ON_AN_ANSWER) for event in ANSWERED),
    (
        FAILED,
        {
            "open": becomes(failures=4),
            "broken": becomes(failures=9, due=after(60)),
            "stopped": becomes(failures=4),
        },
    ),
    (
        MessageUnreached("m7", "silent"),
        {"open": breaks("silent", 3, after(60)), "broken": becomes(), "stopped": becomes()},
    ),
    (
        ProbeClaimed(http_deadline=30),
        {"open": None, "broken": becomes(due=after(30 + 60)), "stopped": None},
    ),
    (on.OperatorSuspended(), {"open": STOPS, "broken": STOPS, "stopped": None}),
    (on.OperatorResumed(), {"open": None, "broken": OPENS, "stopped": OPENS}),
]


@pytest.mark.parametrize("column", GATES)
@pytest.mark.parametrize(("event", "cells"), ROWS)
def test_cell(event: GateEvent, cells: Cells, column: str) -> None:
    before, expected = GATES[column], cells[column]
    if expected is None:
        with pytest.raises(IllegalTransition):
            step(before, event, now=NOW)
        return
    assert step(before, event, now=NOW) == (replace(before, **expected.changes), expected.effects)


def test_the_table_is_complete_and_every_event_has_a_row() -> None:
    events = set(get_args(GateEvent))
    assert {state: set(row) for state, row in TRANSITIONS.items()} == dict.fromkeys(
        GateState, events
    )
    assert {type(event) for event, _ in ROWS} == events


@pytest.mark.parametrize(("probe_interval", "due"), [(60, after(60)), (0, None)])
def test_eight_failures_in_a_row_suspend_the_partner(
    probe_interval: int, due: datetime | None
) -> None:
    """EB-091. Interval 0: only an operator resumes."""
    gate = Gate(probe_interval, 30)
    for _ in range(BREAKER - 1):
        gate, effects = step(gate, FAILED, now=NOW)
        assert (gate.state, effects) == (GateState.OPEN, ())
    before = gate
    gate, effects = step(gate, FAILED, now=NOW)
    expected = breaks(IN_A_ROW, 8, due)
    assert (gate, effects) == (replace(before, **expected.changes), expected.effects)
    assert step(replace(gate, due=None), FAILED, now=NOW)[0].due is None


def test_an_answer_in_between_starts_the_row_again() -> None:
    """EB-091."""
    gate = Gate(60, 30)
    for _ in range(5):
        for _ in range(BREAKER - 1):
            gate, _ = step(gate, FAILED, now=NOW)
        gate, _ = step(gate, ANSWERED[0], now=NOW)
    assert gate == Gate(60, 30)


def test_a_probe_leaves_when_it_is_due_and_only_one() -> None:
    with pytest.raises(IllegalTransition):
        step(replace(BROKEN, due=after(1)), ProbeClaimed(30), now=NOW)
    claimed, _ = step(BROKEN, ProbeClaimed(30), now=NOW)
    assert [claimed.is_due(after(second)) for second in (0, 89, 90)] == [False, False, True]
    with pytest.raises(IllegalTransition):
        step(claimed, ProbeClaimed(30), now=after(89))


@pytest.mark.parametrize(("away", "due"), [(180, False), (181, True)])
def test_a_probe_that_is_due_too_far_away_is_due(away: float, due: bool) -> None:
    """D13: the clock was set back."""
    assert replace(BROKEN, due=after(away)).is_due(NOW) is due


@pytest.mark.parametrize(
    ("gate", "leave"),
    [
        (OPEN, Leave.COPY),
        (BROKEN, Leave.PROBE),
        (replace(BROKEN, due=after(1)), None),
        (STOPPED, None),
    ],
)
def test_the_gate_says_as_what_a_copy_leaves(gate: Gate, leave: Leave | None) -> None:
    flight = flight_in("ready")
    assert may_leave(gate, flight, under_way=1, window=1, now=NOW) is leave
    left = may_leave(gate, flight, under_way=1, window=1, in_maintenance=True, now=NOW)
    assert left is (leave if gate is OPEN else None)


@pytest.mark.parametrize(
    ("has_place", "under_way", "leave"),
    [(True, 2, Leave.COPY), (False, 2, None), (False, 1, Leave.COPY)],
)
@pytest.mark.parametrize("gate", [OPEN, BROKEN])
def test_a_message_starts_only_while_the_window_has_a_place(
    gate: Gate, has_place: bool, under_way: int, leave: Leave | None
) -> None:
    """EB-085: a retry has the place of its message."""
    flight = replace(flight_in("ready"), under_way=has_place)
    left = may_leave(gate, flight, under_way=under_way, window=2, now=NOW)
    assert left is (Leave.PROBE if leave and gate is BROKEN else leave)


@pytest.mark.parametrize("column", [name for name in COLUMNS if name != "ready"])
def test_only_what_is_ready_leaves(column: str) -> None:
    assert may_leave(OPEN, flight_in(column), under_way=0, window=2, now=NOW) is None


@pytest.mark.parametrize("end", ["expires_at", "persists_until"])
def test_nothing_leaves_at_the_end_of_its_life(end: str) -> None:
    """EB-083, EB-084."""
    flight = flight_in("ready", changed(**{end: NOW}))
    assert may_leave(OPEN, flight, under_way=0, window=2, now=NOW) is None
