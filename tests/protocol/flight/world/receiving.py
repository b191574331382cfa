"""The receiving MSH: what its disk holds. Every method is one transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from msh.protocol import effects as do
from msh.protocol.admission import Postponed, Shortage
from msh.protocol.flight import arrival, conversation
from msh.protocol.flight.arrival import MessageArrived, Terms
from msh.protocol.flight.conversation import Conversation
from msh.protocol.flight.serial import Order
from msh.protocol.receiver import Known
from msh.protocol.vocabulary import ErrorCode

from .sending import Copy

HORIZON = 9
FULL = Postponed(Shortage.RATE, 2, "full")


def pure_step(
    before: Conversation, event: MessageArrived, order: Order, terms: Terms, now: datetime
) -> conversation.Outcome:
    return conversation.step(before, event, order, terms, now=now)


@dataclass(frozen=True)
class ReceivingCores:
    unordered: Callable[[MessageArrived, Terms], arrival.Effects] = arrival.unordered
    ordered: Callable[
        [Conversation, MessageArrived, Order, Terms, datetime], conversation.Outcome
    ] = pure_step


@dataclass(frozen=True)
class Signal:
    """An answer to a message: an Acknowledgment, or an Error. `answer_id` is its own MessageId."""

    ref_to_message_id: str
    answer_id: int
    code: ErrorCode | None = None
    warning: bool = False


class ReceivingHost:
    def __init__(self, cores: ReceivingCores, *, ordered: bool) -> None:
        self.cores = cores
        self.terms = Terms(ordered=ordered, horizon=HORIZON)
        self.conversations: dict[str, Conversation] = {}
        self.delivered: dict[str, list[str]] = {}
        self.held: dict[tuple[str, int], str] = {}
        self.dropped: set[str] = set()
        self.first_answers: dict[str, Signal] = {}
        """Of every message that is known, stored or refused."""
        self.called: set[str] = set()
        """Conversations for which an operator was called."""
        self.pending: list[Signal] = []
        self.full = False
        self.answers = 0

    @property
    def stored(self) -> set[str]:
        delivered = (one for ids in self.delivered.values() for one in ids)
        return {*delivered, *self.held.values(), *self.dropped}

    def receives(self, copy: Copy, now: datetime) -> None:
        first = self.first_answers.get(copy.message_id)
        event = MessageArrived(
            copy.message_id,
            Known.SAME if first else Known.NO,
            order=copy.order,
            answered_by_error=first is not None and first.code is not None,
            expired=copy.expires_at is not None and copy.expires_at <= now,
            postponed=FULL if self.full else None,
        )
        if copy.order is None:
            effects = self.cores.unordered(event, self.terms)
        else:
            before = self._conversation(copy.conversation)
            after, effects = self.cores.ordered(before, event, copy.order, self.terms, now)
            self.conversations[copy.conversation] = after
        for effect in effects:
            self._write(effect, copy.conversation, copy.message_id)

    def _conversation(self, name: str) -> Conversation:
        return self.conversations.setdefault(name, Conversation())

    def _write(self, effect: do.ConversationEffect, name: str, message_id: str) -> None:
        match effect:
            case do.Accept():
                self.delivered.setdefault(name, []).append(message_id)
            case do.Hold(number):
                self.held[name, number] = message_id
            case do.Release(numbers):
                for number in numbers:
                    self.delivered.setdefault(name, []).append(self.held.pop((name, number)))
            case do.Drop(numbers):
                self.dropped.update(self.held.pop((name, number)) for number in numbers)
            case do.OpenIncident():
                self.called.add(name)
            case do.ResolveIncident():
                self.called.discard(name)
            case _:
                self._write_answer(effect, message_id)

    def _write_answer(self, effect: do.ConversationEffect, message_id: str) -> None:
        match effect:
            case do.QueueAck():
                self.first_answers[message_id] = self._answer(message_id, None)
            case do.QueueError(code) if code is not ErrorCode.TRANSIENT_ERROR:
                self._answer(message_id, code)
            case do.KeepRefusal():
                self.first_answers[message_id] = self.pending[-1]
            case do.RepeatAnswer():
                self.pending.append(self.first_answers[message_id])

    def _answer(self, message_id: str, code: ErrorCode | None) -> Signal:
        self.answers += 1
        self.pending.append(Signal(message_id, self.answers, code))
        return self.pending[-1]

    def sweeps(self, now: datetime) -> None:
        for name, before in self.conversations.items():
            self._act(name, conversation.hole_is_due(before, HORIZON, now=now))

    def _act(self, name: str, outcome: conversation.Outcome) -> None:
        self.conversations[name], effects = outcome
        for effect in effects:
            self._write(effect, name, "")

    # --- operators ------------------------------------------------------------------------

    def waits_on(self, name: str, now: datetime) -> None:
        self._act(name, conversation.extend_wait(self.conversations[name], HORIZON, now=now))

    def skips(self, name: str, now: datetime) -> None:
        self._act(name, conversation.skip(self.conversations[name], HORIZON, now=now))

    def drops(self, name: str) -> None:
        self._act(name, conversation.drop(self.conversations[name]))
