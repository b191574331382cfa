"""The document history, cell by cell (tables.md 3): every state against every event."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from msh.protocol.delivery import TRANSITIONS, event_of_answer, step
from msh.protocol.delivery_events import (
    AskResolver,
    AttemptFailed,
    AttemptRejected,
    AttemptSucceeded,
    CompletionMarked,
    Delivery,
    DeliveryEvent,
    DeliveryLooked,
    DeliveryState,
    Leave,
    OnFailure,
    OutcomeKept,
    Policy,
    RejectionMarked,
    ResolverAnswered,
    ResolverRequested,
    ResolverVerdict,
    Run,
    RunAgainRequested,
    SetAside,
)
from msh.protocol.errors import IllegalTransition

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
    "looked": DeliveryLooked(),
    "succeeded": AttemptSucceeded(1),
    "rejected": AttemptRejected(1, "no"),
    "failed": AttemptFailed(1, "down"),
    "kept": OutcomeKept(),
    "new": ResolverAnswered(1, V.NEW),
    "duplicate": ResolverAnswered(1, V.DUPLICATE),
    "unsure": ResolverAnswered(1, V.IN_DOUBT),
    "run again": RunAgainRequested(),
    "mark completed": CompletionMarked(),
    "mark rejected": RejectionMarked(),
    "ask": ResolverRequested(),
}
_OPERATOR = {"run again": S.FAILED, "mark completed": S.COMPLETED, "mark rejected": S.REJECTED}
_KNOWN = {"succeeded": S.COMPLETED, "rejected": S.REJECTED}
_LATE = ("failed", "new", "duplicate", "unsure")


def _stays(state: DeliveryState, *names: str) -> dict[str, DeliveryState]:
    return dict.fromkeys(names, state)


# For a past `due`. What is not named raises.
TABLE: dict[DeliveryState, dict[str, DeliveryState]] = {
    S.NEW: {"looked": S.PROCESSING},
    S.PROCESSING: {
        "looked": S.PROCESSING,  # the resolver is asked
        **_KNOWN,
        "failed": S.FAILED,
        "new": S.FAILED,
        "duplicate": S.COMPLETED,
        "unsure": S.IN_DOUBT,
    },
    S.FAILED: {"looked": S.PROCESSING, **_KNOWN, **_stays(S.FAILED, *_LATE), **_OPERATOR},
    S.BLOCKED: {**_stays(S.BLOCKED, "looked", *_LATE), **_KNOWN, **_OPERATOR},
    S.PARKED: {**_stays(S.PARKED, "looked", *_LATE), **_KNOWN, **_OPERATOR},
    S.IN_DOUBT: {
        **_stays(S.IN_DOUBT, "looked", *_LATE),
        **_KNOWN,
        **_OPERATOR,
        "failed": S.FAILED,
        "ask": S.PROCESSING,
    },
    S.COMPLETED: _stays(S.COMPLETED, "looked", "succeeded", "rejected", "kept", *_LATE),
    S.REJECTED: {
        **_stays(S.REJECTED, "looked", "succeeded", "rejected", "kept", *_LATE),
        "run again": S.FAILED,
    },
}


@pytest.mark.requirement("003-05", "002-06", "002-07", "002-08", "002-09", "002-10")
@pytest.mark.parametrize("state", list(DeliveryState))
@pytest.mark.parametrize("name", list(EVENTS))
def test_every_cell(state: DeliveryState, name: str) -> None:
    attempt = 1 if state is not S.NEW else 0
    event = EVENTS[name]
    if hasattr(event, "attempt"):
        event = replace(event, attempt=attempt)  # type: ignore[arg-type]
    before = Delivery(state, attempt, due=PAST)
    expected = TABLE[state].get(name)
    if expected is None:
        with pytest.raises(IllegalTransition):
            step(before, event, POLICY, now=NOW)
    else:
        after, _ = step(before, event, POLICY, now=NOW)
        assert after.state is expected


def test_every_event_is_in_the_table() -> None:
    known = {type(event) for event in EVENTS.values()}
    assert known == {event for cells in TRANSITIONS.values() for event in cells}


def test_new_is_run_under_a_lease() -> None:
    after, effects = step(Delivery(), DeliveryLooked(), POLICY, now=NOW)
    assert after == Delivery(S.PROCESSING, 1, 0, NOW + timedelta(seconds=30))
    assert effects == (Run(1),)


@pytest.mark.parametrize("state", [S.PROCESSING, S.FAILED])
def test_what_is_not_due_is_left_alone(state: DeliveryState) -> None:
    before = Delivery(state, 1, due=FUTURE)
    assert step(before, DeliveryLooked(), POLICY, now=NOW) == (before, ())


def test_a_lease_that_is_over_asks_the_resolver_once_a_lease() -> None:
    before = Delivery(S.PROCESSING, 1, due=PAST)
    after, effects = step(before, DeliveryLooked(), POLICY, now=NOW)
    assert effects == (AskResolver(1),)
    assert step(after, DeliveryLooked(), POLICY, now=NOW) == (after, ())


def test_a_lost_attempt_without_effects_outside_is_run_again_at_once() -> None:
    policy = replace(POLICY, doubtful=False)
    after, _ = step(Delivery(S.PROCESSING, 1, due=PAST), DeliveryLooked(), policy, now=NOW)
    assert after == Delivery(S.FAILED, 1, 1, NOW)


def test_a_message_that_kills_every_worker_is_parked_in_the_end() -> None:
    policy = replace(POLICY, doubtful=False, on_failure=OnFailure.PARK)
    value, runs = Delivery(), 0
    for tick in range(20):
        at = NOW + timedelta(hours=tick)
        value, effects = step(value, DeliveryLooked(), policy, now=at)
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
    after, effects = step(before, AttemptFailed(3, "down"), policy, now=NOW)
    assert (after.state, after.due) == (state, None)
    assert (SetAside() in effects) == (state is S.PARKED)


def test_an_earlier_attempt_changes_nothing() -> None:
    before = Delivery(S.PROCESSING, 2, due=FUTURE)
    for event in (AttemptSucceeded(1), AttemptFailed(1, "x"), ResolverAnswered(1, V.DUPLICATE)):
        assert step(before, event, POLICY, now=NOW)[0] == before


def test_a_kept_outcome_lets_the_message_go_and_is_found_as_a_duplicate_before() -> None:
    done, _ = step(Delivery(S.PROCESSING, 1, due=FUTURE), AttemptSucceeded(1), POLICY, now=NOW)
    assert done.due == NOW, "so that it is found if we die now"
    for event in (OutcomeKept(), DeliveryLooked()):
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
    elif status in {408, 425, 429} or status is None or not 400 <= status < 500:
        assert isinstance(event, AttemptFailed)
    else:
        assert event == AttemptRejected(1, "words")
