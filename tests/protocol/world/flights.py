"""ebMS 2.0 between two MSHs: what their disks hold, what a crash loses, what is promised.

Every method of a host that changes something is one transaction: it happens or it does not.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol import flight as flights
from msh.protocol.admission import Postponed, Shortage
from msh.protocol.flight import arrival, conversation, numbering
from msh.protocol.flight import gate as gates
from msh.protocol.flight.arrival import MessageArrived, Terms
from msh.protocol.flight.conversation import Conversation
from msh.protocol.flight.gate import Gate, GateState, Leave
from msh.protocol.flight.numbering import Numbering, NumberingEvent
from msh.protocol.flight.serial import Order, following
from msh.protocol.flight.value import Flight, FlightState, FlightTerms, OnSilence
from msh.protocol.kinds import Verdict
from msh.protocol.message import ErrorReport
from msh.protocol.receiver import Known
from msh.protocol.vocabulary import ErrorCode, Severity

from .link import LONGEST_WAIT, Act, Attempt, Copy, Ending, Signal, Violation, World

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


class FlightWorld(World):
    steps = 60
    sender: SendingHost
    receiver: ReceivingHost

    def __init__(
        self,
        cores: Cores = Cores(),
        *,
        window: int = 2,
        ordered: bool = False,
        time_to_live: int = 0,
        silence: str = "fail",
    ) -> None:
        terms = replace(TERMS, time_to_live=time_to_live)
        sending = SendingHost(cores, window=window, ordered=ordered, terms=terms, silence=silence)
        super().__init__(sending, ReceivingHost(cores, ordered=ordered))
        self.ordered = ordered
        self.given_up: set[str] = set()
        """Messages that an operator cancelled, or that one of the Receiver passed over."""

    @classmethod
    def drawn(cls, draw: random.Random, cores: Cores = Cores()) -> "FlightWorld":
        kind = draw.choice(cores.kinds)
        return cls(
            cores,
            window=draw.randint(1, 3),
            ordered=kind == "ordered",
            time_to_live=40 if kind == "expires" else 0,
            silence=draw.choice(("fail", "hold")),
        )

    @property
    def message_ids(self) -> list[str]:
        return list(self.sender.flights)

    def happenings(self, draw: random.Random) -> list[Act]:
        return []

    def stray(self, draw: random.Random) -> Signal | None:
        """An Error for any message that was sent."""
        if not self.first_copies:
            return None
        message_id, warning = draw.choice(list(self.first_copies)), draw.random() < 0.5
        return Signal(message_id, ErrorCode.UNKNOWN, warning=warning)

    def sweeps(self) -> None:
        super().sweeps()
        self.receiver.sweeps(self.now)

    # --- operators ------------------------------------------------------------------------

    def legal_acts(self) -> list[Act]:
        acts: list[Act] = []
        for message_id in self.sender.flights:
            acts += [partial(self.operator, message_id, one) for one in self._verbs(message_id)]
        gate = self.sender.gate
        if gate.state is GateState.SUSPENDED:
            acts.append(self.partner_resumed)
        if "" not in self.sender.stopped:
            acts.append(self.partner_suspended)
        for name, one in self.sender.numberings.items():
            if one.state in ("running", "stopped") and not self.sender.outstanding(name):
                acts.append(partial(self.conversation_restarted, name))
        for name, held in self.receiver.conversations.items():
            if held.held:
                acts.append(partial(self.receiver.waits_on, name, self.now))
                acts += [partial(self.skips, name), partial(self.drops, name)]
        return acts

    def _verbs(self, message_id: str) -> list[flights.FlightEvent]:
        flight = self.sender.flights[message_id]
        cancels = [on.MessageCancelled(self.true_verdict(message_id), nothing_sent=True)]
        stands_still = flight.state is FAILED and flight.number is not None
        if flight.state in LANDED and not stands_still:
            return []
        again: list[flights.FlightEvent] = []
        if not flight.why_not_sent_again(self.now):
            again = [on.OperatorResumed()]
            if not stands_still:
                again = [on.RetriesReset(), on.SendNowRequested()]
        if flight.state in (READY, WAITING):
            again.append(on.OperatorSuspended())
        return [*again, *cancels]

    def true_verdict(self, message_id: str) -> Verdict:
        if message_id in self.receiver.stored:
            return Verdict.RECEIVED
        in_hand = {attempt.copy.message_id for attempt in self.sender.attempts}
        if message_id in self.first_copies or message_id in in_hand:
            return Verdict.UNKNOWN
        return Verdict.NOT_RECEIVED

    def operator(self, message_id: str, event: flights.FlightEvent) -> None:
        """Before a verdict of *unknown*, which lets a conversation start again, no copy is left
        anywhere: nothing could tell a straggler's number from a new one."""
        if isinstance(event, on.MessageCancelled):
            if event.verdict is not Verdict.RECEIVED:
                self.given_up.add(message_id)
            self.copies = [one for one in self.copies if one.message_id != message_id]
            self.sender.attempts = [
                one for one in self.sender.attempts if one.copy.message_id != message_id
            ]
        self.sender.operator(message_id, event, self.now)

    def partner_suspended(self) -> None:
        self.sender.gate_happens(on.OperatorSuspended(), self.now)
        self.sender.stopped.add("")

    def partner_resumed(self) -> None:
        self.sender.gate_happens(on.OperatorResumed(), self.now)

    def conversation_restarted(self, name: str) -> None:
        self.sender.conversation_happens(name, numbering.ConversationRestarted(outstanding=0))

    def skips(self, name: str) -> None:
        self.receiver.skips(name, self.now)
        self._passed_over(name)

    def drops(self, name: str) -> None:
        self.receiver.drops(name)
        self._passed_over(name)

    def _passed_over(self, name: str) -> None:
        last = max(self.receiver.delivered.get(name, [""]))
        mine = (one for one, of in self.sender.conversations.items() if of == name)
        missing = {one for one in mine if one < last} - self.receiver.stored
        self.given_up |= missing | self.receiver.dropped

    # --- the promises ---------------------------------------------------------------------

    def check(self) -> None:
        self._check_delivered()
        self._check_order()
        self._check_copies()
        self._check_exit()

    def _check_delivered(self) -> None:
        delivered = [one for ids in self.receiver.delivered.values() for one in ids]
        if len(set(delivered)) < len(delivered):
            raise Violation(f"duplicated: {delivered}")
        for message_id, flight in self.sender.flights.items():
            if flight.state is ACKNOWLEDGED and message_id not in self.receiver.stored:
                raise Violation(f"lost: {message_id}")

    def _check_order(self) -> None:
        if not self.ordered:
            return
        for name, ids in self.receiver.delivered.items():
            if ids != sorted(ids):
                raise Violation(f"out of order in {name}: {ids}")
            for message_id, of in self.sender.conversations.items():
                if of == name and message_id < ids[-1] and message_id not in ids:
                    unsent = message_id not in self.sender.orders
                    if not unsent and message_id not in self.given_up:
                        raise Violation(f"{message_id} was passed over in {name}: {ids}")
        delivered = {one for ids in self.receiver.delivered.values() for one in ids}
        for message_id in self.receiver.held.values():
            before = self._predecessor(message_id)
            if before in delivered:
                raise Violation(f"{message_id} is held for nothing")

    def _predecessor(self, message_id: str) -> str | None:
        """Of the same conversation, the message numbered just before, or None."""
        mine = self.sender.conversations[message_id]
        number = self.sender.orders[message_id].number
        earlier = [
            one
            for one, order in self.sender.orders.items()
            if one < message_id and self.sender.conversations[one] == mine
            if following(order.number) == number
        ]
        return max(earlier, default=None)

    def _check_copies(self) -> None:
        for message_id, claimed in self.sender.claimed.items():
            if claimed > 1 + TERMS.retries:
                raise Violation(f"{claimed} copies of {message_id}")
        if len(self.sender.places) > self.sender.window:
            raise Violation(f"under way: {self.sender.places}")

    def _check_exit(self) -> None:
        """Every state has a way out of it that needs no luck."""
        sender = self.sender
        for message_id, flight in sender.flights.items():
            fine = flight.state in (READY, *LANDED)
            if flight.state is WAITING:
                fine = flight.due is not None and (
                    flight.due <= self.now + LONGEST_WAIT or flight.is_due(self.now)
                )
            if flight.state is HELD:
                fine = message_id in sender.incidents or message_id in sender.stopped
            if not fine:
                raise Violation(f"no exit: {flight}")
        if sender.gate.state is GateState.SUSPENDED and "" not in sender.stopped:
            farthest = self.now + timedelta(seconds=PROBE_INTERVAL) + LONGEST_WAIT
            due = sender.gate.due
            probed = due is not None and (due <= farthest or sender.gate.is_due(self.now))
            if not (sender.partner_incident and probed):
                raise Violation(f"no exit: {sender.gate}")
        for name, one in self.receiver.conversations.items():
            if one.held and one.due is None and name not in self.receiver.called:
                raise Violation(f"no exit: {name}, {one}")

    def claim_all(self) -> None:
        super().claim_all()
        self._check_nothing_waits_for_nothing()

    def _check_nothing_waits_for_nothing(self) -> None:
        """No worker finds anything more to send: is there really nothing? (EB-134)"""
        sender = self.sender
        if sender.gate.state is GateState.SUSPENDED or len(sender.places) >= sender.window:
            return
        for name in sender.numberings:
            head = sender.head(name)
            if head is None or sender.flights[head].state is not READY:
                continue
            started = [one for one in sender.orders if sender.conversations[one] == name]
            accounted = all(sender.flights[one].state is ACKNOWLEDGED for one in started)
            if accounted:
                raise Violation(f"{head} waits for nothing in {name}")

    # --- when everything goes well again --------------------------------------------------

    def heals(self) -> None:
        super().heals()
        self._check_nothing_is_left()

    def _check_nothing_is_left(self) -> None:
        """What is still held waits for a message that was given up."""
        held = set(self.receiver.held.values())
        for message_id in held:
            before = self._predecessor(message_id)
            if before not in held | self.given_up:
                raise Violation(f"held for ever: {message_id}")

    def time_passes(self) -> None:
        sender = self.sender
        dues = [one.due for one in sender.flights.values() if one.state is WAITING]
        if sender.gate.state is GateState.SUSPENDED:
            dues.append(sender.gate.due)
        dues += [one.due for one in self.receiver.conversations.values()]
        ahead = [due for due in dues if due is not None and due > self.now]
        if ahead:
            self.now = min(*ahead, self.now + timedelta(seconds=HORIZON))

    def people_act(self) -> None:
        sender = self.sender
        if "" in sender.stopped:
            self.partner_resumed()
        for message_id, flight in list(sender.flights.items()):
            numbered = flight.state is FAILED and flight.number is not None
            if flight.state is not HELD and not numbered:
                continue
            answer = self.receiver.first_answers.get(message_id)
            refused = answer is not None and answer.code is not None
            if refused or flight.why_not_sent_again(self.now):
                verdict = self.true_verdict(message_id)
                self.operator(message_id, on.MessageCancelled(verdict, nothing_sent=True))
            else:
                self.operator(message_id, on.OperatorResumed())
        for name, one in sender.numberings.items():
            if one.state == "stopped" and not sender.outstanding(name):
                if self.receiver.conversations.get(name) and self._held(name):
                    self.skips(name)
                else:
                    self.conversation_restarted(name)

    def _held(self, name: str) -> bool:
        return any(of == name for of, _ in self.receiver.held)

    def is_settled(self) -> bool:
        done = all(flight.state in LANDED for flight in self.sender.flights.values())
        stands_still = any(
            flight.state is FAILED and flight.number is not None
            for flight in self.sender.flights.values()
        )
        return done and not stands_still
