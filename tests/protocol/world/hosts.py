"""A Sender and a Receiver around the pure cores: what their disks hold, what a crash loses.

Every method that changes something is one transaction: it happens or it does not.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol import receiver, sender, sequence
from msh.protocol.agreement import Terms
from msh.protocol.attempt import Trace, nothing_was_sent
from msh.protocol.kinds import OnUnexpectedFirst
from msh.protocol.lane import PROMISED_FOR, Lane, LaneState
from msh.protocol.message import ErrorReport
from msh.protocol.receiver import Known, MessageArrived, ReceivingLink
from msh.protocol.vocabulary import RESYNCHRONISE, ErrorCode

TERMS = Terms(
    timeout=5,
    retries=2,
    retry_interval=3,
    transient_count_limit=3,
    transient_time_limit=60,
    transient_wait_limit=10,
)
HTTP_DEADLINE = 4.0

SenderStep = Callable[[Lane, on.SenderEvent, datetime], sender.Outcome]
ReceiverStep = Callable[[ReceivingLink, MessageArrived], receiver.Outcome]


class Violation(AssertionError):
    """The exchange broke a promise."""


class State(StrEnum):
    QUEUED = "queued"
    IN_FLIGHT = "in_flight"
    ACKNOWLEDGED = "acknowledged"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Copy:
    """One copy of a message on the wire."""

    message_id: str
    sequence_number: int


@dataclass(frozen=True)
class Signal:
    """An Acknowledgement, or an Error if there is a code."""

    ref_to_message_id: str
    code: ErrorCode | None = None
    min_retry_secs: int | None = None


@dataclass
class Attempt:
    """A copy in the hands of a worker: lost in a crash. `lapses`: when a worker that it was
    promised to may not begin any more, by a clock that nobody sets; None: no row says otherwise.
    `shared`: another worker may have been given the same one."""

    number: int
    copy: Copy
    lapses: float | None = None
    posted: bool = False
    shared: bool = False

    def may_begin(self, ticks: float) -> bool:
        return not self.posted and (self.lapses is None or ticks <= self.lapses)


@dataclass(frozen=True)
class Promise:
    """A wake-up on its way to a worker."""

    message_id: str
    number: int


def pure_sender(lane: Lane, event: on.SenderEvent, now: datetime) -> sender.Outcome:
    return sender.step(lane, event, now=now)


class SendingHost:
    def __init__(self, first_number: int, step: SenderStep = pure_sender) -> None:
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

    def happens(self, event: on.SenderEvent, now: datetime) -> None:
        """One transaction: the step, and the effects that must not be lost."""
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
        """What the clock's task does: look at an idle lane, let a deadline pass."""
        if self.lane.state is LaneState.IDLE:
            self.happens(on.LanePolled(self.head, TERMS), now)
        elif self.lane.is_due(now) and not self.lane.unsent:
            self.happens(on.DeadlinePassed(), now)

    def claims(self, now: datetime) -> None:
        """A worker takes the copy that is to be sent."""
        waits_no_more = (
            self.lane.state is LaneState.TRANSIENT
            and self.lane.in_flight is not None
            and self.lane.is_due(now)
        )
        if waits_no_more or (self.lane.unsent and self.lane.is_due(now)):
            before = self.lane
            self.happens(on.AttemptClaimed(HTTP_DEADLINE), now)
            self._check_claim(before)
            self._insert_attempt()
            self.attempts.append(Attempt(self.lane.flying.attempt, self._copy()))

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
        """One transaction, which promises what its answer puts in flight."""
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

    def crashes(self) -> None:
        self.attempts.clear()

    def loses_wake_ups(self) -> None:
        self.promises.clear()


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
        step: ReceiverStep = receiver.step,
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

    def receives(self, copy: Copy) -> None:
        """One transaction: the link, the inbound row, and the signals pending."""
        known = self._known(copy)
        if self.full and known is Known.NO:
            self.pending.append(Signal(copy.message_id, ErrorCode.TRANSIENT_ERROR, 2))
            return
        arrived = MessageArrived(
            copy.message_id, copy.sequence_number, known, self.on_unexpected_first
        )
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
