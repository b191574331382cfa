"""A conversation that we receive in order: what is delivered, held or refused (EB-120 to EB-134).

The value of one (agreement, ConversationId). It is asked for messages whose agreement is ordered;
other conversations, and messages without order, are not its matter: they never wait for it.

A message whose number is not the next one is stored, acknowledged and held. `due` is the time at
which an operator is called for the number that lacks: there is no hold without it, or without an
open incident. What was held is released in the order of its numbers, in the transaction of the
message that fills the hole.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from msh.protocol import effects as do
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import IncidentKind
from msh.protocol.message import Field
from msh.protocol.receiver import Known
from msh.protocol.vocabulary import ErrorCode

from . import arrival, serial
from .arrival import MessageArrived, Terms
from .serial import Order

HELD_LIMIT = 100
"""So many messages of a conversation may be held (EB-131)."""
UNDELIVERED_WAIT = 30
"""Seconds after which a Reset may be sent again that comes before all is delivered."""


class Position(StrEnum):
    """The position of a message's number relative to the next number of its conversation."""

    NEXT = "next, or 0 with Reset at the beginning"
    AHEAD = "higher; at the beginning all but 0 with Reset"
    HELD = "held under another MessageId"
    BEHIND = "lower"
    RESET = "0 with Reset, nothing held"
    RESET_HELD = "0 with Reset, some held"
    MISNUMBERED = "not 0 with Reset"


class Ruling(StrEnum):
    """One cell of the table."""

    ACCEPT = "accept, release what follows"
    HOLD = "hold, call an operator after the horizon"
    RESTART = "accept, start anew, incident"
    DUPLICATE = "first answer again, count, discard"
    WITHHOLD = "TransientError"
    REUSED = "MessageIdReused"
    CONFLICT = "SequenceConflict"
    STALE = "SequenceStale"
    OBSTRUCTED = "Inconsistent, judged anew when it comes again"
    MISNUMBERED = "Inconsistent"


_WHEN_UNKNOWN = {
    Position.NEXT: Ruling.ACCEPT,
    Position.AHEAD: Ruling.HOLD,
    Position.HELD: Ruling.CONFLICT,
    Position.BEHIND: Ruling.STALE,
    Position.RESET: Ruling.RESTART,
    Position.RESET_HELD: Ruling.OBSTRUCTED,
    Position.MISNUMBERED: Ruling.MISNUMBERED,
}

TABLE: dict[Known, dict[Position, Ruling]] = {
    Known.NO: _WHEN_UNKNOWN,
    Known.SAME: dict.fromkeys(Position, Ruling.DUPLICATE),
    Known.WITHHELD: dict.fromkeys(Position, Ruling.WITHHOLD),
    Known.OTHER: dict.fromkeys(Position, Ruling.REUSED),
}


_KNOWN = frozenset({Ruling.DUPLICATE, Ruling.WITHHOLD, Ruling.REUSED})


@dataclass(frozen=True, slots=True)
class Conversation:
    """`next_number` is None before the first message was delivered. `held` are the numbers of the
    messages that wait for one before them; `due` is when an operator is called for it."""

    next_number: int | None = None
    held: frozenset[int] = frozenset()
    due: datetime | None = None
    called: bool = False

    @property
    def lacks(self) -> int:
        """The number that comes next."""
        return serial.FIRST if self.next_number is None else self.next_number

    @property
    def in_order(self) -> tuple[int, ...]:
        """The held numbers, the lowest first."""
        return tuple(sorted(self.held, key=lambda number: serial.distance(number, self.lacks)))


Outcome = tuple[Conversation, tuple[do.ConversationEffect, ...]]


def position(before: Conversation, order: Order) -> Position:
    begun = before.next_number is not None
    if order.resets and order.number != serial.FIRST:
        return Position.MISNUMBERED
    if order.resets and begun:
        return Position.RESET_HELD if before.held else Position.RESET
    if order.number in before.held:
        return Position.HELD
    if order.number == before.lacks and (begun or order.resets):
        return Position.NEXT
    if begun and serial.is_behind(order.number, before.lacks):
        return Position.BEHIND
    return Position.AHEAD


def step(
    before: Conversation, event: MessageArrived, order: Order, terms: Terms, *, now: datetime
) -> Outcome:
    """The conversation after this copy, and what is to be stored, delivered and answered.

    In the order of EB-065: a copy of a known message first, then the agreement's terms and
    TimeToLive, the order, our own limits.
    """
    ruling = TABLE[event.known][position(before, order)]
    if ruling in _KNOWN:
        return before, arrival.of_known(event)
    if answer := arrival.refused(event, terms) or _not_in_order(before, event, order, ruling):
        return before, answer
    if later := arrival.not_now(event):
        return before, later
    return _TAKEN[ruling](before, event, order, now + timedelta(seconds=terms.horizon))


# --- what is taken ------------------------------------------------------------------------------


def _accept(before: Conversation, event: MessageArrived, order: Order, due: datetime) -> Outcome:
    after, effects = _advance(replace(before, next_number=serial.following(order.number)), due)
    return after, (do.Accept(order.number, None), *event.acknowledgement, *effects)


def _hold(before: Conversation, event: MessageArrived, order: Order, due: datetime) -> Outcome:
    after = replace(before, held=before.held | {order.number})
    if before.due is None and not before.called:
        after = replace(after, due=due)
    return after, (do.Hold(order.number), *event.acknowledgement)


def _restart(before: Conversation, event: MessageArrived, order: Order, due: datetime) -> Outcome:
    after, effects = _accept(before, event, order, due)
    detail = f"the partner restarted the conversation; number {before.lacks} was expected"
    incident = do.OpenIncident(IncidentKind.ORDER_RESTARTED, event.message_id, detail)
    return after, (*effects, incident)


_TAKEN: dict[Ruling, Callable[[Conversation, MessageArrived, Order, datetime], Outcome]] = {
    Ruling.ACCEPT: _accept,
    Ruling.HOLD: _hold,
    Ruling.RESTART: _restart,
}


def _advance(conversation: Conversation, due: datetime) -> Outcome:
    """Release what follows without a hole. A hole behind it has its own time from now on."""
    released, number = [], conversation.lacks
    while number in conversation.held:
        released.append(number)
        number = serial.following(number)
    held = conversation.held - set(released)
    after = Conversation(number, held, due if held else None)
    effects: tuple[do.ConversationEffect, ...] = ()
    if released:
        effects = (do.Release(tuple(released)),)
    if conversation.called:
        effects = (*effects, do.ResolveIncident(IncidentKind.PREDECESSOR_MISSING))
    return after, effects


# --- what is refused ----------------------------------------------------------------------------


def _not_in_order(
    before: Conversation, event: MessageArrived, order: Order, ruling: Ruling
) -> tuple[do.ConversationEffect, ...]:
    if ruling in _REFUSALS:
        return _REFUSALS[ruling](before, order)
    if ruling is Ruling.HOLD and len(before.held) >= HELD_LIMIT:
        return (_beyond_the_limit(before),)
    if ruling is Ruling.RESTART and event.undelivered:
        return (_not_delivered_yet(),)
    return ()


def _stale(before: Conversation, order: Order) -> tuple[do.ConversationEffect, ...]:
    text = (
        f"number {order.number} is below the next number, {before.lacks}, and its MessageId is"
        " unknown"
    )
    return arrival.refusal(ErrorCode.SEQUENCE_STALE, text)


def _conflict(before: Conversation, order: Order) -> tuple[do.ConversationEffect, ...]:
    text = f"number {order.number} was accepted before for another MessageId"
    return arrival.refusal(ErrorCode.SEQUENCE_CONFLICT, text)


def _misnumbered(before: Conversation, order: Order) -> tuple[do.ConversationEffect, ...]:
    return arrival.refusal(
        ErrorCode.INCONSISTENT, f"Reset requires number 0, but the number is {order.number}"
    )


def _obstructed(before: Conversation, order: Order) -> tuple[do.ConversationEffect, ...]:
    text = f"Reset is not possible while {_waiting(before)}"
    return (do.QueueError(ErrorCode.INCONSISTENT, Field.SEQUENCE_NUMBER, text),)


_REFUSALS: dict[Ruling, Callable[[Conversation, Order], tuple[do.ConversationEffect, ...]]] = {
    Ruling.STALE: _stale,
    Ruling.CONFLICT: _conflict,
    Ruling.MISNUMBERED: _misnumbered,
    Ruling.OBSTRUCTED: _obstructed,
}
"""The refusal of each ruling. Refusals that depend on what is held now are not kept: the same bytes
may be taken later."""


def _beyond_the_limit(before: Conversation) -> do.QueueError:
    text = f"{_waiting(before)} already: send that one first"
    return do.QueueError(ErrorCode.DELIVERY_FAILURE, Field.SEQUENCE_NUMBER, text)


def _waiting(before: Conversation) -> str:
    held = len(before.held)
    return f"{held} message{' waits' if held == 1 else 's wait'} for number {before.lacks}"


def _not_delivered_yet() -> do.QueueError:
    text = "messages of the conversation before Reset are not delivered yet; send this later"
    return do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.SEQUENCE_NUMBER, text, UNDELIVERED_WAIT)


# --- time and operators -------------------------------------------------------------------------


def hole_is_due(before: Conversation, horizon: int, *, now: datetime) -> Outcome:
    """Call an operator for the missing number, if it is time (EB-130, EB-132). A time farther away
    than two horizons has come: the clock was set back (D13)."""
    if before.due is None or now < before.due <= now + timedelta(seconds=2 * horizon):
        return before, ()
    detail = f"number {before.lacks} is missing: {_waiting(before)}"
    incident = do.OpenIncident(IncidentKind.PREDECESSOR_MISSING, "", detail)
    return replace(before, due=None, called=True), (incident,)


def extend_wait(before: Conversation, horizon: int, *, now: datetime) -> Outcome:
    """An operator waits for the number once more, as long as before."""
    _check_held(before, "WaitExtended")
    after = replace(before, due=now + timedelta(seconds=horizon), called=False)
    return after, (do.ResolveIncident(IncidentKind.PREDECESSOR_MISSING),) if before.called else ()


def skip(before: Conversation, horizon: int, *, now: datetime) -> Outcome:
    """An operator delivers past the hole: at the lowest number that is held (EB-130, EB-132)."""
    _check_held(before, "HoleSkipped")
    return expect(before, before.in_order[0], horizon, now=now)


def drop(before: Conversation) -> Outcome:
    """An operator gives the held messages up, so that the partner can restart the conversation."""
    _check_held(before, "HeldDropped")
    effects: tuple[do.ConversationEffect, ...] = (do.Drop(before.in_order),)
    if before.called:
        effects = (*effects, do.ResolveIncident(IncidentKind.PREDECESSOR_MISSING))
    return Conversation(before.next_number), effects


def expect(before: Conversation, number: int, horizon: int, *, now: datetime) -> Outcome:
    """An operator says which number comes next (`start-order --direction in`: the last plus one).
    Only ahead, once the conversation has begun. What is held below it is delivered first."""
    if before.next_number is not None and (
        number == before.lacks or serial.is_behind(number, before.lacks)
    ):
        raise IllegalTransition(f"next number {before.lacks}", f"NumberExpected({number})")
    below = tuple(one for one in before.in_order if serial.is_behind(one, number))
    moved = replace(before, next_number=number, held=before.held - set(below))
    after, effects = _advance(moved, now + timedelta(seconds=horizon))
    return after, ((do.Release(below),) if below else ()) + effects


def _check_held(conversation: Conversation, event: str) -> None:
    if not conversation.held:
        raise IllegalTransition("nothing is held", event)
