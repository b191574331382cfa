"""The Sender: the state machine of one link to a partner (000 §2.1.4, docs/spec/tables.md).

Theory of operation
===================

Rule 1: everything that decides what is sent, when, and under which number is in this file and
in `lane.py`. Nothing here knows a clock, a row, a socket, or who asks. Time is a parameter.

A *lane* is the value of one link: its state, the message in flight, the next number, and one due
time. `step(lane, event, now=...)` returns the next lane and the effects that belong into the same
transaction (send a copy, open an incident, notify the From-Party). The caller locks the row, calls
`step`, writes the lane, its history and the effects, and commits. There is no other way to change
a lane.

States
------

IDLE       Nothing is in flight. A look at the queue puts the first message in flight.
WAITING    One message is in flight. Either a copy waits for a worker (`unsent`), and `due` is the
           time from which it may go; or a copy was claimed, and `due` is the deadline of its
           Acknowledgement.
TRANSIENT  The partner asked us to wait. `due` is the end of that wait. The message may be
           acknowledged meanwhile: then nothing is in flight, and the wait is served out (D28).
SUSPENDED  No Normal message is sent until an administrator resumes the link. There is no due time.
           The message in flight stays in flight: resuming sends the same message first.

The life of one message
-----------------------

1. LanePolled: the message gets the next number (D18); a copy is to be sent.
2. AttemptClaimed: a worker takes the copy. `due` moves to the end of the HTTP attempt plus the wait
   for an answer, in the transaction of the claim. A worker that dies after it needs no recovery of
   its own: its deadline passes like any other.
3. AttemptCarried or AttemptFailed: the wait starts at the end of the attempt (D11). 2xx completes
   nothing (D35). A failure of the transport waits RetryInterval instead of Timeout (D8).
4. DeadlinePassed: while retries remain, one is spent and the same bytes are sent again; after the
   last wait, the link is suspended (D4, D6): 1 + Retries copies in all.
5. AckReceived: the message is complete, and the queue is looked at in the same transaction.

An Acknowledgement may arrive before its own POST has ended, after the link was suspended, or after
a reset. Each is a cell of the table.

What the table does not show
----------------------------

`TRANSITIONS` has a cell for every state and event, and `step` checks that a handler leads only to
the states that its cell names. These conditions come on top:

* An event of an attempt that is not the latest one of the message in flight does nothing, in every
  state, before the table is asked (`_is_latest`). Attempt numbers never start again; only the retry
  counter does. This fence makes a worker that wakes up late harmless.
* An answer must name the message in flight; the caller turns an answer about another message into
  AckOfOtherReceived, AckOfUnknownReceived or ErrorForOtherReceived first. An answer passed off as
  one to the message in flight is refused (`_names_another`).
* DeadlinePassed does nothing while a copy is unsent or the time has not come. A due time farther
  away than any wait of the message counts as passed: the clock was set back (D13).
* Some cells need more than their state and refuse the event otherwise: a claim needs an unsent
  copy; a probe needs a message in flight and a suspension for silence; *reset retries* and *send
  now* need a message in flight; the verdict *not received* needs the proof that no byte was sent or
  that the partner lacks the message; a rewound message can only be cancelled as received, because
  those behind it keep their numbers; a reset of the numbers needs nothing in flight or in doubt.
* A probe is a copy beyond the budget: `retries_spent` is Retries + 1. It is not followed by a
  retry; an Acknowledgement or a TransientError in answer to it ends the suspension (D41).

What is refused raises IllegalTransition and changes nothing. `tests/protocol/` checks every cell by
hand, every arrow of the diagram in ARCHITECTURE.md, and the timeline to the second.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from . import effects as do
from . import events as on
from . import sequence
from .errors import IllegalTransition
from .kinds import IncidentKind, PartyEventKind, Verdict
from .lane import OPERATOR, InFlight, Lane, LaneState
from .vocabulary import Severity

IDLE, WAITING = LaneState.IDLE, LaneState.WAITING
TRANSIENT, SUSPENDED = LaneState.TRANSIENT, LaneState.SUSPENDED

_ANSWERS = (
    on.AckReceived,
    on.TransientErrorReceived,
    on.SequenceErrorReceived,
    on.ErrorReceived,
)

Outcome = tuple[Lane, tuple[do.SenderEffect, ...]]
Handler = Callable[[Lane, Any, datetime], Outcome]


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the table: what is done, and the states it may lead to."""

    handler: Handler
    targets: tuple[LaneState, ...]


def step(before: Lane, event: on.SenderEvent, *, now: datetime) -> Outcome:
    """The lane after `event`, and the effects that belong into its transaction.

    Raises IllegalTransition, with nothing changed, for an event that may not happen in this state.
    """
    if isinstance(event, on.AttemptEvent) and not _is_latest(before, event):
        return before, ()  # written on its attempt, does nothing else, in every state
    cell = TRANSITIONS[before.state][type(event)]
    if cell is None or _names_another(before, event):
        raise _illegal(before, event)
    after, effects = cell.handler(before, event, now)
    if after.state not in cell.targets:
        raise AssertionError(f"{before.state}, {type(event).__name__} led to {after.state}")
    return after, effects


def _is_latest(lane: Lane, event: on.AttemptEvent) -> bool:
    flying = lane.in_flight
    return flying is not None and (flying.message_id, flying.attempt) == (
        event.message_id,
        event.attempt,
    )


def _names_another(lane: Lane, event: on.SenderEvent) -> bool:
    """True for an answer that is passed off as one to the message in flight (000-097, D3)."""
    return (
        isinstance(event, _ANSWERS)
        and lane.in_flight is not None
        and lane.in_flight.message_id != event.message_id
    )


def _illegal(lane: Lane, event: object) -> IllegalTransition:
    return IllegalTransition(lane.state, type(event).__name__)


def _nothing(lane: Lane, event: Any, now: datetime) -> Outcome:
    return lane, ()


def _suspended(lane: Lane, kind: IncidentKind, detail: str) -> Outcome:
    message_id = lane.flying.message_id
    return lane.suspends(kind), (
        do.OpenIncident(kind, message_id, detail),
        do.NotifyFromParty(PartyEventKind.SUSPENDED, message_id, detail),
    )


def _landed(lane: Lane, *effects: do.SenderEffect) -> Outcome:
    after = lane.lands()
    if after.state is not IDLE:
        return after, effects
    if lane.flying.probing:  # D41: the partner answers again
        effects = (*effects, do.ResolveIncidents())
    return after, (*effects, do.LookAtLane())


def _polled(lane: Lane, event: on.LanePolled, now: datetime) -> Outcome:
    if event.message_id is None or event.terms is None:
        return lane, ()
    if event.again is None:
        number, epoch = lane.next_number, lane.epoch
        after = lane.takes(event.message_id, event.terms, now, event.attempts)
    else:  # rewound: the same number and bytes, and the next number stays what it is
        number, epoch = event.again.sequence_number, event.again.epoch
        flying = InFlight(event.message_id, number, event.terms, event.attempts)
        after = lane.transmits(flying, now)
    return after, (
        do.PutInFlight(event.message_id, number, epoch, event.terms),
        do.Transmit(),
    )


def _claimed(lane: Lane, event: on.AttemptClaimed, now: datetime) -> Outcome:
    if lane.in_flight is None or not lane.unsent:
        raise _illegal(lane, event)
    flying = replace(lane.in_flight, attempt=lane.in_flight.attempt + 1)
    # A worker that dies here leaves an ordinary deadline behind.
    due = now + timedelta(seconds=event.http_deadline) + flying.wait
    return replace(lane, in_flight=flying, unsent=False, due=due), ()


def _claimed_while_transient(lane: Lane, event: on.AttemptClaimed, now: datetime) -> Outcome:
    if lane.in_flight is None or not lane.is_due(now):
        raise _illegal(lane, event)
    return _claimed(lane.transmits(lane.in_flight, now), event, now)


def _carried(lane: Lane, event: on.AttemptCarried, now: datetime) -> Outcome:
    if lane.unsent:  # "send now" has asked for another copy meanwhile
        return lane, ()
    return replace(lane, due=now + lane.flying.wait), ()  # from the attempt's end (D11)


def _failed(lane: Lane, event: on.AttemptFailed, now: datetime) -> Outcome:
    warning = f"early warning: {event.detail}"  # the attempt's kind stands on the attempt (D35)
    effects = (do.Note(event.message_id, warning),) if event.doubted else ()
    if lane.unsent:
        return lane, effects
    flying = lane.flying
    wait = max(flying.retry_interval, flying.granted(event.retry_after))  # D8, D54
    return replace(lane, due=now + wait), effects


def _refused(lane: Lane, event: on.AttemptRefused, now: datetime) -> Outcome:
    return _suspended(lane, IncidentKind.REFUSED_BY_PEER, event.detail)


def _acknowledged(lane: Lane, event: on.AckReceived, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return _duplicate_ack(lane, event, now)
    return _landed(lane, *_completed(event.message_id))


def _acknowledged_late(lane: Lane, event: on.AckReceived, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return _duplicate_ack(lane, event, now)
    completed = _completed(event.message_id)
    if event.resumes and lane.suspended_for in do.SILENCE:
        return lane.lands().rests(), (*completed, do.ResolveIncidents(), do.LookAtLane())
    return replace(lane.lands(), late_ack=True), completed  # only the administrator resumes (D12)


def _completed(message_id: str) -> tuple[do.SenderEffect, ...]:
    return (
        do.Complete(message_id),
        do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, message_id),
    )


def _duplicate_ack(lane: Lane, event: on.AckReceived, now: datetime) -> Outcome:
    return lane, (do.CountDuplicateAck(event.message_id),)


def _ack_of_other(lane: Lane, event: on.AckOfOtherReceived, now: datetime) -> Outcome:
    if event.cancelled:
        return lane, (
            do.RecordLateVerdict(event.message_id),
            do.NotifyFromParty(PartyEventKind.CANCELLED, event.message_id, "received after all"),
        )
    return lane, (do.CountDuplicateAck(event.message_id),)


def _ack_of_unknown(lane: Lane, event: on.AckOfUnknownReceived, now: datetime) -> Outcome:
    return lane, (do.Note(event.message_id, "Acknowledgement of a message we never sent"),)


def _deadline_passed(lane: Lane, event: on.DeadlinePassed, now: datetime) -> Outcome:
    if lane.unsent or not lane.is_due(now):
        return lane, ()
    flying = lane.flying
    detail = f"no Acknowledgement after {flying.attempt} transmissions"
    if flying.probing:  # the From-Party knows that it is suspended
        incident = do.OpenIncident(IncidentKind.RETRIES_SPENT, flying.message_id, detail)
        return lane.suspends(IncidentKind.RETRIES_SPENT), (incident,)
    if flying.retries_spent >= flying.terms.retries:
        return _suspended(lane, IncidentKind.RETRIES_SPENT, detail)
    flying = replace(flying, retries_spent=flying.retries_spent + 1)
    return lane.transmits(flying, now), (*_early_warning(flying), do.Transmit())


def _early_warning(flying: InFlight) -> tuple[do.SenderEffect, ...]:
    if flying.retries_spent != flying.terms.early_warning:
        return ()
    detail = f"retry {flying.retries_spent} of {flying.terms.retries}: no Acknowledgement yet"
    return (do.NotifyFromParty(PartyEventKind.DELAYED, flying.message_id, detail),)


def _transient_wait_over(lane: Lane, event: on.DeadlinePassed, now: datetime) -> Outcome:
    if not lane.is_due(now):
        return lane, ()
    if lane.in_flight is not None and lane.in_flight.transient_limit_reached(now):
        return _transient_limit(lane)
    return _wait_ended(lane, event, now)


def _wait_ended(
    lane: Lane, event: on.DeadlinePassed | on.OperatorResumed, now: datetime
) -> Outcome:
    if lane.in_flight is None:
        return lane.rests(), (do.LookAtLane(),)
    return lane.transmits(lane.in_flight, now), (do.Transmit(),)  # spends no retry (D10)


def _told_to_wait(lane: Lane, event: on.TransientErrorReceived, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return lane, ()
    probing = lane.in_flight.probing
    flying = lane.in_flight.with_fresh_retries() if probing else lane.in_flight
    since = flying.transient_since or now
    flying = replace(flying, transients=flying.transients + 1, transient_since=since)
    waiting = replace(
        lane,
        state=TRANSIENT,
        in_flight=flying,
        due=now + flying.granted(event.min_retry_secs),
        unsent=False,
    )
    if flying.transient_limit_reached(now):
        return _transient_limit(waiting)
    asked = "no time" if event.min_retry_secs is None else f"{event.min_retry_secs} s"
    note = do.Note(event.message_id, f"TransientError, asked for {asked}")
    return waiting, (note, do.ResolveIncidents()) if probing else (note,)


def _transient_limit(lane: Lane) -> Outcome:
    detail = f"{lane.flying.transients} TransientErrors since {lane.flying.transient_since}"
    return _suspended(lane, IncidentKind.TRANSIENT_LIMIT, detail)


def _out_of_step(lane: Lane, event: on.SequenceErrorReceived, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return _out_of_step_while_idle(lane, event, now)
    detail = f"{event.report.code}: {event.report.description}"
    return _suspended(lane, IncidentKind.RESYNCHRONISE, detail)


def _out_of_step_while_idle(lane: Lane, event: on.SequenceErrorReceived, now: datetime) -> Outcome:
    detail = f"{event.report.code}: {event.report.description}"
    return lane, (do.OpenIncident(IncidentKind.RESYNCHRONISE, event.message_id, detail),)


def _error(lane: Lane, event: on.ErrorReceived, now: datetime) -> Outcome:
    if lane.in_flight is None or event.report.severity is Severity.WARNING:
        return _error_noted(lane, event, now)
    detail = f"{event.report.code_text or event.report.code}: {event.report.description}"
    return _suspended(lane, IncidentKind.ERROR_RECEIVED, detail)


def _error_noted(lane: Lane, event: Any, now: datetime) -> Outcome:
    report = event.report
    text = f"Error {report.code_text or report.code}: {report.description}"
    return lane, (do.Note(event.message_id, text),)


def _transient_noted(lane: Lane, event: on.TransientErrorReceived, now: datetime) -> Outcome:
    return lane, (do.Note(event.message_id, f"TransientError: {event.detail}"),)


def _resumed(lane: Lane, event: on.OperatorResumed, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return lane.rests(), (do.ResolveIncidents(), do.LookAtLane())
    flying = lane.in_flight.with_fresh_retries()
    return lane.transmits(flying, now), (do.ResolveIncidents(), do.Transmit())


def _probed(lane: Lane, event: on.ProbeDue, now: datetime) -> Outcome:
    if lane.in_flight is None or lane.suspended_for not in do.SILENCE:
        raise _illegal(lane, event)
    note = do.Note(lane.in_flight.message_id, "probe: one more copy, the partner stays suspended")
    return lane.transmits(lane.in_flight.probes(), now), (note, do.Transmit())


def _retries_reset(lane: Lane, event: on.RetriesReset, now: datetime) -> Outcome:
    if lane.in_flight is None:
        raise _illegal(lane, event)
    after = replace(lane, in_flight=replace(lane.in_flight, retries_spent=0))
    # With retries left it is no probe any more: the operator has resumed it (D41).
    return after, (do.ResolveIncidents(),) if lane.in_flight.probing else ()


def _sent_now(lane: Lane, event: on.SendNowRequested, now: datetime) -> Outcome:
    if lane.in_flight is None:
        raise _illegal(lane, event)
    return lane.transmits(lane.in_flight, now), (do.Transmit(),)


def _suspended_by_operator(lane: Lane, event: on.OperatorSuspended, now: datetime) -> Outcome:
    return lane.suspends(OPERATOR), ()


def _cancelled(lane: Lane, event: on.MessageCancelled, now: datetime) -> Outcome:
    flying = lane.in_flight
    not_received = event.verdict is Verdict.NOT_RECEIVED
    if flying is None or (not_received and not event.nothing_sent):
        raise _illegal(lane, event)
    rewound = sequence.following(flying.sequence_number) != lane.next_number
    if rewound and event.verdict is not Verdict.RECEIVED:
        raise _illegal(lane, event)  # those behind it keep their numbers, so it keeps its own
    if event.verdict is Verdict.UNKNOWN:
        lane = lane.restarts()
    elif not_received:
        lane = lane.takes_back(flying.sequence_number)
    cancel = do.Cancel(flying.message_id, event.verdict, free_number=not_received)
    notify = do.NotifyFromParty(PartyEventKind.CANCELLED, flying.message_id, event.verdict)
    return _landed(lane, cancel, notify)


def _sequence_reset(lane: Lane, event: on.SequenceReset, now: datetime) -> Outcome:
    if lane.in_flight is not None or event.in_doubt:
        raise _illegal(lane, event)
    return lane.restarts(), ()


def _rewound(lane: Lane, event: on.SequenceRewound, now: datetime) -> Outcome:
    return replace(lane, in_flight=None), (do.Rewind(event.last),)


def _adopted(lane: Lane, event: on.SequenceAdopted, now: datetime) -> Outcome:
    flying = lane.in_flight
    after = replace(lane, in_flight=None).restarts(event.next_number)
    if flying is None:
        return after, ()
    if not event.not_received:
        raise _illegal(lane, event)
    return after, (do.Requeue(flying.message_id),)


def _row(
    idle: Cell | None, waiting: Cell | None, transient: Cell | None, suspended: Cell | None
) -> dict[LaneState, Cell | None]:
    return {IDLE: idle, WAITING: waiting, TRANSIENT: transient, SUSPENDED: suspended}


def _in_every_state(handler: Handler) -> dict[LaneState, Cell | None]:
    return {state: Cell(handler, (state,)) for state in LaneState}


_STAYS_SUSPENDED = Cell(_nothing, (SUSPENDED,))
_STAYS_IDLE = Cell(_nothing, (IDLE,))

_ROWS: dict[type, dict[LaneState, Cell | None]] = {
    on.MessageSubmitted: _in_every_state(_nothing),
    on.LanePolled: _row(Cell(_polled, (IDLE, WAITING)), None, None, None),
    on.AttemptClaimed: _row(
        None, Cell(_claimed, (WAITING,)), Cell(_claimed_while_transient, (WAITING,)), None
    ),
    on.AttemptCarried: _row(
        _STAYS_IDLE, Cell(_carried, (WAITING,)), Cell(_nothing, (TRANSIENT,)), _STAYS_SUSPENDED
    ),
    on.AttemptFailed: _row(
        _STAYS_IDLE, Cell(_failed, (WAITING,)), Cell(_nothing, (TRANSIENT,)), _STAYS_SUSPENDED
    ),
    on.AttemptRefused: _row(
        _STAYS_IDLE, Cell(_refused, (SUSPENDED,)), Cell(_refused, (SUSPENDED,)), _STAYS_SUSPENDED
    ),
    on.AckReceived: _row(
        Cell(_duplicate_ack, (IDLE,)),
        Cell(_acknowledged, (IDLE,)),
        Cell(_acknowledged, (TRANSIENT,)),
        Cell(_acknowledged_late, (IDLE, SUSPENDED)),
    ),
    on.AckOfOtherReceived: _in_every_state(_ack_of_other),
    on.AckOfUnknownReceived: _in_every_state(_ack_of_unknown),
    on.DeadlinePassed: _row(
        None,
        Cell(_deadline_passed, (WAITING, SUSPENDED)),
        Cell(_transient_wait_over, (IDLE, WAITING, TRANSIENT, SUSPENDED)),
        None,
    ),
    on.TransientErrorReceived: _row(
        _STAYS_IDLE,
        Cell(_told_to_wait, (TRANSIENT, SUSPENDED)),
        Cell(_told_to_wait, (TRANSIENT, SUSPENDED)),
        Cell(_transient_noted, (SUSPENDED,)),
    ),
    on.SequenceErrorReceived: _row(
        Cell(_out_of_step_while_idle, (IDLE,)),
        Cell(_out_of_step, (SUSPENDED,)),
        Cell(_out_of_step, (TRANSIENT, SUSPENDED)),
        Cell(_error_noted, (SUSPENDED,)),
    ),
    on.ErrorReceived: _row(
        Cell(_error_noted, (IDLE,)),
        Cell(_error, (WAITING, SUSPENDED)),
        Cell(_error, (TRANSIENT, SUSPENDED)),
        Cell(_error_noted, (SUSPENDED,)),
    ),
    on.ErrorForOtherReceived: _in_every_state(_error_noted),
    on.ProbeDue: _row(None, None, None, Cell(_probed, (WAITING,))),
    on.OperatorResumed: _row(
        None, None, Cell(_wait_ended, (IDLE, WAITING)), Cell(_resumed, (IDLE, WAITING))
    ),
    on.RetriesReset: _row(
        None, Cell(_retries_reset, (WAITING,)), Cell(_retries_reset, (TRANSIENT,)), None
    ),
    on.SendNowRequested: _row(None, Cell(_sent_now, (WAITING,)), Cell(_sent_now, (WAITING,)), None),
    on.OperatorSuspended: _row(
        Cell(_suspended_by_operator, (SUSPENDED,)),
        Cell(_suspended_by_operator, (SUSPENDED,)),
        Cell(_suspended_by_operator, (SUSPENDED,)),
        None,
    ),
    on.MessageCancelled: _row(
        None,
        Cell(_cancelled, (IDLE,)),
        Cell(_cancelled, (TRANSIENT,)),
        Cell(_cancelled, (SUSPENDED,)),
    ),
    on.SequenceReset: _row(
        Cell(_sequence_reset, (IDLE,)), None, None, Cell(_sequence_reset, (SUSPENDED,))
    ),
    on.SequenceRewound: _row(None, None, None, Cell(_rewound, (SUSPENDED,))),
    on.SequenceAdopted: _row(None, None, None, Cell(_adopted, (SUSPENDED,))),
}

TRANSITIONS: dict[LaneState, dict[type, Cell | None]] = {
    state: {event: row[state] for event, row in _ROWS.items()} for state in LaneState
}
"""Complete: a cell for every state and event. None: the event may not happen."""
