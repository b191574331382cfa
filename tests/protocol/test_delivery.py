"""The document history, beyond its cells: leases, attempts that are spent, doubts, answers."""

from dataclasses import replace
from datetime import timedelta

import pytest

from msh.protocol.delivery import event_of_answer, step
from msh.protocol.delivery.events import (
    AskResolver,
    AttemptFailed,
    AttemptRejected,
    AttemptSucceeded,
    Delivery,
    DeliveryPolled,
    Leave,
    OutcomeKept,
    OutcomeLost,
    ParkRequested,
    ResolverAnswered,
    ResolverRequested,
    ResolverVerdict,
    Run,
    SetAside,
)
from msh.protocol.effects import Note
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import IncidentKind, OnFailure

from .tables.delivery import LATER, POLICY, S, incident
from .tables.form import NOW

PAST, FUTURE = NOW - timedelta(seconds=1), NOW + timedelta(seconds=1)
V = ResolverVerdict


@pytest.mark.parametrize("state", [S.PROCESSING, S.FAILED])
def test_delivery_that_is_not_due_is_unchanged(state: S) -> None:
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
    assert effects == (incident(IncidentKind.DELIVERY_FAILED, "DataError: too long"),)


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
def test_spent_attempts(on_failure: OnFailure, aside: bool, state: S) -> None:
    policy = replace(POLICY, on_failure=on_failure)
    before = Delivery(S.PROCESSING, 3, 2, FUTURE, aside)
    opened = incident(IncidentKind.DELIVERY_FAILED, "down")
    parked = state is S.PARKED

    after, effects = step(before, AttemptFailed(3, "down"), policy, now=NOW)

    assert after == Delivery(state, 3, 3, None, aside=parked)
    assert effects == ((SetAside(), opened) if parked else (opened,))


@pytest.mark.parametrize(
    ("on_failure", "was_aside", "aside"),
    [(OnFailure.BLOCK, False, False), (OnFailure.PARK, False, True), (OnFailure.BLOCK, True, True)],
)
def test_a_doubt_without_a_resolver(on_failure: OnFailure, was_aside: bool, aside: bool) -> None:
    policy = replace(POLICY, on_failure=on_failure, has_resolver=False)
    before = Delivery(S.PROCESSING, 1, due=PAST, aside=was_aside)
    opened = incident(
        IncidentKind.DELIVERY_IN_DOUBT, "the lease of attempt 1 ended without a result"
    )

    after, effects = step(before, DeliveryPolled(), policy, now=NOW)

    assert after == Delivery(S.IN_DOUBT, 1, 0, None, aside=aside)
    assert effects == ((SetAside(), opened) if aside else (opened,))


def test_doubt_has_the_answer_of_the_resolver() -> None:
    before = Delivery(S.PROCESSING, 1, due=PAST)
    answer = ResolverAnswered(1, V.IN_DOUBT, "they are being restored")
    _, effects = step(before, answer, POLICY, now=NOW)
    assert effects == (incident(IncidentKind.DELIVERY_IN_DOUBT, "they are being restored"),)


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
def test_a_parked_message_lets_its_pair_go_on(state: S) -> None:
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
def test_every_http_answer() -> None:
    for status in (None, *range(100, 600)):
        event = event_of_answer(1, status, "words")
        if status is not None and 200 <= status < 300:
            assert event == AttemptSucceeded(1), status
        elif status is not None and 300 <= status < 400:
            assert isinstance(event, AttemptFailed), status
            assert "redirects are not followed" in event.reason, status
        elif status in {408, 425, 429} or status is None or not 400 <= status < 500:
            assert event == AttemptFailed(1, "words"), status
        else:
            assert event == AttemptRejected(1, "words"), status
