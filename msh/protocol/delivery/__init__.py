"""Delivery of an accepted message to a consumer: the document history, as a pure step.

One history per consumer and message. "No row" is NEW here, so that the table is complete.
Attempts are numbered and never start again: what an old worker says of an earlier attempt is noted
and changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from msh.protocol.effects import Note, OpenIncident
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import DUPLICATE, DeliveryState, IncidentKind, OnFailure

from .events import (
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

Step = tuple[Delivery, tuple[DeliveryEffect, ...]]


def step(before: Delivery, event: DeliveryEvent, policy: Policy, *, now: datetime) -> Step:
    """Return the delivery after this event, and the effects. Raises IllegalTransition, with nothing
    changed, for an event that may not happen in this state."""
    cell = TRANSITIONS[before.state].get(type(event))
    if cell is None:
        raise IllegalTransition(before.state, type(event).__name__)
    if getattr(event, "attempt", before.attempt) != before.attempt:
        return before, (Note("", f"{type(event).__name__} of an earlier attempt"),)
    return cell(before, event, policy, now)


def event_of_answer(attempt: int, status: int | None, detail: str) -> DeliveryEvent:
    """Return the event for a consumer's HTTP answer (docs/spec/tables.md). `status` is None if
    there was no answer."""
    if status is not None and 200 <= status < 300:
        return AttemptSucceeded(attempt)
    if status is not None and 400 <= status < 500 and status not in _AGAIN:
        return AttemptRejected(attempt, detail)
    if status is not None and 300 <= status < 400:
        detail = f"{detail}: redirects are not followed; correct the URL of the consumer"
    return AttemptFailed(attempt, detail)


_AGAIN = frozenset({408, 425, 429})


# --- the cells ----------------------------------------------------------------------------------
_Cell = Callable[[Delivery, Any, Policy, datetime], Step]


def _run(before: Delivery, event: DeliveryPolled, policy: Policy, now: datetime) -> Step:
    if before.due is not None and before.due > now:
        return before, ()
    attempt = before.attempt + 1
    lease = now + timedelta(seconds=policy.lease)
    after = replace(before, state=DeliveryState.PROCESSING, attempt=attempt, due=lease)
    return after, (Run(attempt),)


def _leased(before: Delivery, event: DeliveryPolled, policy: Policy, now: datetime) -> Step:
    if before.due is not None and before.due > now:
        return before, ()
    lost = f"the lease of attempt {before.attempt} ended without a result"
    if not policy.doubtful:
        return _failed(before, f"{lost}: run again", policy, now)
    if policy.has_resolver:
        lease = now + timedelta(seconds=policy.lease)
        return replace(before, due=lease), (AskResolver(before.attempt),)
    return _doubted(before, lost, policy)


def _duplicate(before: Delivery, event: DeliveryPolled, policy: Policy, now: datetime) -> Step:
    rejected = before.state is DeliveryState.REJECTED
    text = f"{before.state} by attempt {before.attempt}, not run"
    return replace(before, due=None), (Leave(rejected), Note("", text, DUPLICATE))


def _nothing(before: Delivery, event: DeliveryPolled, policy: Policy, now: datetime) -> Step:
    return before, ()


def _late(before: Delivery, event: DeliveryEvent, policy: Policy, now: datetime) -> Step:
    return before, (Note("", f"{type(event).__name__} came late: already {before.state}"),)


def _completed(before: Delivery, event: AttemptSucceeded, policy: Policy, now: datetime) -> Step:
    return replace(before, state=DeliveryState.COMPLETED, due=now), ()


def _rejected(before: Delivery, event: AttemptRejected, policy: Policy, now: datetime) -> Step:
    after = replace(before, state=DeliveryState.REJECTED, due=now)
    return after, (OpenIncident(IncidentKind.DELIVERY_REJECTED, detail=event.reason),)


def _attempt_failed(before: Delivery, event: AttemptFailed, policy: Policy, now: datetime) -> Step:
    after = now + timedelta(seconds=policy.retry_interval)
    return _failed(before, event.reason, policy, after)


def _outcome_lost(before: Delivery, event: OutcomeLost, policy: Policy, now: datetime) -> Step:
    if policy.doubtful:
        return _doubted(before, event.reason, policy)
    after = now + timedelta(seconds=policy.retry_interval)
    return _failed(before, event.reason, policy, after)


def _failed(before: Delivery, reason: str, policy: Policy, due: datetime) -> Step:
    failures = before.failures + 1
    if failures < policy.attempts:
        return replace(before, state=DeliveryState.FAILED, failures=failures, due=due), ()
    incident = OpenIncident(IncidentKind.DELIVERY_FAILED, detail=reason)
    spent = replace(before, failures=failures, due=None)
    if policy.on_failure is OnFailure.BLOCK and not before.aside:
        return replace(spent, state=DeliveryState.BLOCKED), (incident,)
    return replace(spent, state=DeliveryState.PARKED, aside=True), (SetAside(), incident)


def _doubted(before: Delivery, reason: str, policy: Policy) -> Step:
    aside = before.aside or policy.on_failure is OnFailure.PARK
    after = replace(before, state=DeliveryState.IN_DOUBT, due=None, aside=aside)
    incident = OpenIncident(IncidentKind.DELIVERY_IN_DOUBT, detail=reason)
    return after, (SetAside(), incident) if aside else (incident,)


def _resolved(before: Delivery, event: ResolverAnswered, policy: Policy, now: datetime) -> Step:
    match event.verdict:
        case ResolverVerdict.NEW:
            return replace(before, state=DeliveryState.FAILED, due=now), ()  # it was never tried
        case ResolverVerdict.DUPLICATE:
            return replace(before, state=DeliveryState.COMPLETED, due=now), ()
        case ResolverVerdict.IN_DOUBT:  # pragma: no branch  the last of three
            return _doubted(before, event.detail or "the resolver does not know", policy)


def _keep(before: Delivery, event: OutcomeKept, policy: Policy, now: datetime) -> Step:
    rejected = before.state is DeliveryState.REJECTED
    return replace(before, due=None), (Leave(rejected),)


def _again(before: Delivery, event: RunAgainRequested, policy: Policy, now: datetime) -> Step:
    return replace(before, state=DeliveryState.FAILED, failures=0, due=now), ()


def _rejected_again(
    before: Delivery, event: RunAgainRequested, policy: Policy, now: datetime
) -> Step:
    """A replay that was rejected: its message has left the order of its pair and does not return to
    it."""
    after, _ = _again(before, event, policy, now)
    return replace(after, aside=True), (SetAside(),)


def _ask(before: Delivery, event: ResolverRequested, policy: Policy, now: datetime) -> Step:
    if not policy.has_resolver:
        raise IllegalTransition(before.state, type(event).__name__)
    return replace(before, state=DeliveryState.PROCESSING, failures=0, due=now), ()


def _marked_completed(
    before: Delivery, event: CompletionMarked, policy: Policy, now: datetime
) -> Step:
    return replace(before, state=DeliveryState.COMPLETED, due=None), (Leave(),)


def _marked_rejected(
    before: Delivery, event: RejectionMarked, policy: Policy, now: datetime
) -> Step:
    return replace(before, state=DeliveryState.REJECTED, due=None), (Leave(rejected=True),)


def _parked(before: Delivery, event: ParkRequested, policy: Policy, now: datetime) -> Step:
    return replace(before, state=DeliveryState.PARKED, due=None, aside=True), (SetAside(),)


def _doubt_parked(before: Delivery, event: ParkRequested, policy: Policy, now: datetime) -> Step:
    """The doubt stays; what comes after it need not wait."""
    if before.aside:
        raise IllegalTransition(before.state, type(event).__name__)
    return replace(before, aside=True), (SetAside(), Note("", "set aside, still in doubt"))


_OUTCOMES = (AttemptSucceeded, AttemptRejected, AttemptFailed, OutcomeLost, ResolverAnswered)
_KNOWN: Mapping[type, _Cell] = {AttemptSucceeded: _completed, AttemptRejected: _rejected}
_DECIDED: Mapping[type, _Cell] = {
    RunAgainRequested: _again,
    CompletionMarked: _marked_completed,
    RejectionMarked: _marked_rejected,
}
# Waits for an operator. The latest attempt may still say how it ended: that is known then.
_WAITS: Mapping[type, _Cell] = {
    DeliveryPolled: _nothing,
    **_KNOWN,
    AttemptFailed: _late,
    OutcomeLost: _late,
    ResolverAnswered: _late,
    **_DECIDED,
}
_ENDED: Mapping[type, _Cell] = {
    DeliveryPolled: _duplicate,
    OutcomeKept: _keep,
    **dict.fromkeys(_OUTCOMES, _late),
}

TRANSITIONS: Mapping[DeliveryState, Mapping[type, _Cell]] = {
    DeliveryState.NEW: {DeliveryPolled: _run},
    DeliveryState.PROCESSING: {
        DeliveryPolled: _leased,
        **_KNOWN,
        AttemptFailed: _attempt_failed,
        OutcomeLost: _outcome_lost,
        ResolverAnswered: _resolved,
    },
    DeliveryState.FAILED: {**_WAITS, DeliveryPolled: _run, ParkRequested: _parked},
    DeliveryState.BLOCKED: {**_WAITS, ParkRequested: _parked},
    DeliveryState.PARKED: _WAITS,
    DeliveryState.IN_DOUBT: {
        **_WAITS,
        AttemptFailed: _attempt_failed,
        ParkRequested: _doubt_parked,
        ResolverRequested: _ask,
    },
    DeliveryState.COMPLETED: _ENDED,
    DeliveryState.REJECTED: {**_ENDED, RunAgainRequested: _rejected_again},
}
"""Events that are missing in a state may not happen there."""
