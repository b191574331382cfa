"""Decisions about an ebMS message that arrives, up to its order: duplicates, the first answer,
shortage, TimeToLive (EB-093 to EB-114).

`Known` and the inner language of errors are those of the draft's Receiver: the dialect writes
MessageIdReused and the codes of numbers as Inconsistent, and answers TransientError with HTTP 503.
"""

from dataclasses import dataclass

from msh.protocol import effects as do
from msh.protocol import receiver
from msh.protocol.admission import Postponed
from msh.protocol.message import Field
from msh.protocol.receiver import Known
from msh.protocol.vocabulary import ErrorCode

from .serial import Order

BUSY_WAIT = 5
"""Seconds after which a copy may be sent again whose first answer is still being made."""

Effects = tuple[do.ConversationEffect, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of an ebMS agreement for messages that we receive. `horizon`: seconds that a hole
    may stay before an operator is called, the partner's RetryInterval x (Retries + 1)."""

    ordered: bool = False
    lenient_order: bool = False
    horizon: int = 0


@dataclass(frozen=True, slots=True)
class MessageArrived:
    """A message that was read, and that belongs to a partner and an agreement of its.

    `known`: WITHHELD while the first answer is still being made. `answered_by_error`: the first
    answer of the known message was an Error. `expired`: its TimeToLive is over. `postponed`: why
    nothing new is taken now. `asks_ack`, `eliminates`, `asks_sync`: AckRequested,
    DuplicateElimination and SyncReply stand in its header. `undelivered`: messages of its
    conversation still wait for their consumer. `refers_to_unknown`: its RefToMessageId is that of
    no message that we know, and the agreement minds.
    """

    message_id: str
    known: Known = Known.NO
    asks_ack: bool = True
    eliminates: bool = True
    asks_sync: bool = False
    order: Order | None = None
    answered_by_error: bool = False
    expired: bool = False
    postponed: Postponed | None = None
    undelivered: bool = False
    refers_to_unknown: bool = False

    @property
    def acknowledgement(self) -> tuple[do.QueueAck, ...]:
        """EB-094."""
        return (do.QueueAck(),) if self.asks_ack else ()


def of_known(event: MessageArrived) -> Effects:
    """Return the effects of a message whose MessageId is known.

    This is checked before TimeToLive, the agreement's terms and our own limits (EB-112, EB-114).
    """
    if event.known is Known.OTHER:
        return receiver.reused(event.message_id)
    if event.known is Known.WITHHELD:
        text = "the answer to the first copy is being prepared"
        return (do.QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, text, BUSY_WAIT),)
    if event.asks_ack or event.answered_by_error:
        return (do.CountDuplicate(), do.RepeatAnswer())
    return (do.CountDuplicate(),)


def not_now(event: MessageArrived) -> Effects:
    """Return the refusal of a new message that cannot be taken now; empty if it can. Nothing of it
    is kept (EB-103)."""
    if event.postponed is None:
        return ()
    return receiver.told_to_wait(event.message_id, event.postponed)


def refused(event: MessageArrived, terms: Terms) -> Effects:
    """Return the refusal of a new message that is never taken; empty if nothing in the message
    itself forbids it."""
    if problem := _order_problem(event, terms):
        return refusal(*problem)
    if event.expired:
        return refusal(ErrorCode.TIME_TO_LIVE_EXPIRED, "its TimeToLive has expired", Field.MESSAGE)
    return ()


def refusal(code: ErrorCode, text: str, field: Field = Field.SEQUENCE_NUMBER) -> Effects:
    """An Error that every copy of the message gets."""
    return (do.QueueError(code, field, text), do.KeepRefusal())


def _order_problem(event: MessageArrived, terms: Terms) -> tuple[ErrorCode, str] | None:
    """EB-125, EB-133, EB-076. Only reliable messages of an ordered agreement need a number."""
    reliable = event.asks_ack and event.eliminates
    if event.order is None:
        text = "the agreement requires MessageOrder, which the message does not have"
        lacks = terms.ordered and reliable and not terms.lenient_order
        return (ErrorCode.INCONSISTENT, text) if lacks else None
    if not terms.ordered:
        text = "the agreement does not allow MessageOrder"
        return None if terms.lenient_order else (ErrorCode.NOT_SUPPORTED, text)
    if not reliable:
        return ErrorCode.INCONSISTENT, "MessageOrder needs AckRequested and DuplicateElimination"
    if event.asks_sync:
        return ErrorCode.INCONSISTENT, "MessageOrder and SyncReply cannot be combined"
    return None


def unordered(event: MessageArrived, terms: Terms) -> Effects:
    """Return the effects of a message without order."""
    if event.known is not Known.NO:
        return of_known(event)
    return (
        refused(event, terms) or not_now(event) or (do.Accept(None, None), *event.acknowledgement)
    )
