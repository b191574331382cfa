"""The Sender: the state machine of one link to a partner (000 §2.1.4, docs/spec/tables.md).

Theory of operation
===================

Rule 1: everything that decides what is sent, when, and under which number is in this package and
in `lane.py`. Nothing here knows a clock, a row, a socket, or who asks. Time is a parameter. This
file has the table and `step`; what a cell does is in `copies.py` (the message in flight and its
deadlines), `answers.py` (what the partner sends back) and `operators.py`.

A *lane* is the value of one link: its state, the message in flight, the next number, and one due
time. `step(lane, event, now=...)` returns the next lane and the effects that belong into the same
transaction (send a copy, open an incident, notify the From-Party). The caller locks the row, calls
`step`, writes the lane, its history and the effects, and commits. There is no other way to change
a lane.

States
------

IDLE       Nothing is in flight. A poll of the queue puts the first message in flight.
WAITING    One message is in flight. Either a copy waits for a worker (`unsent`), and `due` is the
           time from which it may go; or a copy was claimed, and `due` is the deadline of its
           Acknowledgement. A copy that is unsent may be `promised` to one worker: it has its
           attempt number, and any other worker may claim it only from `due` on.
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
   Or CopyPromised: the transaction that puts the message in flight gives the copy its attempt
   number, and a wake-up names it to one worker, which sends it without a transaction. AttemptBegun
   or the end of the attempt says that it did. If neither comes within a second, AttemptClaimed
   has a copy sent as the next attempt: a wake-up that is lost costs no retry, and the attempt of
   the worker that may have sent a copy stays open (D18).
3. AttemptTransmitted or AttemptFailed: the wait starts at the end of the attempt (D11). A 2xx
   completes nothing (D35). A failure of the transport waits RetryInterval instead of Timeout (D8).
4. DeadlinePassed: while retries remain, one is spent and the same bytes are sent again; after the
   last wait, the link is suspended (D4, D6): 1 + Retries copies in all.
5. AckReceived: the message is complete, and the queue is polled in the same transaction.

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
  copy, and if that is promised, that its time is over; a promise needs an unsent copy; a probe
  needs a message in flight and a suspension for silence; *reset retries* and *send now* need a
  message in flight; the verdict *not received* needs the proof that no byte was sent or that the
  partner lacks the message; a rewound message can only be cancelled as received, because those
  behind it keep their numbers; a reset of the numbers needs nothing in flight or in doubt.
* A probe is a copy beyond the budget: `retries_spent` is Retries + 1. It is not followed by a
  retry; an Acknowledgement or a TransientError in answer to it ends the suspension (D41).

What is refused raises IllegalTransition and changes nothing. `tests/protocol/` checks every cell by
hand, every arrow of the diagram in ARCHITECTURE.md, and the timeline to the second.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from msh.protocol import events as on
from msh.protocol.lane import Lane, LaneState
from msh.protocol.table import Cell, Row, apply, by_state, illegal

from . import answers, copies, operators
from .outcome import Outcome, stay

__all__ = ["TRANSITIONS", "Outcome", "step"]

IDLE, WAITING = LaneState.IDLE, LaneState.WAITING
TRANSIENT, SUSPENDED = LaneState.TRANSIENT, LaneState.SUSPENDED

_ANSWERS = (
    on.AckReceived,
    on.TransientErrorReceived,
    on.SequenceErrorReceived,
    on.ErrorReceived,
)

Handler = Callable[[Lane, Any, datetime], Outcome]


_Cell = Cell[LaneState]
_Row = Row[LaneState]


def step(before: Lane, event: on.SenderEvent, *, now: datetime) -> Outcome:
    """The lane after `event`, and the effects that belong into its transaction.

    Raises IllegalTransition, with nothing changed, for an event that may not happen in this state.
    """
    if isinstance(event, on.AttemptEvent) and not _is_latest(before, event):
        return before, ()  # written on its attempt, does nothing else, in every state
    cell = TRANSITIONS[before.state][type(event)]
    if cell is None or _names_another(before, event):
        raise illegal(before, event)
    return apply(cell, before, event, now)


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


def _row(
    idle: _Cell | None, waiting: _Cell | None, transient: _Cell | None, suspended: _Cell | None
) -> _Row:
    return {IDLE: idle, WAITING: waiting, TRANSIENT: transient, SUSPENDED: suspended}


def _in_every_state(handler: Handler) -> _Row:
    return {state: Cell(handler, (state,)) for state in LaneState}


_STAYS_SUSPENDED = Cell(stay, (SUSPENDED,))
_STAYS_IDLE = Cell(stay, (IDLE,))
_STAYS_TRANSIENT = Cell(stay, (TRANSIENT,))

_ROWS: dict[type, _Row] = {
    on.MessageSubmitted: _in_every_state(stay),
    on.LanePolled: _row(Cell(copies.put_in_flight, (IDLE, WAITING)), None, None, None),
    on.AttemptClaimed: _row(
        None, Cell(copies.claim, (WAITING,)), Cell(copies.claim_while_transient, (WAITING,)), None
    ),
    on.CopyPromised: _row(None, Cell(copies.promise, (WAITING,)), None, None),
    on.AttemptBegun: _row(
        _STAYS_IDLE, Cell(copies.begin, (WAITING,)), _STAYS_TRANSIENT, _STAYS_SUSPENDED
    ),
    on.AttemptTransmitted: _row(
        _STAYS_IDLE, Cell(copies.wait_for_answer, (WAITING,)), _STAYS_TRANSIENT, _STAYS_SUSPENDED
    ),
    on.AttemptFailed: _row(
        _STAYS_IDLE, Cell(copies.wait_for_retry, (WAITING,)), _STAYS_TRANSIENT, _STAYS_SUSPENDED
    ),
    on.AttemptRefused: _row(
        _STAYS_IDLE,
        Cell(copies.suspend_as_refused, (SUSPENDED,)),
        Cell(copies.suspend_as_refused, (SUSPENDED,)),
        _STAYS_SUSPENDED,
    ),
    on.AckReceived: _row(
        Cell(answers.count_duplicate_ack, (IDLE,)),
        Cell(answers.complete, (IDLE,)),
        Cell(answers.complete, (TRANSIENT,)),
        Cell(answers.complete_while_suspended, (IDLE, SUSPENDED)),
    ),
    on.AckOfOtherReceived: _in_every_state(answers.record_ack_of_other),
    on.AckOfUnknownReceived: _in_every_state(answers.note_ack_of_unknown),
    on.DeadlinePassed: _row(
        None,
        Cell(copies.retry_or_suspend, (WAITING, SUSPENDED)),
        Cell(copies.end_transient_wait, (IDLE, WAITING, TRANSIENT, SUSPENDED)),
        None,
    ),
    on.TransientErrorReceived: _row(
        _STAYS_IDLE,
        Cell(answers.wait_as_asked, (TRANSIENT, SUSPENDED)),
        Cell(answers.wait_as_asked, (TRANSIENT, SUSPENDED)),
        Cell(answers.note_transient_error, (SUSPENDED,)),
    ),
    on.SequenceErrorReceived: _row(
        Cell(answers.report_out_of_step, (IDLE,)),
        Cell(answers.suspend_out_of_step, (SUSPENDED,)),
        Cell(answers.suspend_out_of_step, (TRANSIENT, SUSPENDED)),
        Cell(answers.explain_out_of_step, (SUSPENDED,)),
    ),
    on.ErrorReceived: _row(
        Cell(answers.note_error, (IDLE,)),
        Cell(answers.suspend_for_error, (WAITING, SUSPENDED)),
        Cell(answers.suspend_for_error, (TRANSIENT, SUSPENDED)),
        Cell(answers.note_error, (SUSPENDED,)),
    ),
    on.ErrorForOtherReceived: _in_every_state(answers.note_error),
    on.ProbeDue: _row(None, None, None, Cell(copies.probe, (WAITING,))),
    on.OperatorResumed: _row(
        None, None, Cell(copies.end_wait, (IDLE, WAITING)), Cell(operators.resume, (IDLE, WAITING))
    ),
    on.RetriesReset: _row(
        None,
        Cell(operators.reset_retries, (WAITING,)),
        Cell(operators.reset_retries, (TRANSIENT,)),
        None,
    ),
    on.SendNowRequested: _row(
        None, Cell(operators.send_now, (WAITING,)), Cell(operators.send_now, (WAITING,)), None
    ),
    on.OperatorSuspended: _row(
        Cell(operators.suspend_by_operator, (SUSPENDED,)),
        Cell(operators.suspend_by_operator, (SUSPENDED,)),
        Cell(operators.suspend_by_operator, (SUSPENDED,)),
        None,
    ),
    on.MessageCancelled: _row(
        None,
        Cell(operators.cancel, (IDLE,)),
        Cell(operators.cancel, (TRANSIENT,)),
        Cell(operators.cancel, (SUSPENDED,)),
    ),
    on.SequenceReset: _row(
        Cell(operators.reset_numbers, (IDLE,)),
        None,
        None,
        Cell(operators.reset_numbers, (SUSPENDED,)),
    ),
    on.SequenceRewound: _row(None, None, None, Cell(operators.rewind, (SUSPENDED,))),
    on.SequenceAdopted: _row(None, None, None, Cell(operators.adopt_numbers, (SUSPENDED,))),
}

TRANSITIONS: dict[LaneState, dict[type, _Cell | None]] = by_state(_ROWS, LaneState)
"""Complete: a cell for every state and event. None: the event may not happen."""
