"""The gate of a partner: may copies of its flights leave, and how many messages may be under way?

OPEN       Copies leave. Messages that are not under way yet start while the window has a place.
SUSPENDED  By an operator, because the partner refuses whatever it is sent, or because it cannot be
           reached. Then `due` is the time of the next probe: one copy of one message, to see
           whether the partner answers again.

The ends of attempts are the gate's events as well as the flight's. The breaker opens after
BREAKER attempts in a row that failed in transport, over all messages of the partner, if the first
of them is older than RetryInterval; or when a flight asks for it (ReportUnreachable). Any attempt
that is answered, a probe or one that was still under way, lets everything go again; a message or
a signal that the partner sends lets a probe leave at once (EB-091).

An error of configuration makes the partner refuse one message after the other. After REFUSALS
different messages in a row that it refused with one code, an operator decides (EB-089).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.kinds import IncidentKind
from msh.protocol.lane import OPERATOR
from msh.protocol.reason import Reason, of_words
from msh.protocol.table import Cell, Row, apply, by_state, illegal

from .events import ProbeClaimed
from .value import Flight, FlightState

BREAKER = 8
"""So many attempts in a row may fail in transport, and more within a RetryInterval."""
REFUSALS = 5
"""So many messages in a row may be refused with one code."""
SHORTEST_PROBE = 60
"""Seconds between probes at least, where nothing is set; and between two that the partner causes by
what it sends."""
WINDOW = 16
"""The number of messages that may be under way if the agreement names none (EB-085)."""


class GateState(StrEnum):
    OPEN = "open"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class Gate:
    """`failures` attempts in a row have failed in transport, the first at `failing_since`.
    `probe_interval` in seconds; 0: the partner is not probed. `longest_attempt`: seconds that one
    may take at most. `suspended_for`: an IncidentKind or OPERATOR while suspended. `retry_interval`
    in seconds. `probed_at`: when the last probe left, while suspended. `refusals` messages in a row
    were refused with the code `refused_for`, the last of them `refused_message`. `expiring` says
    which messages under way expire, for people."""

    probe_interval: int
    longest_attempt: float
    state: GateState = GateState.OPEN
    failures: int = 0
    due: datetime | None = None
    suspended_for: str = ""
    retry_interval: int = 0
    failing_since: datetime | None = None
    probed_at: datetime | None = None
    refusals: int = 0
    refused_for: str = ""
    refused_message: str = ""
    expiring: str = ""

    def is_due(self, now: datetime) -> bool:
        """True if a probe may leave, or if its time is so far away that the clock must have
        jumped (D13)."""
        if self.due is None:
            return False
        farthest = timedelta(seconds=2 * (self.probe_interval + self.longest_attempt))
        return self.due <= now or self.due > now + farthest


@dataclass(frozen=True, slots=True)
class MessageUnreached:
    """All copies of a message failed in transport, and so did everything else since the first."""

    message_id: str
    detail: str
    reason: Reason = Reason.NONE


@dataclass(frozen=True, slots=True)
class MessageRefused:
    """The partner refused a message for good, with this code."""

    message_id: str
    code: str
    detail: str
    reason: Reason = Reason.NONE


@dataclass(frozen=True, slots=True)
class MessageTaken:
    """The partner acknowledged a message."""


@dataclass(frozen=True, slots=True)
class PartnerHeard:
    """The partner has sent us a message or a signal."""


GateEvent = (
    on.AttemptTransmitted
    | on.AttemptFailed
    | on.AttemptRefused
    | MessageUnreached
    | MessageRefused
    | MessageTaken
    | PartnerHeard
    | ProbeClaimed
    | on.OperatorSuspended
    | on.OperatorResumed
)
Outcome = tuple[Gate, tuple[do.GateEffect, ...]]


class Leave(StrEnum):
    """The kind of copy that may be sent: an ordinary one, or the probe of a suspended link."""

    COPY = "copy"
    PROBE = "probe"


def seconds_between_probes(probe_interval: int, retry_interval: int, *, never: bool) -> int:
    """Return the interval of probes for a partner with these settings, in seconds; 0: it is not
    probed. Without probes the agreed retries would stop while the link is suspended."""
    if never:
        return 0
    return probe_interval or max(retry_interval, SHORTEST_PROBE)


def what_expires(count: int, under_way: int, first: datetime, last: datetime) -> str:
    """Which messages under way are lost if nobody answers until their TimeToLive ends."""
    until = f"the first at {first:%Y-%m-%d %H:%M:%S} UTC"
    if count > 1:
        until += f", the last at {last:%Y-%m-%d %H:%M:%S} UTC"
    verb = "expires" if count == 1 else "expire"
    return f"{count} of {under_way} messages under way {verb} if it stays silent, {until}"


def event_of(before: Flight, after: Flight, event: object) -> MessageRefused | MessageTaken | None:
    """Return the gate's event for a step of a flight, apart from the end of an attempt; None if
    there is none."""
    if before.state is after.state:
        return None
    if after.state is FlightState.ACKNOWLEDGED:
        return MessageTaken()
    if after.state is not FlightState.FAILED:
        return None
    if isinstance(event, on.AttemptRefused) and event.code:
        return MessageRefused(after.message_id, event.code, event.detail, event.reason)
    if isinstance(event, on.ErrorReceived):
        report = event.report
        code = report.code_text or report.code
        detail = f"{code}: {report.description}"
        return MessageRefused(after.message_id, code, detail, of_words(detail))
    return None


def may_leave(
    gate: Gate,
    flight: Flight,
    *,
    under_way: int,
    window: int,
    in_maintenance: bool = False,
    now: datetime,
) -> Leave | None:
    """Return the kind of copy of this flight that may be claimed now; None if none may.

    `under_way`: how many messages of the link have a place. A message that has one keeps it until
    it ends or is held, so its retries need none. After a probe is claimed, the gate steps with
    ProbeClaimed, and no second one may leave. `in_maintenance`: a window of the partner runs; it is
    not probed.
    """
    if flight.state is not FlightState.READY or flight.why_not_sent_again(now):
        return None
    if not flight.under_way and under_way >= window:
        return None
    if gate.state is GateState.OPEN:
        return Leave.COPY
    return Leave.PROBE if gate.is_due(now) and not in_maintenance else None


def step(before: Gate, event: GateEvent, *, now: datetime) -> Outcome:
    """The gate after `event`. Raises IllegalTransition for what may not happen."""
    cell = TRANSITIONS[before.state][type(event)]
    if cell is None:
        raise illegal(before, event)
    return apply(cell, before, event, now)


# --- the cells ----------------------------------------------------------------------------------


def _answered(gate: Gate, event: on.AttemptEvent, now: datetime) -> Outcome:
    answered = replace(gate, failures=0, failing_since=None)
    if gate.suspended_for == IncidentKind.PARTNER_UNREACHABLE:
        return _open(answered, event, now)
    return answered, ()


def _open(gate: Gate, event: object, now: datetime) -> Outcome:
    after = replace(
        gate,
        state=GateState.OPEN,
        failures=0,
        failing_since=None,
        due=None,
        probed_at=None,
        suspended_for="",
        refusals=0,
        refused_for="",
        refused_message="",
    )
    return after, (do.ResolveIncidents(), do.PollLane())


def _failed(gate: Gate, event: on.AttemptFailed, now: datetime) -> Outcome:
    if not event.unreachable:
        return _answered(gate, event, now)
    since = min(gate.failing_since or now, now)
    failed = replace(gate, failures=gate.failures + 1, failing_since=since)
    if gate.state is GateState.SUSPENDED:
        due = _next_probe(gate, now) if gate.due is not None else None
        return replace(failed, due=due), ()
    if failed.failures < BREAKER or now - since < timedelta(seconds=gate.retry_interval):
        return failed, ()
    detail = f"{failed.failures} attempts in a row were not answered, the last: {event.detail}"
    return _suspend(failed, replace(event, detail=detail), now)


def _refused(gate: Gate, event: MessageRefused, now: datetime) -> Outcome:
    """An attempt that is refused is answered, too: that it opens the gate is another event."""
    if event.message_id == gate.refused_message:
        return gate, ()
    in_a_row = gate.refusals + 1 if event.code == gate.refused_for else 1
    counted = replace(
        gate,
        refusals=in_a_row,
        refused_for=event.code,
        refused_message=event.message_id,
    )
    if in_a_row < REFUSALS or gate.suspended_for not in ("", IncidentKind.PARTNER_UNREACHABLE):
        return counted, ()
    kind = IncidentKind.PARTNER_REFUSES
    detail = (
        f"{in_a_row} messages in a row were refused with {event.code}, the last: {event.detail}"
    )
    shut = replace(counted, state=GateState.SUSPENDED, due=None, suspended_for=kind)
    resolved = (do.ResolveIncidents(),) if gate.state is GateState.SUSPENDED else ()
    return shut, (*resolved, do.OpenIncident(kind, event.message_id, detail, event.reason))


def _taken(gate: Gate, event: MessageTaken, now: datetime) -> Outcome:
    return replace(gate, refusals=0, refused_for="", refused_message=""), ()


def _heard(gate: Gate, event: PartnerHeard, now: datetime) -> Outcome:
    """One probe, and not for each message of a partner that cannot be reached but sends many."""
    if gate.due is None or gate.due <= now:
        return gate, ()
    since = None if gate.probed_at is None else now - gate.probed_at
    if since is not None and timedelta(0) <= since < timedelta(seconds=SHORTEST_PROBE):
        return gate, ()
    return replace(gate, due=now), (do.PollLane(),)


def _unreached(gate: Gate, event: MessageUnreached, now: datetime) -> Outcome:
    return _suspend(gate, event, now)


def _suspend(gate: Gate, why: on.AttemptFailed | MessageUnreached, now: datetime) -> Outcome:
    kind = IncidentKind.PARTNER_UNREACHABLE
    due = _next_probe(gate, now)
    suspended = replace(
        gate, state=GateState.SUSPENDED, due=due, probed_at=None, suspended_for=kind
    )
    detail = f"{why.detail}. {gate.expiring}" if gate.expiring else why.detail
    return suspended, (do.OpenIncident(kind, why.message_id, detail, why.reason),)


def _next_probe(gate: Gate, since: datetime) -> datetime | None:
    return since + timedelta(seconds=gate.probe_interval) if gate.probe_interval else None


def _stay(gate: Gate, event: object, now: datetime) -> Outcome:
    return gate, ()


def _probe(gate: Gate, event: ProbeClaimed, now: datetime) -> Outcome:
    """One at a time: the next is due an interval after this one must have ended."""
    if not gate.is_due(now):
        raise illegal(gate, event)
    due = _next_probe(gate, now + timedelta(seconds=event.http_deadline))
    return replace(gate, due=due, probed_at=now), ()


def _suspend_by_operator(gate: Gate, event: on.OperatorSuspended, now: datetime) -> Outcome:
    """Possible also while the partner is unreachable: then it is no longer probed, and stays
    suspended until an operator resumes."""
    if gate.suspended_for == OPERATOR:
        raise illegal(gate, event)
    return replace(gate, state=GateState.SUSPENDED, due=None, suspended_for=OPERATOR), ()


_OPEN, _SUSPENDED = GateState.OPEN, GateState.SUSPENDED
_Handler = Callable[[Gate, Any, datetime], Outcome]


def _to(handler: _Handler, *targets: GateState) -> Cell[GateState]:
    return Cell(handler, targets)


_ANSWERED: Row[GateState] = {
    _OPEN: _to(_answered, _OPEN),
    _SUSPENDED: _to(_answered, _OPEN, _SUSPENDED),
}

_ROWS: dict[type, Row[GateState]] = {
    on.AttemptTransmitted: _ANSWERED,
    on.AttemptFailed: {
        _OPEN: _to(_failed, _OPEN, _SUSPENDED),
        _SUSPENDED: _to(_failed, _OPEN, _SUSPENDED),
    },
    on.AttemptRefused: _ANSWERED,
    MessageUnreached: {_OPEN: _to(_unreached, _SUSPENDED), _SUSPENDED: _to(_stay, _SUSPENDED)},
    MessageRefused: {
        _OPEN: _to(_refused, _OPEN, _SUSPENDED),
        _SUSPENDED: _to(_refused, _SUSPENDED),
    },
    MessageTaken: {_OPEN: _to(_taken, _OPEN), _SUSPENDED: _to(_taken, _SUSPENDED)},
    PartnerHeard: {_OPEN: _to(_stay, _OPEN), _SUSPENDED: _to(_heard, _SUSPENDED)},
    ProbeClaimed: {_OPEN: None, _SUSPENDED: _to(_probe, _SUSPENDED)},
    on.OperatorSuspended: {
        _OPEN: _to(_suspend_by_operator, _SUSPENDED),
        _SUSPENDED: _to(_suspend_by_operator, _SUSPENDED),
    },
    on.OperatorResumed: {_OPEN: None, _SUSPENDED: _to(_open, _OPEN)},
}

TRANSITIONS = by_state(_ROWS, GateState)
"""Complete: a cell for every state and event. None: the event may not happen."""
