"""The Receiver's table: what happens to a OnceAndOnlyOnce message (docs/spec/tables.md)."""

from dataclasses import dataclass, replace
from enum import StrEnum

from . import effects as do
from . import sequence
from .admission import Postponed, Shortage
from .errors import IllegalTransition
from .kinds import IncidentKind, OnUnexpectedFirst
from .message import Field
from .vocabulary import ErrorCode


class Known(StrEnum):
    """Is the MessageId known for this pair? It is asked before the number (D1)."""

    NO = "no"
    SAME = "same content"
    WITHHELD = "its Ack withheld"
    OTHER = "other content"


class Position(StrEnum):
    """The position of a SequenceNumber relative to L, the last one accepted on the pair."""

    NEXT = "next(L), or 1 without L"
    ONE_AGAIN = "1, and L = 1"
    ONE = "1, L neither 1 nor 999,999,999"
    LAST = "= L"
    GAP = "> next(L)"
    STALE = "< L"


class Ruling(StrEnum):
    """One cell of the table."""

    ACCEPT = "accept"
    ACCEPT_RESET = "accept as the peer's reset"
    AS_AGREED = "accept, hold or refuse as the agreement says"
    DUPLICATE = "Ack again, count, discard"
    WITHHOLD = "TransientError"
    REUSED = "MessageIdReused"
    CONFLICT = "SequenceConflict"
    GAP = "SequenceGap"
    STALE = "SequenceStale"


_WHEN_UNKNOWN = {
    Position.NEXT: Ruling.ACCEPT,
    Position.ONE_AGAIN: Ruling.ACCEPT_RESET,  # 000 §5.2, the draft's own special case
    Position.ONE: Ruling.AS_AGREED,
    Position.LAST: Ruling.CONFLICT,  # D2
    Position.GAP: Ruling.GAP,
    Position.STALE: Ruling.STALE,
}

TABLE: dict[Known, dict[Position, Ruling]] = {
    Known.NO: _WHEN_UNKNOWN,
    Known.SAME: dict.fromkeys(Position, Ruling.DUPLICATE),
    Known.WITHHELD: dict.fromkeys(Position, Ruling.WITHHOLD),
    Known.OTHER: dict.fromkeys(Position, Ruling.REUSED),  # D45
}


@dataclass(frozen=True, slots=True)
class ReceivingLink:
    """`last_number` is L: None before the first message. `reset_allowed`: an operator has let the
    next number 1 in."""

    last_number: int | None = None
    epoch: int = 1
    reset_allowed: bool = False


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """A reliable message that was read and belongs to the pair and an agreement of it."""

    message_id: str
    sequence_number: int
    known: Known
    on_unexpected_first: OnUnexpectedFirst = OnUnexpectedFirst.ACCEPT
    postponed: Postponed | None = None
    """Why nothing new is taken of the partner now."""


Outcome = tuple[ReceivingLink, tuple[do.ReceiverEffect, ...]]


def expected_after(last: int | None) -> int:
    return sequence.FIRST if last is None else sequence.following(last)


def position(last: int | None, number: int) -> Position:
    if number == expected_after(last):
        return Position.NEXT
    if number == sequence.FIRST:
        return Position.ONE_AGAIN if last == sequence.FIRST else Position.ONE
    if number == last:
        return Position.LAST
    if last is None or number > sequence.following(last):  # without L: D50
        return Position.GAP
    return Position.STALE


def step(before: ReceivingLink, event: MessageArrived) -> Outcome:
    """The pair after this copy, and what is to be stored, answered and reported."""
    where = position(before.last_number, event.sequence_number)
    ruling = TABLE[event.known][where]
    if ruling is Ruling.AS_AGREED:
        ruling = _as_agreed(before, event)
        if ruling is Ruling.WITHHOLD:
            return before, _held(event)
    if ruling in (Ruling.ACCEPT, Ruling.ACCEPT_RESET):
        if event.postponed is not None:
            return before, told_to_wait(event.message_id, event.postponed)
        return _accepted(before, event, ruling)
    return before, _not_accepted(before, event, ruling)


def _as_agreed(link: ReceivingLink, event: MessageArrived) -> Ruling:
    if link.reset_allowed or event.on_unexpected_first is OnUnexpectedFirst.ACCEPT:
        return Ruling.ACCEPT_RESET
    if event.on_unexpected_first is OnUnexpectedFirst.HOLD:
        return Ruling.WITHHOLD
    return Ruling.STALE


def _accepted(link: ReceivingLink, event: MessageArrived, ruling: Ruling) -> Outcome:
    number, last = event.sequence_number, link.last_number
    starts_again = last is not None and number == sequence.FIRST
    epoch = link.epoch + 1 if starts_again else link.epoch
    after = ReceivingLink(number, epoch, link.reset_allowed and number != sequence.FIRST)
    effects: tuple[do.ReceiverEffect, ...] = (do.Accept(number, epoch), do.QueueAck())
    if ruling is Ruling.ACCEPT_RESET:
        note = f"the partner restarted its numbers at 1; the last accepted number was {last}"
        effects = (*effects, do.Note(event.message_id, note))
    return after, effects


_ALARMS = {
    Shortage.STORE: IncidentKind.STORE_SHORT,
    Shortage.BACKLOG: IncidentKind.BACKLOG,
}
"""The shortages that operators are notified of. A partner that exceeds its rate slows down by
itself."""


def told_to_wait(message_id: str, why: Postponed) -> tuple[do.QueueError | do.OpenIncident, ...]:
    """Nothing is stored; the Sender waits and spends no retry (000 §4.2)."""
    error = do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, why.text, why.wait)
    if why.shortage not in _ALARMS:
        return (error,)
    return (error, do.OpenIncident(_ALARMS[why.shortage], message_id, why.text))


def _held(event: MessageArrived) -> tuple[do.ReceiverEffect, ...]:
    text = (
        "number 1 was not expected: it is not stored, and has to be sent again, until an operator"
        " allows the reset"
    )
    return (
        do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.SEQUENCE_NUMBER, text),
        do.OpenIncident(IncidentKind.RESET_HELD, event.message_id, text),
    )


def _not_accepted(
    link: ReceivingLink, event: MessageArrived, ruling: Ruling
) -> tuple[do.ReceiverEffect, ...]:
    if ruling is Ruling.DUPLICATE:
        return (do.CountDuplicate(), do.QueueAck())
    if ruling is Ruling.WITHHOLD:
        return withheld()
    if ruling is Ruling.REUSED:
        return reused(event.message_id)
    code, field, kind = _REFUSALS[ruling]
    text = _explained(link, event, ruling)
    return (do.QueueError(code, field, text), do.OpenIncident(kind, event.message_id, text))


def withheld() -> tuple[do.ReceiverEffect, ...]:
    """A further copy of a message whose Ack waits for the next MSH's (D20)."""
    text = "stored, but not acknowledged by the next MSH yet"
    return (do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, text),)


_REFUSALS = {
    Ruling.CONFLICT: (
        ErrorCode.SEQUENCE_CONFLICT,
        Field.SEQUENCE_NUMBER,
        IncidentKind.SEQUENCE_CONFLICT,
    ),
    Ruling.GAP: (ErrorCode.SEQUENCE_GAP, Field.SEQUENCE_NUMBER, IncidentKind.SEQUENCE_GAP),
    Ruling.STALE: (
        ErrorCode.SEQUENCE_STALE,
        Field.SEQUENCE_NUMBER,
        IncidentKind.SEQUENCE_STALE,
    ),
}


def _explained(link: ReceivingLink, event: MessageArrived, ruling: Ruling) -> str:
    number, last = event.sequence_number, link.last_number
    if ruling is Ruling.CONFLICT:
        return f"number {number} was accepted before for another MessageId"
    if ruling is Ruling.STALE:
        return f"number {number} is not above the last accepted, {last}, and its MessageId is new"
    expected = expected_after(last)
    missing = f"{expected}" if expected == number - 1 else f"{expected} to {number - 1}"
    return f"number {number} came, {missing} missing: expected {expected}"


def best_effort(
    message_id: str, known: Known, postponed: Postponed | None = None
) -> tuple[do.ReceiverEffect, ...]:
    """Return the effects of a BestEffort message: it is never acknowledged, and stored once (D5,
    D22)."""
    if known is Known.NO:
        if postponed is not None:
            return told_to_wait(message_id, postponed)
        return (do.Accept(None, None),)
    return reused(message_id) if known is Known.OTHER else (do.CountDuplicate(),)


def reused(message_id: str) -> tuple[do.QueueError, do.OpenIncident]:
    """A known MessageId with other content (D45)."""
    text = f"MessageId {message_id} was accepted before with other content"
    error = do.QueueError(ErrorCode.MESSAGE_ID_REUSED, Field.MESSAGE_ID, text)
    return error, do.OpenIncident(IncidentKind.MESSAGE_ID_REUSED, message_id, text)


def allow_reset(link: ReceivingLink) -> ReceivingLink:
    if link.last_number is None or link.reset_allowed:
        raise IllegalTransition("reset allowed" if link.reset_allowed else "unused", "ResetAllowed")
    return replace(link, reset_allowed=True)


def given_up(last: int | None, number: int) -> int:
    """Return the count of numbers that are given up if `number` is taken next; 0 if it is the next
    one anyway, or not ahead of the last one accepted."""
    expected = expected_after(last)
    if last is not None and not sequence.is_ahead(number, expected):
        return 0
    return (number - expected) % sequence.LAST


def ended_run(before: ReceivingLink, after: ReceivingLink) -> int:
    """The last number of a run of numbers that ended before 999,999,999 with this step; 0 if none
    did. Ids of such a run could be new again until the next run has passed it (D39)."""
    if after.epoch == before.epoch or before.last_number in (None, sequence.LAST):
        return 0
    return before.last_number or 0


def expect(link: ReceivingLink, number: int) -> ReceivingLink:
    """An operator says which number comes next: those before it are given up as lost. It only
    goes ahead: what was accepted is not taken once more."""
    if not given_up(link.last_number, number):
        raise IllegalTransition(f"last accepted {link.last_number}", f"NumberExpected({number})")
    return ReceivingLink(sequence.preceding(number), link.epoch + 1)
