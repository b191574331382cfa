"""The gate of a partner: the breaker, probes, and the window."""

from dataclasses import replace
from datetime import datetime

import pytest

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import ProbeClaimed
from msh.protocol.flight.gate import (
    BREAKER,
    REFUSALS,
    Gate,
    GateState,
    Leave,
    MessageRefused,
    MessageTaken,
    MessageUnreached,
    PartnerHeard,
    event_of,
    may_leave,
    seconds_between_probes,
    step,
    what_expires,
)
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR
from msh.protocol.message import ErrorReport
from msh.protocol.vocabulary import ErrorCode, Severity
from tests.protocol.tables.flight import COLUMNS, changed, flight_in
from tests.protocol.tables.form import NOW, after
from tests.protocol.tables.gate import BROKEN, FAILED, OPEN, STOPPED, TRANSMITTED, breaks

IN_A_ROW = "8 attempts in a row were not answered, the last: 503"


def test_failures_in_a_row_suspend_the_partner_only_after_a_retry_interval() -> None:
    """EB-091. Twenty messages under way fail within a second."""
    gate = Gate(60, 30, retry_interval=60)
    for second in (*range(20), 59):
        gate, effects = step(gate, FAILED, now=after(second))
        assert (gate.state, effects) == (GateState.OPEN, ())
    gate, _ = step(gate, FAILED, now=after(60))
    assert (gate.state, gate.due) == (GateState.SUSPENDED, after(120))


def test_a_clock_that_is_set_back_delays_the_breaker_by_a_retry_interval() -> None:
    """D13."""
    gate = Gate(60, 30, failures=20, failing_since=after(86_400), retry_interval=60)
    gate, _ = step(gate, FAILED, now=NOW)
    assert gate.state is GateState.OPEN
    gate, _ = step(gate, FAILED, now=after(60))
    assert gate.state is GateState.SUSPENDED


@pytest.mark.parametrize(
    ("probe_interval", "retry_interval", "never", "seconds"),
    [(0, 5, False, 60), (0, 600, False, 600), (7, 600, False, 7), (7, 600, True, 0)],
)
def test_how_often_a_silent_partner_is_probed(
    probe_interval: int, retry_interval: int, never: bool, seconds: int
) -> None:
    assert seconds_between_probes(probe_interval, retry_interval, never=never) == seconds


def refuse(gate: Gate, *refusals: tuple[str, str]) -> Gate:
    for message_id, code in refusals:
        gate, _ = step(gate, MessageRefused(message_id, code, "why"), now=NOW)
    return gate


def test_different_messages_that_are_refused_in_a_row_suspend_the_partner() -> None:
    """EB-089."""
    row = [(f"m{number}", "400") for number in range(REFUSALS)]
    suspended, effects = step(refuse(OPEN, *row[:-1]), MessageRefused("m4", "400", "why"), now=NOW)
    kind = IncidentKind.PARTNER_REFUSES
    assert (suspended.state, suspended.suspended_for) == (GateState.SUSPENDED, kind)
    detail = "5 messages in a row were refused with 400, the last: why"
    assert effects == (do.OpenIncident(kind, "m4", detail),)
    assert step(suspended, TRANSMITTED, now=NOW)[0].state is GateState.SUSPENDED
    assert step(suspended, PartnerHeard(), now=NOW)[0].due is None

    assert refuse(OPEN, *[("m1", "400")] * 9).state is GateState.OPEN  # an operator insists
    mixed = [(f"m{number}", ("400", "413")[number % 2]) for number in range(9)]
    assert refuse(OPEN, *mixed).state is GateState.OPEN
    taken, _ = step(refuse(OPEN, *row[:-1]), MessageTaken(), now=NOW)
    assert refuse(taken, *row[:-1]).state is GateState.OPEN
    silent, effects = step(refuse(BROKEN, *row[:-1]), MessageRefused("m4", "400", "why"), now=NOW)
    assert (silent.suspended_for, silent.due) == (kind, None)
    assert effects[0] == do.ResolveIncidents()
    assert refuse(STOPPED, *row).suspended_for == OPERATOR


def test_what_the_partner_sends_makes_a_probe_due_once_a_minute() -> None:
    """EB-091."""
    broken = replace(BROKEN, due=after(3600))
    heard, effects = step(broken, PartnerHeard(), now=NOW)
    assert (heard.due, effects) == (NOW, (do.PollLane(),))
    claimed, _ = step(heard, ProbeClaimed(30), now=NOW)
    again, effects = step(claimed, PartnerHeard(), now=after(59))
    assert (again, effects) == (claimed, ())
    assert step(claimed, PartnerHeard(), now=after(60))[0].due == after(60)


def test_what_expires_says_how_many_and_when() -> None:
    until = "if it stays silent, the first at 2026-03-01 12:01:00 UTC"
    one = what_expires(1, 3, after(60), after(60))
    assert one == f"1 of 3 messages under way expires {until}"
    two = what_expires(2, 3, after(60), after(120))
    assert two == (f"2 of 3 messages under way expire {until}, the last at 2026-03-01 12:02:00 UTC")
    gate = replace(OPEN, expiring=two)
    _, (incident,) = step(gate, MessageUnreached("m7", "silent"), now=NOW)
    assert isinstance(incident, do.OpenIncident)
    assert incident.detail == f"silent. {two}"


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
        gate, _ = step(gate, TRANSMITTED, now=NOW)
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


REFUSED = on.AttemptRefused("m7", 2, detail="400: who are you?", code="400")
UNNAMED = on.AttemptRefused("m7", 2, detail="it cannot be composed")
NOT_SUPPORTED = on.ErrorReceived(
    "m7", ErrorReport(ErrorCode.NOT_SUPPORTED, Severity.HARD_ERROR, description="of whom?")
)


@pytest.mark.requirement("EB-091")
@pytest.mark.parametrize(
    ("column", "event", "said"),
    [
        ("acknowledged", REFUSED, MessageTaken()),
        ("failed", REFUSED, MessageRefused("m7", "400", "400: who are you?")),
        ("failed", UNNAMED, None),
        ("failed", NOT_SUPPORTED, MessageRefused("m7", "NotSupported", "NotSupported: of whom?")),
        ("ready", REFUSED, None),
        ("waiting", REFUSED, None),
    ],
)
def test_what_an_event_of_a_flight_is_to_the_gate(
    column: str, event: on.AttemptRefused | on.ErrorReceived, said: object
) -> None:
    assert event_of(flight_in("waiting"), flight_in(column), event) == said
