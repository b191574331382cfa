"""The sending MSH: what its disk holds, what a crash loses. Every method is one transaction."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol import flight as flights
from msh.protocol.flight import gate, numbering
from msh.protocol.flight.gate import Gate, Leave
from msh.protocol.flight.numbering import Numbering, NumberingEvent
from msh.protocol.flight.serial import Order
from msh.protocol.flight.value import Flight, FlightState, FlightTerms, OnSilence
from msh.protocol.kinds import Verdict

TERMS = FlightTerms(timeout=3, retries=2, retry_interval=3, transient_wait_limit=10)
HTTP_DEADLINE = 2.0
PROBE_INTERVAL = 10
LANDED = (FlightState.ACKNOWLEDGED, FlightState.FAILED, FlightState.CANCELLED)


class Violation(AssertionError):
    """The exchange broke a promise."""


def pure_flight(flight: Flight, event: flights.FlightEvent, now: datetime) -> flights.Outcome:
    return flights.step(flight, event, now=now)


def pure_gate(before: Gate, event: gate.GateEvent, now: datetime) -> gate.Outcome:
    return gate.step(before, event, now=now)


def pure_leave(before: Gate, flight: Flight, under_way: int, window: int, now: datetime) -> str:
    leave = gate.may_leave(before, flight, under_way=under_way, window=window, now=now)
    return leave or ""


FlightStep = Callable[[Flight, flights.FlightEvent, datetime], flights.Outcome]
GateStep = Callable[[Gate, gate.GateEvent, datetime], gate.Outcome]


@dataclass(frozen=True)
class SendingCores:
    """The functions under test, so that one of them can be replaced by a faulty one."""

    flight: FlightStep = pure_flight
    gate: GateStep = pure_gate
    leave: Callable[[Gate, Flight, int, int, datetime], str] = pure_leave
    numbering: Callable[[Numbering, NumberingEvent], Numbering] = numbering.step
    number: Callable[[Numbering], Order] = lambda one: one.order
    may_start: Callable[[Numbering], bool] = lambda one: one.may_start


@dataclass(frozen=True)
class Copy:
    """One copy of a message on the wire."""

    message_id: str
    conversation: str
    order: Order | None
    expires_at: datetime | None


@dataclass(frozen=True)
class Attempt:
    """A copy in the hands of a worker: lost in a crash."""

    number: int
    copy: Copy


class SendingHost:
    """`window` messages under way at most; `ordered` by conversation or not at all."""

    def __init__(
        self, cores: SendingCores, *, window: int, ordered: bool, terms: FlightTerms, silence: str
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
        if after.state not in (FlightState.READY, FlightState.WAITING):
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
                self.gate_happens(gate.MessageUnreached(message_id, detail), now)
                self.claimed[message_id] = 0

    def gate_happens(self, event: gate.GateEvent, now: datetime) -> None:
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
            if flight.state is FlightState.WAITING and flight.is_due(now):
                self.happens(message_id, flights.DeadlinePassed(self.gate.failures), now)

    def claims(self, now: datetime) -> bool:
        """A worker takes the first copy that may leave; False if there is none."""
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
        order_or_none = self.orders.get(message_id)
        copy = Copy(message_id, conversation, order_or_none, flight.expires_at)
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
            taken = state is FlightState.ACKNOWLEDGED or (
                self.verdicts.get(message_id) is Verdict.RECEIVED
            )
            stops = state in (FlightState.FAILED, FlightState.HELD, FlightState.CANCELLED)
            if not taken and (stops or message_id == resets[-1]):
                raise Violation(f"{conversation} goes on in spite of {self.flights[message_id]}")

    def crashes(self) -> None:
        self.attempts.clear()

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
        accounted = (FlightState.ACKNOWLEDGED, FlightState.CANCELLED)
        return sum(
            self.conversations[one] == conversation and self.flights[one].state not in accounted
            for one in self.orders
        )
