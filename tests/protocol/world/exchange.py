"""Two pure cores over a link that may drop, repeat, delay and reorder everything."""

from collections.abc import Callable
from dataclasses import astuple
from datetime import timedelta
from enum import Enum
from functools import partial

from msh.protocol import events as on
from msh.protocol import receiver
from msh.protocol.attempt import Trace
from msh.protocol.effects import SILENCE
from msh.protocol.kinds import OnUnexpectedFirst, Verdict
from msh.protocol.lane import LaneState
from tests.protocol.tables.form import NOW

from .hosts import (
    Copy,
    Promise,
    ReceiverStep,
    ReceivingHost,
    SenderStep,
    SendingHost,
    Signal,
    State,
    Violation,
    pure_sender,
)

LONGEST_WAIT = timedelta(seconds=20)
LONGEST_WAIT_OF_AN_EMPTY_LANE = timedelta(days=7)
ROUNDS_TO_HEAL = 40


class Fate(Enum):
    """What becomes of a copy or a signal on the link."""

    ARRIVES = "arrives"
    REPEATED = "arrives, and stays on its way"
    LOST = "is lost"


class World:
    """The two hosts, what is on its way between them, one clock, and the promises."""

    def __init__(
        self,
        first_number: int = 1,
        on_unexpected_first: OnUnexpectedFirst = OnUnexpectedFirst.ACCEPT,
        sender_step: SenderStep = pure_sender,
        receiver_step: ReceiverStep = receiver.step,
    ) -> None:
        self.now = NOW
        self.ticks = 0.0
        """Seconds, by a clock that is never set."""
        self.sender = SendingHost(first_number, sender_step)
        self.receiver = ReceivingHost(first_number, on_unexpected_first, receiver_step)
        self.copies: list[Copy] = []
        self.signals: list[Signal] = []
        self.first_copies: dict[str, Copy] = {}
        self.acknowledged: set[str] = set()
        """Of whom an Ack has arrived at the Sender."""

    # --- the Sender -----------------------------------------------------------------------

    def submit(self) -> None:
        self.sender.messages[f"m{len(self.sender.messages) + 1:03}"] = State.QUEUED

    def post(self, index: int) -> None:
        """A worker's copy goes onto the wire, unless it is too late for what it was promised."""
        attempt = self.sender.attempts[index]
        if not attempt.may_begin(self.ticks):
            return
        attempt.posted = True
        copy = attempt.copy
        if copy.message_id not in self.first_copies:
            self._check_overlap(copy)
            self.first_copies[copy.message_id] = copy
        if copy != self.first_copies[copy.message_id]:
            raise Violation(f"altered: {copy}, first sent as {self.first_copies}")
        self.copies.append(copy)

    def attempt_ends(self, index: int, ending: type[on.AttemptEvent]) -> None:
        """The worker learns how its POST ended, rightly or wrongly, and records it."""
        attempt = self.sender.attempts.pop(index)
        if not attempt.posted and not attempt.may_begin(self.ticks):
            return  # it was not begun, and another worker may have it
        recorded = Promise(attempt.copy.message_id, attempt.number)
        self.sender.happens(ending(*astuple(recorded)), self.now)  # type: ignore[arg-type]
        self.sender.recorded.add(recorded)
        may_be_sent = attempt.posted or attempt.shared
        self.sender.traces[recorded] = Trace(ended=True, body_sent=may_be_sent)

    def worker_is_named(self, index: int, *, again: bool = False) -> None:
        self.sender.keeps(index, self.now, self.ticks, again=again)

    def worker_writes(self, index: int) -> None:
        """In the poll of a worker whose POST is still under way."""
        self.sender.begins(self.sender.attempts[index], self.now)

    # --- the link -------------------------------------------------------------------------

    def copy_meets(self, index: int, fate: Fate) -> None:
        copy = self.copies[index]
        if fate is not Fate.REPEATED:
            del self.copies[index]
        if fate is not Fate.LOST:
            self.receiver.receives(copy)

    def signal_sent(self, index: int, *, transmitted: bool) -> None:
        """If not transmitted it stays pending: it will be sent again."""
        pending = self.receiver.pending
        signal = pending.pop(index) if transmitted else pending[index]
        if signal.code is None and signal.ref_to_message_id not in self.receiver.inbox:
            raise Violation(f"premature Ack of {signal.ref_to_message_id}")
        self.signals.append(signal)

    def signal_meets(self, index: int, fate: Fate) -> None:
        signal = self.signals[index]
        if fate is not Fate.REPEATED:
            del self.signals[index]
        if fate is Fate.LOST:
            return
        if signal.code is None:
            self.acknowledged.add(signal.ref_to_message_id)
        self.sender.receives(signal, self.now)

    def passes(self, seconds: float) -> None:
        """Time passes; negative: the clock is set back."""
        self.now += timedelta(seconds=seconds)
        self.ticks += max(0.0, seconds)

    # --- operators ------------------------------------------------------------------------

    def legal_acts(self) -> list[Callable[[], None]]:
        """What operators may do now, each as a call."""
        lane = self.sender.lane
        acts: list[Callable[[], None]] = [self.receiver.allows_reset]
        events: list[on.SenderEvent] = []
        if lane.state in (LaneState.SUSPENDED, LaneState.TRANSIENT):
            events.append(on.OperatorResumed())
        if lane.state is not LaneState.SUSPENDED:
            acts.append(self.operator_suspends)
            if lane.in_flight is not None:
                events += [on.SendNowRequested(), on.RetriesReset()]
        if lane.in_flight is None and lane.state is not LaneState.TRANSIENT:
            events.append(on.SequenceReset())
        acts += [partial(self.operator, event) for event in events]
        return acts + [partial(self.operator_cancels, v) for v in self.true_verdicts()]

    def is_silent(self) -> bool:
        """Whether one more copy may be tried, although sending is suspended (D41)."""
        lane = self.sender.lane
        return lane.in_flight is not None and lane.suspended_for in SILENCE

    def operator(self, event: on.SenderEvent) -> None:
        self.sender.happens(event, self.now)

    def operator_suspends(self) -> None:
        self.operator(on.OperatorSuspended())
        self.sender.stopped_by_operator = True

    def true_verdicts(self) -> list[Verdict]:
        """What an operator may truthfully say of the message in flight."""
        flying = self.sender.lane.in_flight
        if flying is None:
            return []
        if flying.message_id in self.receiver.inbox:
            return [Verdict.UNKNOWN, Verdict.RECEIVED]
        in_hand = {attempt.copy.message_id for attempt in self.sender.attempts}
        if flying.message_id in self.first_copies or flying.message_id in in_hand:
            return [Verdict.UNKNOWN]
        return [Verdict.UNKNOWN, Verdict.NOT_RECEIVED]

    def operator_cancels(self, verdict: Verdict) -> None:
        """Before *unknown*, which starts the numbers again, no copy is left anywhere: the header
        has no epoch, so that nothing could tell a straggler's number from a new one."""
        message_id = self.sender.lane.flying.message_id
        if verdict is Verdict.UNKNOWN:
            attempts = self.sender.attempts
            self.copies = [c for c in self.copies if c.message_id != message_id]
            self.sender.attempts = [a for a in attempts if a.copy.message_id != message_id]
        self.operator(on.MessageCancelled(verdict, nothing_sent=True))

    # --- the promises ---------------------------------------------------------------------

    def check(self) -> None:
        self._check_exit()
        self._check_delivered()
        self._check_budget()
        self._check_workers()
        self._check_proof()

    def _check_proof(self) -> None:
        """A message whose number may be used again was never sent (D18)."""
        for sent in self.first_copies:
            flies = self.sender.messages[sent] is State.IN_FLIGHT
            if flies and self.sender.proves_nothing_sent(sent):
                raise Violation(f"the rows deny what was sent: {sent}")

    def _check_workers(self) -> None:
        """What one worker may still begin, no other may, unless a wake-up came to both."""
        able = [
            (a.copy, a.number)
            for a in self.sender.attempts
            if a.may_begin(self.ticks)
            and Promise(a.copy.message_id, a.number) not in self.sender.named_twice
        ]
        if len(set(able)) < len(able):
            raise Violation(f"two workers send one copy: {able}")

    def _check_budget(self) -> None:
        """A probe is the one copy beyond the retries, while an operator is called (D41)."""
        lane = self.sender.lane
        probing = lane.in_flight is not None and lane.in_flight.probing
        if probing and not self.sender.incident:
            raise Violation("more retries than agreed")
        if self.sender.incident and lane.state is not LaneState.SUSPENDED and not probing:
            raise Violation(f"an incident of a lane that runs by itself: {lane}")

    def _check_overlap(self, copy: Copy) -> None:
        for message_id, state in self.sender.messages.items():
            if message_id == copy.message_id:
                return
            if message_id not in self.acknowledged and state is not State.CANCELLED:
                raise Violation(f"overlap: {copy} before an Ack of {message_id}")

    def _check_exit(self) -> None:
        """Every state has a way out of it that needs no luck."""
        lane = self.sender.lane
        if lane.state is LaneState.SUSPENDED:
            fine = self.sender.incident or self.sender.stopped_by_operator
        elif lane.state is LaneState.IDLE:
            fine = lane.in_flight is None and lane.due is None
        else:
            longest = LONGEST_WAIT if lane.in_flight else LONGEST_WAIT_OF_AN_EMPTY_LANE
            fine = lane.due is not None and (
                lane.due <= self.now + longest or lane.is_due(self.now)
            )
        if not fine:
            raise Violation(f"no exit: {lane}")

    def _check_delivered(self) -> None:
        messages, inbox = self.sender.messages, self.receiver.inbox
        if len(set(inbox)) < len(inbox):
            raise Violation(f"duplicated: {inbox}")
        if inbox != sorted(inbox):
            raise Violation(f"out of order: {inbox}")
        for message_id, state in messages.items():
            passed_over = bool(inbox) and message_id < inbox[-1] and state is not State.CANCELLED
            wanted = passed_over or state is State.ACKNOWLEDGED
            if wanted and message_id not in inbox:
                raise Violation(f"lost: {message_id}, {state}")

    # --- when everything goes well again ----------------------------------------------------

    def heals(self) -> None:
        """The link is sound, people do their work: everything must be delivered in the end."""
        self.receiver.full = False
        self.receiver.releases()
        for _ in range(ROUNDS_TO_HEAL + ROUNDS_TO_HEAL * len(self.sender.messages)):
            if self._settled():
                break
            self.round_of_work()
        else:
            raise Violation(f"no exit: {self.sender.lane}, {self.sender.messages}")
        while self.copies:
            self.copy_meets(0, Fate.ARRIVES)
        while self.signals:
            self.signal_meets(0, Fate.ARRIVES)
        self.check()

    def round_of_work(self, copies: Fate = Fate.ARRIVES, signals: Fate = Fate.ARRIVES) -> None:
        """One round: people do what they are asked to do, and what is new on the link meets its
        fate. What was on its way before stays there, to arrive late."""
        self._people_act()
        lane = self.sender.lane
        while self.sender.promises:
            self.worker_is_named(0)
        in_hand = lane.promised and self.sender.attempts
        if lane.due is not None and not lane.is_due(self.now) and not in_hand:
            self.passes((lane.due - self.now).total_seconds())
        self.sender.sweeps(self.now)
        self.sender.claims(self.now)
        while self.sender.attempts:
            under_way = len(self.copies)
            self.post(0)
            if len(self.copies) > under_way:
                self.copy_meets(-1, copies)
            self.attempt_ends(0, on.AttemptTransmitted)
            self.check()
        while self.receiver.pending:
            self.signal_sent(0, transmitted=True)
            self.signal_meets(-1, signals)
            self.check()

    def _people_act(self) -> None:
        if self.sender.lane.state is LaneState.SUSPENDED:
            self.operator(on.OperatorResumed())
        self.receiver.allows_reset()

    def _settled(self) -> bool:
        done = (State.ACKNOWLEDGED, State.CANCELLED)
        return self.sender.lane.state is LaneState.IDLE and all(
            state in done for state in self.sender.messages.values()
        )
