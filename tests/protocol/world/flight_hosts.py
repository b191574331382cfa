"""ebMS 2.0 between two MSHs: what the disks of both hold, and what a crash loses.

Every method of a host that changes something is one transaction: it happens or it does not.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol import flight as flights
from msh.protocol.admission import Postponed, Shortage
from msh.protocol.flight import arrival, conversation, numbering
from msh.protocol.flight import gate as gates
from msh.protocol.flight.arrival import MessageArrived, Terms
from msh.protocol.flight.conversation import Conversation
from msh.protocol.flight.gate import Gate, Leave
from msh.protocol.flight.numbering import Numbering, NumberingEvent
from msh.protocol.flight.serial import Order
from msh.protocol.flight.value import Flight, FlightState, FlightTerms, OnSilence
from msh.protocol.kinds import Verdict
from msh.protocol.message import ErrorReport
from msh.protocol.receiver import Known
from msh.protocol.vocabulary import ErrorCode, Severity

from .link import Attempt, Copy, Ending, Signal, Violation

TERMS = FlightTerms(timeout=3, retries=2, retry_interval=3, transient_wait_limit=10)
HTTP_DEADLINE = 2.0
PROBE_INTERVAL = 10
HORIZON = 9
FULL = Postponed(Shortage.RATE, 2, "full")
KINDS = ("unordered", "expires", "ordered")
READY, WAITING, HELD, ACKNOWLEDGED, FAILED, CANCELLED = FlightState
LANDED = (ACKNOWLEDGED, FAILED, CANCELLED)


def pure_flight(flight: Flight, event: flights.FlightEvent, now: datetime) -> flights.Outcome:
    return flights.step(flight, event, now=now)


def pure_gate(before: Gate, event: gates.GateEvent, now: datetime) -> gates.Outcome:
    return gates.step(before, event, now=now)


def pure_leave(before: Gate, flight: Flight, under_way: int, window: int, now: datetime) -> str:
    leave = gates.may_leave(before, flight, under_way=under_way, window=window, now=now)
    return leave or ""


def pure_step(
    before: Conversation, event: MessageArrived, order: Order, terms: Terms, now: datetime
) -> conversation.Outcome:
    return conversation.step(before, event, order, terms, now=now)


@dataclass(frozen=True)
class Cores:
    """The functions under test, so that one of them can be replaced by a faulty one. `kinds`: of
    exchanges, in which that can be seen."""

    flight: Callable[[Flight, flights.FlightEvent, datetime], flights.Outcome] = pure_flight
    gate: Callable[[Gate, gates.GateEvent, datetime], gates.Outcome] = pure_gate
    leave: Callable[[Gate, Flight, int, int, datetime], str] = pure_leave
    numbering: Callable[[Numbering, NumberingEvent], Numbering] = numbering.step
    number: Callable[[Numbering], Order] = lambda one: one.order
    may_start: Callable[[Numbering], bool] = lambda one: one.may_start
    unordered: Callable[[MessageArrived, Terms], arrival.Effects] = arrival.unordered
    ordered: Callable[
        [Conversation, MessageArrived, Order, Terms, datetime], conversation.Outcome
    ] = pure_step
    kinds: tuple[str, ...] = KINDS


PURE = Cores()


class SendingHost:
    """`window` messages under way at most; `ordered` by conversation or not at all."""

    def __init__(
        self, cores: Cores, *, window: int, ordered: bool, terms: FlightTerms, silence: str
    ) -> None:
        self.cores, self.window, self.ordered, self.terms = cores, window, ordered, terms
        self.silence = OnSilence(silence)
        self.gate = Gate(PROBE_INTERVAL, HTTP_DEADLINE)
        self.flights: dict[str, Flight] = {}
        self.conversations: dict[str, str] = {}
        self.numberings: dict[str, Numbering] = {}
        self.orders: dict[str, Order] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.attempts: list[Attempt] = []
        self.incidents: set[str] = set()
        self.partner_incident = False
        self.stopped: set[str] = set()
        """What an operator has stopped: messages, or "" for the partner."""
        self.claimed: Counter[str] = Counter()
        """Copies of each message that were claimed since the last one that an operator asked for;
        no probes."""
        self.places: set[str] = set()
        """Messages of which a copy was claimed, and that have not ended and are not held."""

    def submits(self, conversation: str, now: datetime) -> None:
        message_id = f"m{len(self.flights) + 1:03}"
        self.flights[message_id] = Flight(message_id, self.terms, self.silence, due=now)
        self.conversations[message_id] = conversation
        self.numberings.setdefault(conversation, Numbering())

    # --- a step of the cores --------------------------------------------------------------

    def happens(self, message_id: str, event: flights.FlightEvent, now: datetime) -> None:
        before = self.flights[message_id]
        after, effects = self.cores.flight(before, event, now)
        self.flights[message_id] = after
        if after.state not in (READY, WAITING):
            self.places.discard(message_id)
        for effect in effects:
            self._write(effect, message_id, now)
        if isinstance(event, on.MessageCancelled):
            self.verdicts[message_id] = event.verdict
        told = numbering.event_of(before, after, self.verdicts.get(message_id))
        if told is not None:
            self.conversation_happens(self.conversations[message_id], told)

    def _write(self, effect: do.FlightEffect, message_id: str, now: datetime) -> None:
        match effect:
            case do.OpenIncident():
                self.incidents.add(message_id)
            case do.ResolveIncidents():
                self.incidents.discard(message_id)
                self.stopped.discard(message_id)
            case do.ReportUnreachable(_, detail):
                self.gate_happens(gates.MessageUnreached(message_id, detail), now)
                self.claimed[message_id] = 0

    def gate_happens(self, event: gates.GateEvent, now: datetime) -> None:
        self.gate, effects = self.cores.gate(self.gate, event, now)
        for effect in effects:
            if isinstance(effect, do.OpenIncident):
                self.partner_incident = True
            elif isinstance(effect, do.ResolveIncidents):
                self.partner_incident = False
                self.stopped.discard("")

    def conversation_happens(self, conversation: str, event: NumberingEvent) -> None:
        before = self.numberings[conversation]
        self.numberings[conversation] = self.cores.numbering(before, event)

    # --- workers and the sweep ------------------------------------------------------------

    def sweeps(self, now: datetime) -> None:
        for message_id in self.flights:
            flight = self.flights[message_id]
            if flight.ends_at is not None and flight.ends_at <= now and flight.state not in LANDED:
                self.happens(message_id, flights.Expired(), now)
            flight = self.flights[message_id]
            if flight.state is WAITING and flight.is_due(now):
                self.happens(message_id, flights.DeadlinePassed(self.gate.failures), now)

    def claims(self, now: datetime) -> bool:
        under_way = sum(flight.under_way for flight in self.flights.values())
        for message_id, flight in self.flights.items():
            if not self._is_its_turn(message_id):
                continue
            leave = self.cores.leave(self.gate, flight, under_way, self.window, now)
            if leave:
                self._claim(message_id, leave, now)
                return True
        return False

    def _is_its_turn(self, message_id: str) -> bool:
        if not self.ordered or message_id in self.orders:
            return True
        conversation = self.conversations[message_id]
        return message_id == self.head(conversation) and self.cores.may_start(
            self.numberings[conversation]
        )

    def head(self, conversation: str) -> str | None:
        """The oldest message of a conversation that has no number and has not ended."""
        return next(
            (
                one
                for one, flight in self.flights.items()
                if self.conversations[one] == conversation
                if one not in self.orders and flight.state not in LANDED
            ),
            None,
        )

    def _claim(self, message_id: str, leave: str, now: datetime) -> None:
        conversation = self.conversations[message_id]
        if self.ordered and message_id not in self.orders:
            self._check_start(conversation)
            order = self.cores.number(self.numberings[conversation])
            self.orders[message_id] = order
            self.flights[message_id] = replace(self.flights[message_id], number=order.number)
            self.conversation_happens(conversation, numbering.MessageStarted(message_id))
        if leave == Leave.PROBE:
            self.gate_happens(flights.ProbeClaimed(HTTP_DEADLINE), now)
            self.happens(message_id, flights.ProbeClaimed(HTTP_DEADLINE), now)
        else:
            self.claimed[message_id] += 1
            self.happens(message_id, on.AttemptClaimed(HTTP_DEADLINE), now)
        self.places.add(message_id)
        flight = self.flights[message_id]
        numbered = self.orders.get(message_id)
        copy = Copy(message_id, numbered, conversation, flight.expires_at)
        self.attempts.append(Attempt(flight.attempt, copy))

    def _check_start(self, conversation: str) -> None:
        """A promise (EB-123, EB-124): the message with Reset is acknowledged, and none before this
        one has failed, is held or was lost."""
        started = [one for one in self.orders if self.conversations[one] == conversation]
        resets = [one for one in started if self.orders[one].resets]
        if self.cores.number(self.numberings[conversation]).resets:
            return
        for message_id in started[started.index(resets[-1]) :] if resets else ():
            state = self.flights[message_id].state
            taken = state is ACKNOWLEDGED or (self.verdicts.get(message_id) is Verdict.RECEIVED)
            stops = state in (FAILED, HELD, CANCELLED)
            if not taken and (stops or message_id == resets[-1]):
                raise Violation(f"{conversation} goes on in spite of {self.flights[message_id]}")

    def ends(self, attempt: Attempt, ending: Ending, reached: bool, now: datetime) -> None:
        of = (attempt.copy.message_id, attempt.number)
        event: on.AttemptTransmitted | on.AttemptFailed | on.AttemptRefused
        if ending is on.AttemptFailed:
            event = on.AttemptFailed(*of, unreachable=not reached)
        elif ending is on.AttemptRefused:
            event = on.AttemptRefused(*of, "400")
        else:
            event = on.AttemptTransmitted(*of)
        self.gate_happens(event, now)
        self.happens(attempt.copy.message_id, event, now)

    def receives(self, signal: Signal, now: datetime) -> None:
        message_id = signal.ref_to_message_id
        event: on.AckReceived | on.ErrorReceived = on.AckReceived(message_id)
        if signal.code is not None:
            severity = Severity.WARNING if signal.warning else Severity.HARD_ERROR
            event = on.ErrorReceived(message_id, ErrorReport(signal.code, severity))
        self.happens(message_id, event, now)

    # --- operators ------------------------------------------------------------------------

    def operator(self, message_id: str, event: flights.FlightEvent, now: datetime) -> None:
        if isinstance(event, on.OperatorSuspended):
            self.stopped.add(message_id)
        if isinstance(event, on.SendNowRequested):
            self.claimed[message_id] -= 1
        if isinstance(event, on.OperatorResumed | on.RetriesReset):
            self.claimed[message_id] = 0
        self.happens(message_id, event, now)

    def outstanding(self, conversation: str) -> int:
        """Messages of it that were sent and are neither acknowledged nor cancelled."""
        accounted = (ACKNOWLEDGED, CANCELLED)
        return sum(
            self.conversations[one] == conversation and self.flights[one].state not in accounted
            for one in self.orders
        )


class ReceivingHost:
    def __init__(self, cores: Cores, *, ordered: bool) -> None:
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
        self.pending.append(Signal(message_id, code, answer_id=self.answers))
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
