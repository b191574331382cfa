"""The document history, cell by cell (docs/spec/tables.md): every state, every event."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from msh.protocol.delivery import TRANSITIONS, event_of_answer, step
from msh.protocol.delivery.events import (
    AskResolver,
    AttemptFailed,
    AttemptRejected,
    AttemptSucceeded,
    CompletionMarked,
    Delivery,
    DeliveryEffect,
    DeliveryEvent,
    DeliveryPolled,
    Leave,
    OutcomeKept,
    OutcomeLost,
    ParkRequested,
    Policy,
    RejectionMarked,
    ResolverAnswered,
    ResolverRequested,
    ResolverVerdict,
    Run,
    RunAgainRequested,
    SetAside,
)
from msh.protocol.effects import Note, OpenIncident
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import DUPLICATE, DeliveryState, IncidentKind, OnFailure

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
PAST, FUTURE = NOW - timedelta(seconds=1), NOW + timedelta(seconds=1)
POLICY = Policy(
    doubtful=True,
    lease=30,
    attempts=3,
    retry_interval=60,
    on_failure=OnFailure.BLOCK,
    has_resolver=True,
)
S, V = DeliveryState, ResolverVerdict
EVENTS: dict[str, DeliveryEvent] = {
    "polled": DeliveryPolled(),
    "succeeded": AttemptSucceeded(1),
    "rejected": AttemptRejected(1, "no"),
    "failed": AttemptFailed(1, "down"),
    "lost": OutcomeLost(1, "DataError: too long"),
    "kept": OutcomeKept(),
    "new": ResolverAnswered(1, V.NEW),
    "duplicate": ResolverAnswered(1, V.DUPLICATE),
    "unsure": ResolverAnswered(1, V.IN_DOUBT),
    "run again": RunAgainRequested(),
    "mark completed": CompletionMarked(),
    "mark rejected": RejectionMarked(),
    "ask": ResolverRequested(),
    "park": ParkRequested(),
}
LEASED, LATER = NOW + timedelta(seconds=30), NOW + timedelta(seconds=60)


@dataclass(frozen=True)
class Cell:
    """What an event changes of a delivery whose `due` is past, and what follows."""

    changes: dict[str, Any]
    effects: tuple[DeliveryEffect, ...] = ()


def _becomes(state: DeliveryState, *effects: DeliveryEffect, **changes: Any) -> Cell:
    return Cell({"state": state, **changes}, effects)


def _incident(kind: IncidentKind, detail: str) -> OpenIncident:
    return OpenIncident(kind, detail=detail)


_REJECTED = _incident(IncidentKind.DELIVERY_REJECTED, "no")
_DOUBT = _incident(IncidentKind.DELIVERY_IN_DOUBT, "the resolver does not know")
_LOST = _incident(IncidentKind.DELIVERY_IN_DOUBT, "DataError: too long")
_COMPLETED = _becomes(S.COMPLETED, due=NOW)
_KNOWN = {"succeeded": _COMPLETED, "rejected": _becomes(S.REJECTED, _REJECTED, due=NOW)}
_OPERATOR = {
    "run again": _becomes(S.FAILED, due=NOW, failures=0),
    "mark completed": _becomes(S.COMPLETED, Leave(), due=None),
    "mark rejected": _becomes(S.REJECTED, Leave(rejected=True), due=None),
}
_CLASS_OF_LATE = {
    "succeeded": "AttemptSucceeded",
    "rejected": "AttemptRejected",
    "failed": "AttemptFailed",
    "lost": "OutcomeLost",
    "new": "ResolverAnswered",
    "duplicate": "ResolverAnswered",
    "unsure": "ResolverAnswered",
}


def _late(state: DeliveryState, *names: str) -> dict[str, Cell]:
    return {
        name: Cell({}, (Note("", f"{_CLASS_OF_LATE[name]} came late: already {state}"),))
        for name in names
    }


def _waits(state: DeliveryState) -> dict[str, Cell]:
    late = _late(state, "failed", "lost", "new", "duplicate", "unsure")
    return {"polled": Cell({}), **_KNOWN, **late, **_OPERATOR}


def _ended(state: DeliveryState) -> dict[str, Cell]:
    leave = Leave(rejected=state is S.REJECTED)
    duplicate = Note("", f"{state} by attempt 1, not run", DUPLICATE)
    return {
        "polled": Cell({"due": None}, (leave, duplicate)),
        "kept": Cell({"due": None}, (leave,)),
        **_late(state, *_CLASS_OF_LATE),
    }


_RUN = _becomes(S.PROCESSING, Run(2), attempt=2, due=LEASED)
_PARKED = _becomes(S.PARKED, SetAside(), due=None, aside=True)

# What is not named raises.
TABLE: dict[DeliveryState, dict[str, Cell]] = {
    S.NEW: {"polled": _becomes(S.PROCESSING, Run(1), attempt=1, due=LEASED)},
    S.PROCESSING: {
        "polled": Cell({"due": LEASED}, (AskResolver(1),)),
        **_KNOWN,
        "failed": _becomes(S.FAILED, due=LATER, failures=2),
        "lost": _becomes(S.IN_DOUBT, _LOST, due=None),
        "new": _becomes(S.FAILED, due=NOW),
        "duplicate": _COMPLETED,
        "unsure": _becomes(S.IN_DOUBT, _DOUBT, due=None),
    },
    S.FAILED: {**_waits(S.FAILED), "polled": _RUN, "park": _PARKED},
    S.BLOCKED: {**_waits(S.BLOCKED), "park": _PARKED},
    S.PARKED: _waits(S.PARKED),
    S.IN_DOUBT: {
        **_waits(S.IN_DOUBT),
        "failed": _becomes(S.FAILED, due=LATER, failures=2),
        "ask": _becomes(S.PROCESSING, due=NOW, failures=0),
        "park": Cell({"aside": True}, (SetAside(), Note("", "set aside, still in doubt"))),
    },
    S.COMPLETED: _ended(S.COMPLETED),
    S.REJECTED: {
        **_ended(S.REJECTED),
        "run again": _becomes(S.FAILED, SetAside(), due=NOW, failures=0, aside=True),
    },
}


@pytest.mark.requirement("003-05", "002-06", "002-07", "002-08", "002-09", "002-10")
@pytest.mark.parametrize("state", list(DeliveryState))
@pytest.mark.parametrize("name", list(EVENTS))
def test_every_cell(state: DeliveryState, name: str) -> None:
    before = Delivery() if state is S.NEW else Delivery(state, 1, 1, due=PAST)
    event = EVENTS[name]
    if state is S.NEW and hasattr(event, "attempt"):
        event = replace(event, attempt=0)  # type: ignore[arg-type]
    cell = TABLE[state].get(name)
    if cell is None:
        with pytest.raises(IllegalTransition):
            step(before, event, POLICY, now=NOW)
    else:
        after = replace(before, **cell.changes)
        assert step(before, event, POLICY, now=NOW) == (after, cell.effects)


def test_every_event_is_in_the_table() -> None:
    known = {type(event) for event in EVENTS.values()}
    assert known == {event for cells in TRANSITIONS.values() for event in cells}


@pytest.mark.parametrize("state", [S.PROCESSING, S.FAILED])
def test_delivery_that_is_not_due_is_unchanged(state: DeliveryState) -> None:
    before = Delivery(state, 1, due=FUTURE)
    assert step(before, DeliveryPolled(), POLICY, now=NOW) == (before, ())
    assert step(before, DeliveryPolled(), POLICY, now=FUTURE) != (before, ())


def test_delivery_without_a_due_time_runs_when_polled() -> None:
    _, effects = step(Delivery(S.FAILED, 1), DeliveryPolled(), POLICY, now=NOW)
    assert effects == (Run(2),)


def test_expired_lease_asks_the_resolver_once() -> None:
    before = Delivery(S.PROCESSING, 1, due=PAST)
    after, effects = step(before, DeliveryPolled(), POLICY, now=NOW)
    assert effects == (AskResolver(1),)
    assert step(after, DeliveryPolled(), POLICY, now=NOW) == (after, ())


def test_a_lost_attempt_without_effects_outside_is_run_again_at_once() -> None:
    policy = replace(POLICY, doubtful=False)
    after, _ = step(Delivery(S.PROCESSING, 1, due=PAST), DeliveryPolled(), policy, now=NOW)
    assert after == Delivery(S.FAILED, 1, 1, NOW)


def test_a_lost_outcome_without_effects_outside_is_a_failed_attempt() -> None:
    policy = replace(POLICY, doubtful=False, attempts=2)
    lost = OutcomeLost(1, "DataError: too long")
    after, effects = step(Delivery(S.PROCESSING, 1, due=FUTURE), lost, policy, now=NOW)
    assert (after, effects) == (Delivery(S.FAILED, 1, 1, LATER), ())
    after, effects = step(Delivery(S.PROCESSING, 1, 1, FUTURE), lost, policy, now=NOW)
    assert after.state is S.BLOCKED
    assert effects == (_incident(IncidentKind.DELIVERY_FAILED, "DataError: too long"),)


def test_a_message_that_kills_every_worker_is_parked_in_the_end() -> None:
    policy = replace(POLICY, doubtful=False, on_failure=OnFailure.PARK)
    value, runs = Delivery(), 0
    for tick in range(20):
        at = NOW + timedelta(hours=tick)
        value, effects = step(value, DeliveryPolled(), policy, now=at)
        runs += Run(runs + 1) in effects
    assert (value.state, runs) == (S.PARKED, 3)


@pytest.mark.parametrize(
    ("on_failure", "aside", "state"),
    [
        (OnFailure.BLOCK, False, S.BLOCKED),
        (OnFailure.PARK, False, S.PARKED),
        (OnFailure.BLOCK, True, S.PARKED),
    ],
)
def test_spent_attempts(on_failure: OnFailure, aside: bool, state: DeliveryState) -> None:
    policy = replace(POLICY, on_failure=on_failure)
    before = Delivery(S.PROCESSING, 3, 2, FUTURE, aside)
    incident = _incident(IncidentKind.DELIVERY_FAILED, "down")
    parked = state is S.PARKED

    after, effects = step(before, AttemptFailed(3, "down"), policy, now=NOW)

    assert after == Delivery(state, 3, 3, None, aside=parked)
    assert effects == ((SetAside(), incident) if parked else (incident,))


@pytest.mark.parametrize(
    ("on_failure", "was_aside", "aside"),
    [(OnFailure.BLOCK, False, False), (OnFailure.PARK, False, True), (OnFailure.BLOCK, True, True)],
)
def test_a_doubt_without_a_resolver(on_failure: OnFailure, was_aside: bool, aside: bool) -> None:
    policy = replace(POLICY, on_failure=on_failure, has_resolver=False)
    before = Delivery(S.PROCESSING, 1, due=PAST, aside=was_aside)
    incident = _incident(
        IncidentKind.DELIVERY_IN_DOUBT, "the lease of attempt 1 ended without a result"
    )

    after, effects = step(before, DeliveryPolled(), policy, now=NOW)

    assert after == Delivery(S.IN_DOUBT, 1, 0, None, aside=aside)
    assert effects == ((SetAside(), incident) if aside else (incident,))


def test_doubt_has_the_answer_of_the_resolver() -> None:
    before = Delivery(S.PROCESSING, 1, due=PAST)
    answer = ResolverAnswered(1, V.IN_DOUBT, "they are being restored")
    _, effects = step(before, answer, POLICY, now=NOW)
    assert effects == (_incident(IncidentKind.DELIVERY_IN_DOUBT, "they are being restored"),)


def test_resolver_new_runs_again_without_attempts_left() -> None:
    policy = replace(POLICY, attempts=1)
    lost = Delivery(S.PROCESSING, 1, due=PAST)
    new, _ = step(lost, ResolverAnswered(1, V.NEW), policy, now=NOW)
    _, effects = step(new, DeliveryPolled(), policy, now=NOW)
    assert effects == (Run(2),)


def test_an_earlier_attempt_changes_nothing() -> None:
    before = Delivery(S.PROCESSING, 2, due=FUTURE)
    for event in (AttemptSucceeded(1), AttemptFailed(1, "x"), ResolverAnswered(1, V.DUPLICATE)):
        note = Note("", f"{type(event).__name__} of an earlier attempt")
        assert step(before, event, POLICY, now=NOW) == (before, (note,))


@pytest.mark.parametrize("state", [S.FAILED, S.BLOCKED, S.IN_DOUBT])
def test_a_parked_message_lets_its_pair_go_on(state: DeliveryState) -> None:
    after, effects = step(Delivery(state, 1, due=FUTURE), ParkRequested(), POLICY, now=NOW)
    assert after.aside
    assert SetAside() in effects
    with pytest.raises(IllegalTransition):
        step(after, ParkRequested(), POLICY, now=NOW)


def test_recorded_outcome_is_found_as_a_duplicate() -> None:
    done, _ = step(Delivery(S.PROCESSING, 1, due=FUTURE), AttemptSucceeded(1), POLICY, now=NOW)
    assert done.due == NOW, "so that it is found if we die now"
    for event in (OutcomeKept(), DeliveryPolled()):
        after, effects = step(done, event, POLICY, now=NOW)
        assert after.due is None
        assert Leave() in effects


def test_the_resolver_cannot_be_asked_where_there_is_none() -> None:
    policy = replace(POLICY, has_resolver=False)
    with pytest.raises(IllegalTransition):
        step(Delivery(S.IN_DOUBT, 1), ResolverRequested(), policy, now=NOW)


@pytest.mark.requirement("001-04", "001-05")
@pytest.mark.parametrize("status", [None, *range(100, 600)])
def test_every_http_answer(status: int | None) -> None:
    event = event_of_answer(1, status, "words")
    if status is not None and 200 <= status < 300:
        assert event == AttemptSucceeded(1)
    elif status is not None and 300 <= status < 400:
        assert isinstance(event, AttemptFailed)
        assert "redirects are not followed" in event.reason
    elif status in {408, 425, 429} or status is None or not 400 <= status < 500:
        assert event == AttemptFailed(1, "words")
    else:
        assert event == AttemptRejected(1, "words")
