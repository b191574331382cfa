"""The draft between two MSHs: what their disks hold, what a crash loses, what is promised.

Every method of a host that changes something is one transaction: it happens or it does not.
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol import receiver, sender, sequence
from msh.protocol.agreement import Terms
from msh.protocol.attempt import Trace, nothing_was_sent
from msh.protocol.effects import SILENCE
from msh.protocol.kinds import OnUnexpectedFirst, Verdict
from msh.protocol.lane import PROMISED_FOR, Lane, LaneState
from msh.protocol.message import ErrorReport
from msh.protocol.receiver import Known, MessageArrived, ReceivingLink
from msh.protocol.vocabulary import RESYNCHRONISE, ErrorCode

from .link import LONGEST_WAIT, Act, Attempt, Copy, Ending, Signal, Violation, World

TERMS = Terms(
    timeout=5,
    retries=2,
    retry_interval=3,
    transient_count_limit=3,
    transient_time_limit=60,
    transient_wait_limit=10,
)
HTTP_DEADLINE = 4.0
LONGEST_WAIT_OF_AN_EMPTY_LANE = timedelta(days=7)
NAMED_AGAIN = 0.1
"""How often the name of a promise comes to one more worker."""

SenderStep = Callable[[Lane, on.SenderEvent, datetime], sender.Outcome]
ReceiverStep = Callable[[ReceivingLink, MessageArrived], receiver.Outcome]


class State(StrEnum):
    QUEUED = "queued"
    IN_FLIGHT = "in_flight"
    ACKNOWLEDGED = "acknowledged"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Promise:
    """A wake-up on its way to a worker."""

    message_id: str
    number: int


def pure_sender(lane: Lane, event: on.SenderEvent, now: datetime) -> sender.Outcome:
    return sender.step(lane, event, now=now)


@dataclass(frozen=True)
class Cores:
    """The functions under test, so that one of them can be replaced by a faulty one."""

    sender: SenderStep = pure_sender
    receiver: ReceiverStep = receiver.step


class SendingHost:
    def __init__(self, first_number: int, step: SenderStep) -> None:
        self.lane = Lane(next_number=first_number)
        self.messages: dict[str, State] = {}
        self.incident = False
        self.stopped_by_operator = False
        self.resumes = False
        """The partner was given that a late Ack ends the suspension by itself (D12)."""
        self.attempts: list[Attempt] = []
        self.promises: list[Promise] = []
        self.named_twice: set[Promise] = set()
        self.recorded: set[Promise] = set()
        """What rows say was begun, or has ended."""
        self.traces: dict[Promise, Trace] = {}
        """The rows of attempts."""
        self._step = step

    @property
    def head(self) -> str | None:
        queued = (key for key, state in self.messages.items() if state is State.QUEUED)
        return next(queued, None)

    def submits(self, conversation: str, now: datetime) -> None:
        self.messages[f"m{len(self.messages) + 1:03}"] = State.QUEUED

    def happens(self, event: on.SenderEvent, now: datetime) -> None:
        """The step, and the effects that must not be lost."""
        self.lane, effects = self._step(self.lane, event, now)
        for effect in effects:
            self._write(effect, now)

    def _write(self, effect: do.SenderEffect, now: datetime) -> None:
        match effect:
            case do.PutInFlight(message_id):
                self.messages[message_id] = State.IN_FLIGHT
            case do.Complete(message_id):
                self.messages[message_id] = State.ACKNOWLEDGED
            case do.Cancel(message_id):
                self.messages[message_id] = State.CANCELLED
            case do.OpenIncident():
                self.incident = True
            case do.ResolveIncidents():
                self.incident = self.stopped_by_operator = False
            case do.PollLane():
                self.happens(on.LanePolled(self.head, TERMS), now)

    def sweeps(self, now: datetime) -> None:
        if self.lane.state is LaneState.IDLE:
            self.happens(on.LanePolled(self.head, TERMS), now)
        elif self.lane.is_due(now) and not self.lane.unsent:
            self.happens(on.DeadlinePassed(), now)

    def claims(self, now: datetime) -> bool:
        waits_no_more = (
            self.lane.state is LaneState.TRANSIENT
            and self.lane.in_flight is not None
            and self.lane.is_due(now)
        )
        if not waits_no_more and not (self.lane.unsent and self.lane.is_due(now)):
            return False
        before = self.lane
        self.happens(on.AttemptClaimed(HTTP_DEADLINE), now)
        self._check_claim(before)
        self._insert_attempt()
        self.attempts.append(Attempt(self.lane.flying.attempt, self._copy()))
        return True

    def ends(self, attempt: Attempt, ending: Ending, reached: bool, now: datetime) -> None:
        recorded = Promise(attempt.copy.message_id, attempt.number)
        self.happens(ending(recorded.message_id, recorded.number), now)  # type: ignore[arg-type]
        self.recorded.add(recorded)
        may_be_sent = attempt.posted or attempt.shared
        self.traces[recorded] = Trace(ended=True, body_sent=may_be_sent)

    def _check_claim(self, before: Lane) -> None:
        """A wake-up that is lost costs no retry; one that is not lost is all that is sent."""
        if not before.promised:
            return
        if self.lane.flying.retries_spent != before.flying.retries_spent:
            raise Violation(f"a lost wake-up was paid for: {before}, {self.lane}")
        if Promise(before.flying.message_id, before.flying.attempt) in self.recorded:
            raise Violation(f"sent again although it was recorded: {self.lane}")

    def _insert_attempt(self) -> Promise:
        attempt = Promise(self.lane.flying.message_id, self.lane.flying.attempt)
        self.traces[attempt] = Trace(ended=False, body_sent=True)
        return attempt

    def proves_nothing_sent(self, message_id: str) -> bool:
        """What the rows alone say (D18)."""
        own = [trace for of, trace in self.traces.items() if of.message_id == message_id]
        return nothing_was_sent(own, by_mail=False)

    def _copy(self) -> Copy:
        return Copy(self.lane.flying.message_id, self.lane.flying.sequence_number)

    def receives(self, signal: Signal, now: datetime) -> None:
        """It promises what its answer puts in flight."""
        flying = self.lane.in_flight
        self.happens(self._read(signal), now)
        if signal.code is None and self.lane.unsent and self.lane.in_flight != flying:
            self.happens(on.CopyPromised(), now)
            self.promises.append(self._insert_attempt())

    def keeps(self, index: int, now: datetime, ticks: float, *, again: bool = False) -> None:
        """A worker reads what its wake-up names, and has it sent unless that has changed. `again`:
        the wake-up comes to another worker, too."""
        promise, lane = self.promises[index], self.lane
        if again:
            self.named_twice.add(promise)
        else:
            del self.promises[index]
        held = lane.promised and lane.flying.message_id == promise.message_id
        if held and lane.flying.attempt == promise.number and not lane.is_due(now):
            assert lane.due is not None
            left = min(PROMISED_FOR, lane.due - now).total_seconds()
            self.attempts.append(Attempt(promise.number, self._copy(), ticks + left, shared=True))

    def begins(self, attempt: Attempt, now: datetime) -> None:
        """Its worker writes that it sends the copy, if that is still for it to send."""
        promise = Promise(attempt.copy.message_id, attempt.number)
        held = self.lane.promised and self.lane.flying.attempt == attempt.number
        self.happens(on.AttemptBegun(promise.message_id, promise.number, HTTP_DEADLINE), now)
        if held and self.lane.flying.message_id == attempt.copy.message_id:
            self.recorded.add(promise)
            attempt.lapses = None
        elif attempt.lapses is not None:
            attempt.lapses = -math.inf

    def _read(self, signal: Signal) -> on.SenderEvent:
        state = self.messages.get(signal.ref_to_message_id)
        if signal.code is None:
            return self._read_ack(signal.ref_to_message_id, state)
        return _read_error(signal, signal.code, state is State.IN_FLIGHT)

    def _read_ack(self, message_id: str, state: State | None) -> on.SenderEvent:
        if state is State.IN_FLIGHT:
            return on.AckReceived(message_id, self.resumes)
        if state is None:
            return on.AckOfUnknownReceived(message_id)
        return on.AckOfOtherReceived(message_id, cancelled=state is State.CANCELLED)


def _read_error(signal: Signal, code: ErrorCode, in_flight: bool) -> on.SenderEvent:
    message_id, report = signal.ref_to_message_id, ErrorReport(code, code.severity)
    if not in_flight:
        return on.ErrorForOtherReceived(message_id, report)
    if code is ErrorCode.TRANSIENT_ERROR:
        return on.TransientErrorReceived(message_id, signal.min_retry_secs)
    if code in RESYNCHRONISE:
        return on.SequenceErrorReceived(message_id, report)
    return on.ErrorReceived(message_id, report)


class ReceivingHost:
    def __init__(
        self,
        first_number: int,
        on_unexpected_first: OnUnexpectedFirst,
        step: ReceiverStep,
    ) -> None:
        last = first_number - 1
        self.link = ReceivingLink(last if last >= sequence.FIRST else None)
        self.on_unexpected_first = on_unexpected_first
        self.inbox: list[str] = []
        self.withheld: set[str] = set()
        self.pending: list[Signal] = []
        self.full = False
        self.withholds = False
        self._step = step

    @property
    def stored(self) -> set[str]:
        return set(self.inbox)

    def receives(self, copy: Copy, now: datetime) -> None:
        """The link, the inbound row, and the signals pending."""
        known = self._known(copy)
        if self.full and known is Known.NO:
            self.pending.append(Signal(copy.message_id, ErrorCode.TRANSIENT_ERROR, 2))
            return
        arrived = MessageArrived(copy.message_id, copy.order, known, self.on_unexpected_first)
        self.link, effects = self._step(self.link, arrived)
        for effect in effects:
            self._write(effect, copy)

    def _known(self, copy: Copy) -> Known:
        if copy.message_id in self.withheld:
            return Known.WITHHELD
        return Known.SAME if copy.message_id in self.inbox else Known.NO

    def _write(self, effect: do.ReceiverEffect, copy: Copy) -> None:
        match effect:
            case do.Accept():
                self.inbox.append(copy.message_id)
                if self.withholds:
                    self.withheld.add(copy.message_id)
            case do.QueueAck() if copy.message_id not in self.withheld:
                self.pending.append(Signal(copy.message_id))
            case do.QueueError(code, _, description, min_retry_secs):
                if code is not ErrorCode.TRANSIENT_ERROR:
                    raise Violation(f"the pair's numbers are out of sync: {description}")
                self.pending.append(Signal(copy.message_id, code, min_retry_secs))

    def allows_reset(self) -> None:
        """An operator lets the next number 1 in."""
        self.link = replace(self.link, reset_allowed=True)

    def releases(self) -> None:
        """The way onward is complete: what was withheld is acknowledged (D20)."""
        self.withholds = False
        self.pending.extend(Signal(message_id) for message_id in sorted(self.withheld))
        self.withheld.clear()


class LaneWorld(World):
    steps = 80
    sender: SendingHost
    receiver: ReceivingHost

    def __init__(
        self,
        cores: Cores = Cores(),
        first_number: int = 1,
        on_unexpected_first: OnUnexpectedFirst = OnUnexpectedFirst.ACCEPT,
    ) -> None:
        super().__init__(
            SendingHost(first_number, cores.sender),
            ReceivingHost(first_number, on_unexpected_first, cores.receiver),
        )

    @classmethod
    def drawn(cls, draw: random.Random, cores: Cores = Cores()) -> "LaneWorld":
        first = draw.choice((1, 999_999_997, 999_999_999))
        setting = draw.choice((OnUnexpectedFirst.ACCEPT, OnUnexpectedFirst.HOLD))
        world = cls(cores, first, setting)
        world.sender.resumes = draw.choice((True, False))
        return world

    @property
    def message_ids(self) -> list[str]:
        return list(self.sender.messages)

    # --- what may happen ------------------------------------------------------------------

    def happenings(self, draw: random.Random) -> list[Act]:
        acts: list[Act] = [partial(self.withhold, draw)]
        acts += [partial(self.worker_writes, draw)] * bool(self.sender.attempts)
        promised: list[Act] = [partial(self.name, draw), self.sender.promises.clear]
        acts += promised * bool(self.sender.promises)
        silent = self.sender.lane.in_flight and self.sender.lane.suspended_for in SILENCE
        return acts + [partial(self.operator, on.ProbeDue())] * bool(silent)

    def withhold(self, draw: random.Random) -> None:
        self.receiver.releases()
        self.receiver.withholds = draw.random() < 0.5

    def worker_writes(self, draw: random.Random) -> None:
        """In the poll of a worker whose POST is still under way."""
        self.sender.begins(draw.choice(self.sender.attempts), self.now)

    def name(self, draw: random.Random) -> None:
        again = draw.random() < NAMED_AGAIN
        self.worker_is_named(draw.randrange(len(self.sender.promises)), again=again)

    def worker_is_named(self, index: int, *, again: bool = False) -> None:
        self.sender.keeps(index, self.now, self.ticks, again=again)

    def stray(self, draw: random.Random) -> Signal:
        """An Error for any message at all; an Ack only of what is not one of ours."""
        code = draw.choice((None, *ErrorCode))
        return Signal(draw.choice(self.message_ids) if code else "unknown", code)

    def post(self, index: int) -> None:
        attempt = self.sender.attempts[index]
        if attempt.may_begin(self.ticks) and attempt.copy.message_id not in self.first_copies:
            self._check_overlap(attempt.copy)
        super().post(index)

    # --- operators ------------------------------------------------------------------------

    def legal_acts(self) -> list[Act]:
        lane = self.sender.lane
        acts: list[Act] = [self.receiver.allows_reset]
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

    # --- when everything goes well again --------------------------------------------------

    def people_act(self) -> None:
        if self.sender.lane.state is LaneState.SUSPENDED:
            self.operator(on.OperatorResumed())
        self.receiver.allows_reset()

    def time_passes(self) -> None:
        lane = self.sender.lane
        while self.sender.promises:
            self.worker_is_named(0)
        in_hand = lane.promised and self.sender.attempts
        if lane.due is not None and not lane.is_due(self.now) and not in_hand:
            self.passes((lane.due - self.now).total_seconds())

    def heals(self) -> None:
        self.receiver.releases()
        super().heals()

    def is_settled(self) -> bool:
        done = (State.ACKNOWLEDGED, State.CANCELLED)
        return self.sender.lane.state is LaneState.IDLE and all(
            state in done for state in self.sender.messages.values()
        )
