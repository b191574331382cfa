"""Flight: the state machine of one reliable ebMS 2.0 message on its way (EB-078 to EB-092).

Theory of operation
===================

The draft has one message in flight for each pair, and its lane decides everything. ebMS 2.0 has any
number of them, and nothing orders those of different conversations. So there is a machine for each
message. As in the Sender, everything that decides what is sent, and when, is in this package;
nothing here knows a clock, a row, a socket, or who asks. Events, effects, terms and kinds of
incidents are those of the Sender where they mean the same.

A *flight* is the value of one message: its state, its copies, one due time and the ends of its
life. `step(flight, event, now=...)` returns the next flight and the effects that belong into the
same transaction. The caller locks the row, calls `step`, writes the flight, its history and the
effects, and commits. There is no other way to change a flight.

Three values stand beside it, each with a step of its own:

* `gate.py`: the partner. Whether copies may leave, how many messages may be under way (the window),
  and the breaker that stops everything while the partner cannot be reached.
* `numbering.py`: a conversation that we send in order. Which message may start, and its number.
* `conversation.py`: a conversation that we receive in order. What is delivered, held or refused.
  `arrival.py` is what happens before: duplicates, and messages without order.

States
------

READY         A copy waits for a worker, for a place in the window, or for the partner to answer
              again. `due` is the time since when it may go.
WAITING       A copy was claimed. `due` is the deadline of its Acknowledgment.
HELD          No copy is sent until an operator says so. There is no due time.
ACKNOWLEDGED  The partner has stored it. Never left.
FAILED        Nothing more is sent. An Acknowledgment may still come, and counts.
CANCELLED     By an operator, who said what became of it.

The last three are those of a message whose flight is gone: a caller that deletes the row builds the
flight from the message.

The life of one message
-----------------------

1. It begins READY, with `due` the time of its submission.
2. AttemptClaimed: a worker takes a copy, which counts against the budget of 1 + Retries. The first
   claim composes the message: its TimeToLive and its PersistDuration begin. If it is certain that
   not a byte of it has left (the connection was refused), they begin with the next claim. `due`
   moves to the end of the HTTP attempt plus RetryInterval, in the transaction of the claim, so that
   a worker that dies after it needs no recovery.
3. AttemptTransmitted or AttemptFailed: RetryInterval starts at the end of the attempt, or
   Retry-After if that is longer. A 2xx completes nothing. A 429 or 503 with Retry-After gives the
   retry back: the partner asks to wait, at most as often as TransientErrors are granted (D10).
4. DeadlinePassed: READY again while the budget lasts. The retry is spent when it is claimed, so a
   flight that cannot be claimed keeps its retries.
5. AckReceived: ACKNOWLEDGED, whatever happened before, unless it was cancelled.

The budget is spent
-------------------

The agreement says what happens: FAILED with DeliveryFailure, or HELD for an operator. But if no
copy of this budget came through, and nothing else did since the first of them, it is the partner
that cannot be reached: the flight asks for the gate to be suspended (ReportUnreachable) and waits,
READY with fresh retries. Without the second condition one message that the partner's front end
answers 502, and only that one, would stop all others again and again.

A probe is a copy to a partner that is suspended so. It spends no retry.

What the table does not show
----------------------------

* An event of an attempt that is not the latest one does nothing, in every state (`_is_latest`).
* An event that names another message is refused: answers are looked up by RefToMessageId first.
* After PersistDuration the same MessageId is not sent again, not by an operator either; after
  TimeToLive the message has failed (EB-083, EB-084). What asks for a copy is refused then, with the
  reason.
* A failed message of an ordered conversation may be sent again or cancelled by an operator: until
  then its conversation stands still (EB-124). Without a number a failure is final.
* The verdict *not received* needs the proof that no byte was sent.
* A due time farther away than any wait of the message counts as passed: the clock was set back
  (D13).

What is refused raises IllegalTransition and changes nothing. `tests/protocol/flight/` checks every
cell by hand, every arrow of the diagram in docs/ebms2-flight.md, the timeline to the second, and
two MSHs over a link that loses, repeats, delays and reorders.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from msh.protocol import events as on
from msh.protocol.table import Cell, Row, apply, by_state, illegal

from . import answers, copies, operators
from .events import DeadlinePassed, Expired, FlightEvent, ProbeClaimed
from .outcome import Outcome, stay
from .value import Flight, FlightState, FlightTerms, OnSilence

__all__ = [
    "TRANSITIONS",
    "DeadlinePassed",
    "Expired",
    "Flight",
    "FlightEvent",
    "FlightState",
    "FlightTerms",
    "OnSilence",
    "Outcome",
    "ProbeClaimed",
    "step",
]

READY, WAITING, HELD = FlightState.READY, FlightState.WAITING, FlightState.HELD
ACKNOWLEDGED, FAILED = FlightState.ACKNOWLEDGED, FlightState.FAILED
CANCELLED = FlightState.CANCELLED

_Cell = Cell[FlightState]
_Row = Row[FlightState]
_Handler = Callable[[Flight, Any, datetime], Outcome]


def step(before: Flight, event: FlightEvent, *, now: datetime) -> Outcome:
    """The flight after `event`, and the effects that belong into its transaction.

    Raises IllegalTransition, with nothing changed, for an event that may not happen in this state.
    """
    if isinstance(event, on.AttemptEvent) and not _is_latest(before, event):
        return before, ()  # written on its attempt, does nothing else, in every state
    cell = TRANSITIONS[before.state][type(event)]
    if cell is None or _names_another(before, event):
        raise illegal(before, event)
    return apply(cell, before, event, now)


def _is_latest(flight: Flight, event: on.AttemptEvent) -> bool:
    return (flight.message_id, flight.attempt) == (event.message_id, event.attempt)


def _names_another(flight: Flight, event: FlightEvent) -> bool:
    """True for an answer that is passed off as one to this message (EB-086)."""
    return (
        isinstance(event, on.AckReceived | on.ErrorReceived)
        and flight.message_id != event.message_id
    )


def _row(
    ready: _Cell | None = None,
    waiting: _Cell | None = None,
    held: _Cell | None = None,
    **gone: _Cell | None,
) -> _Row:
    return {READY: ready, WAITING: waiting, HELD: held} | {
        state: gone.get(state.value) for state in (ACKNOWLEDGED, FAILED, CANCELLED)
    }


def _to(handler: _Handler, *targets: FlightState) -> _Cell:
    return Cell(handler, targets)


_SAME = {state: Cell(stay, (state,)) for state in FlightState}
_GONE = {state.value: _SAME[state] for state in (ACKNOWLEDGED, FAILED, CANCELLED)}
_NOTED = {state.value: _to(answers.note_error, state) for state in (FAILED, CANCELLED)}
_FAILED_AGAIN = {"failed": _to(operators.send_again, READY)}

_ROWS: dict[type, _Row] = {
    on.AttemptClaimed: _row(_to(copies.claim, WAITING), **_GONE),
    ProbeClaimed: _row(_to(copies.probe, WAITING), **_GONE),
    on.AttemptTransmitted: _row(
        _to(copies.note_transmitted, READY),
        _to(copies.wait_for_ack, WAITING),
        _to(copies.note_transmitted, HELD),
        **_GONE,
    ),
    on.AttemptFailed: _row(
        _to(copies.note_failed, READY),
        _to(copies.wait_for_retry, WAITING),
        _to(copies.note_failed, HELD),
        **_GONE,
    ),
    on.AttemptRefused: _row(
        _to(copies.fail_as_refused, FAILED),
        _to(copies.fail_as_refused, FAILED),
        _to(copies.fail_as_refused, FAILED),
        **_GONE,
    ),
    DeadlinePassed: _row(
        None, _to(copies.retry_or_give_up, READY, WAITING, HELD, FAILED), None, **_GONE
    ),
    Expired: _row(
        _to(copies.expire_before_it_is_sent, READY, HELD, FAILED),
        _to(copies.expire, WAITING, FAILED),
        _to(copies.expire, HELD, FAILED),
        **_GONE,
    ),
    on.AckReceived: _row(
        _to(answers.complete, ACKNOWLEDGED),
        _to(answers.complete, ACKNOWLEDGED),
        _to(answers.complete, ACKNOWLEDGED),
        acknowledged=_to(answers.count_duplicate_ack, ACKNOWLEDGED),
        failed=_to(answers.complete_late, ACKNOWLEDGED),
        cancelled=_to(answers.record_late_verdict, CANCELLED),
    ),
    on.ErrorReceived: _row(
        _to(answers.fail_for_error, READY, FAILED),
        _to(answers.fail_for_error, WAITING, FAILED),
        _to(answers.fail_for_error, HELD, FAILED),
        acknowledged=_to(answers.tell_after_acknowledgment, ACKNOWLEDGED),
        **_NOTED,
    ),
    on.OperatorSuspended: _row(_to(operators.suspend, HELD), _to(operators.suspend, HELD)),
    on.OperatorResumed: _row(None, None, _to(operators.resume, READY), **_FAILED_AGAIN),
    on.RetriesReset: _row(
        _to(operators.reset_retries, READY),
        _to(operators.reset_retries, WAITING),
        _to(operators.resume, READY),
    ),
    on.SendNowRequested: _row(
        _to(operators.send_ready_now, READY),
        _to(operators.send_now, READY),
        _to(operators.send_now, READY),
    ),
    on.MessageCancelled: _row(
        _to(operators.cancel, CANCELLED),
        _to(operators.cancel, CANCELLED),
        _to(operators.cancel, CANCELLED),
        failed=_to(operators.cancel_failed, CANCELLED),
    ),
}

TRANSITIONS: dict[FlightState, dict[type, _Cell | None]] = by_state(_ROWS, FlightState)
"""Complete: a cell for every state and event. None: the event may not happen."""
