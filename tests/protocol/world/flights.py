"""ebMS 2.0 between two MSHs: what operators of both may do, and what is promised."""

import random
from dataclasses import replace
from datetime import timedelta
from functools import partial

from msh.protocol import events as on
from msh.protocol import flight as flights
from msh.protocol.flight import numbering
from msh.protocol.flight.gate import GateState
from msh.protocol.flight.serial import following
from msh.protocol.kinds import Verdict
from msh.protocol.vocabulary import ErrorCode

from .flight_hosts import (
    ACKNOWLEDGED,
    FAILED,
    HELD,
    HORIZON,
    LANDED,
    PROBE_INTERVAL,
    PURE,
    READY,
    TERMS,
    WAITING,
    Cores,
    ReceivingHost,
    SendingHost,
)
from .link import LONGEST_WAIT, Act, Signal, Violation, World


class FlightWorld(World):
    steps = 60
    sender: SendingHost
    receiver: ReceivingHost

    def __init__(
        self,
        cores: Cores = PURE,
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
    def drawn(cls, draw: random.Random, cores: Cores = PURE) -> "FlightWorld":
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
