"""A conversation that we send in order: which message may start, and its number (EB-120 to EB-124).

BEGINNING   Nothing was sent. The next message gets number 0 with Reset.
CONFIRMING  The message with Reset is on its way. No other starts before it is acknowledged.
RUNNING     Messages start in the order of their submission, as many as the window has places.
STOPPED     A message of the conversation failed, is held, or will never be received. Those that are
            under way go on, no other starts. Other conversations do not notice.

The value belongs to one (agreement, ConversationId); its row is locked with the flight's. The
number is given when the message is composed, with the first claim; every copy keeps it. The
receiver holds what comes early, so retries need no order. Only the oldest message of a conversation
that has no number yet may start: one that is held before it has a number keeps back those behind
it, one that ends without a number leaves no hole.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import Verdict
from msh.protocol.table import Cell, Row, apply, by_state, illegal

from . import serial
from .serial import Order
from .value import Flight, FlightState


class NumberingState(StrEnum):
    BEGINNING = "beginning"
    CONFIRMING = "confirming"
    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Numbering:
    """`unconfirmed`: the message with Reset that is not acknowledged yet. `stopped_by`: the
    messages that failed or are held. `broken`: a number was given up, so that the partner would
    wait for it for ever."""

    next_number: int = serial.FIRST
    resets: bool = True
    unconfirmed: str = ""
    stopped_by: frozenset[str] = field(default=frozenset())
    broken: bool = False

    @property
    def state(self) -> NumberingState:
        if self.broken or self.stopped_by:
            return NumberingState.STOPPED
        if self.unconfirmed:
            return NumberingState.CONFIRMING
        return NumberingState.BEGINNING if self.resets else NumberingState.RUNNING

    @property
    def may_start(self) -> bool:
        return self.state in (NumberingState.BEGINNING, NumberingState.RUNNING)

    @property
    def order(self) -> Order:
        """MessageOrder of the next message."""
        return Order(self.next_number, self.resets)


@dataclass(frozen=True, slots=True)
class MessageStarted:
    """The next message of the conversation is composed, under `order`."""

    message_id: str


@dataclass(frozen=True, slots=True)
class MessageTaken:
    """The partner has it: it is acknowledged, or an operator says so."""

    message_id: str


@dataclass(frozen=True, slots=True)
class MessageStopped:
    """A message of the conversation failed, or is held."""

    message_id: str


@dataclass(frozen=True, slots=True)
class MessageResumed:
    """A message is sent again, under its number."""

    message_id: str


@dataclass(frozen=True, slots=True)
class MessageLost:
    """A message was cancelled, and the partner does not have it, or this is unknown."""

    message_id: str


@dataclass(frozen=True, slots=True)
class ConversationRestarted:
    """An operator restarts it with Reset. `outstanding`: messages of it that were sent and are
    neither acknowledged nor cancelled."""

    outstanding: int


@dataclass(frozen=True, slots=True)
class LastNumberSet:
    """An operator says which number was the last (`start-order --direction out --last N`)."""

    last: int
    outstanding: int


NumberingEvent = (
    MessageStarted
    | MessageTaken
    | MessageStopped
    | MessageResumed
    | MessageLost
    | ConversationRestarted
    | LastNumberSet
)
Outcome = tuple[Numbering, tuple[()]]


def step(before: Numbering, event: NumberingEvent) -> Numbering:
    """The conversation after `event`. Raises IllegalTransition for what may not happen."""
    cell = TRANSITIONS[before.state][type(event)]
    if cell is None:
        raise illegal(before, event)
    after, _ = apply(cell, before, event)
    return after


def event_of(
    before: Flight, after: Flight, verdict: Verdict | None = None
) -> NumberingEvent | None:
    """Return the conversation's event for a step of a flight; None if there is none. `verdict`: of
    the operator who cancelled the message."""
    if before.number is None or before.state is after.state:
        return None
    message_id = after.message_id
    match after.state:
        case FlightState.ACKNOWLEDGED:
            return MessageTaken(message_id)
        case FlightState.FAILED | FlightState.HELD:
            return MessageStopped(message_id)
        case FlightState.CANCELLED:
            received = verdict is Verdict.RECEIVED
            return MessageTaken(message_id) if received else MessageLost(message_id)
        case FlightState.READY if before.state is not FlightState.WAITING:
            return MessageResumed(message_id)
    return None


# --- the cells ----------------------------------------------------------------------------------


def _start(before: Numbering, event: MessageStarted) -> Outcome:
    return Numbering(
        next_number=serial.following(before.next_number),
        resets=False,
        unconfirmed=event.message_id if before.resets else "",
    ), ()


def _without(before: Numbering, message_id: str) -> Numbering:
    return replace(before, stopped_by=before.stopped_by - {message_id})


def _take(before: Numbering, event: MessageTaken) -> Outcome:
    after = _without(before, event.message_id)
    if event.message_id == before.unconfirmed:
        after = replace(after, unconfirmed="")
    return after, ()


def _stop(before: Numbering, event: MessageStopped) -> Outcome:
    return replace(before, stopped_by=before.stopped_by | {event.message_id}), ()


def _resume(before: Numbering, event: MessageResumed) -> Outcome:
    return _without(before, event.message_id), ()


def _lose(before: Numbering, event: MessageLost) -> Outcome:
    return replace(_without(before, event.message_id), broken=True), ()


def _restart(before: Numbering, event: ConversationRestarted) -> Outcome:
    _check_accounted_for(before, event, event.outstanding)
    return Numbering(), ()


def _set_last(before: Numbering, event: LastNumberSet) -> Outcome:
    _check_accounted_for(before, event, event.outstanding)
    return Numbering(serial.following(event.last), resets=False), ()


def _check_accounted_for(before: Numbering, event: object, outstanding: int) -> None:
    if outstanding:
        raise IllegalTransition(
            "1 message of the conversation is neither acknowledged nor cancelled"
            if outstanding == 1
            else f"{outstanding} messages of the conversation are neither acknowledged nor"
            " cancelled",
            type(event).__name__,
        )


_BEGINNING, _CONFIRMING = NumberingState.BEGINNING, NumberingState.CONFIRMING
_RUNNING, _STOPPED = NumberingState.RUNNING, NumberingState.STOPPED


def _to(handler: Callable[..., Any], *targets: NumberingState) -> Cell[NumberingState]:
    return Cell(handler, targets)


def _begun(
    confirming: Cell[NumberingState], running: Cell[NumberingState], stopped: Cell[NumberingState]
) -> Row[NumberingState]:
    """Before the first message, none can end."""
    return {_BEGINNING: None, _CONFIRMING: confirming, _RUNNING: running, _STOPPED: stopped}


_ROWS: dict[type, Row[NumberingState]] = {
    MessageStarted: {
        _BEGINNING: _to(_start, _CONFIRMING),
        _CONFIRMING: None,
        _RUNNING: _to(_start, _RUNNING),
        _STOPPED: None,
    },
    MessageTaken: _begun(
        _to(_take, _CONFIRMING, _RUNNING),
        _to(_take, _RUNNING),
        _to(_take, _RUNNING, _STOPPED),
    ),
    MessageStopped: _begun(*(_to(_stop, _STOPPED),) * 3),
    MessageResumed: _begun(
        _to(_resume, _CONFIRMING),
        _to(_resume, _RUNNING),
        _to(_resume, _CONFIRMING, _RUNNING, _STOPPED),
    ),
    MessageLost: _begun(*(_to(_lose, _STOPPED),) * 3),
    ConversationRestarted: {
        _BEGINNING: None,
        _CONFIRMING: None,
        _RUNNING: _to(_restart, _BEGINNING),
        _STOPPED: _to(_restart, _BEGINNING),
    },
    LastNumberSet: {
        _BEGINNING: _to(_set_last, _RUNNING),
        _CONFIRMING: None,
        _RUNNING: _to(_set_last, _RUNNING),
        _STOPPED: _to(_set_last, _RUNNING),
    },
}

TRANSITIONS = by_state(_ROWS, NumberingState)
"""Complete: a cell for every state and event. None: the event may not happen."""
