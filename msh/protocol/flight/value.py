"""One reliable ebMS message on its way: its state, its copies, its times."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from msh.protocol.agreement import Terms


class FlightState(StrEnum):
    READY = "ready"
    WAITING = "waiting"
    HELD = "held"
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    CANCELLED = "cancelled"


class OnSilence(StrEnum):
    """The agreement's `on_failure`: what a message does whose retries are spent."""

    FAIL = "fail"
    """The message fails, and the From-Party is notified of a DeliveryFailure, as the specification
    says (EB-082)."""
    HOLD = "hold"
    """The message waits for an operator, as with the draft (D4)."""


@dataclass(frozen=True, slots=True)
class FlightTerms(Terms):
    """The reliable messaging parameters of an ebMS agreement; `timeout` is its RetryInterval.

    `time_to_live` and `persist_duration` in seconds from the time when the message is composed;
    0: the message has none.
    """

    time_to_live: int = 0
    persist_duration: int = 0

    def expiry(self, composed_at: datetime) -> datetime | None:
        """The TimeToLive of a message, never shorter than its retries (EB-083)."""
        if not self.time_to_live:
            return None
        shortest = (self.retries + 1) * self.retry_interval + 1
        return composed_at + timedelta(seconds=max(self.time_to_live, shortest))

    def end_of_copies(self, composed_at: datetime) -> datetime | None:
        """The time from which on the MessageId may not be sent again (EB-084)."""
        if not self.persist_duration:
            return None
        return composed_at + timedelta(seconds=self.persist_duration)


@dataclass(frozen=True, slots=True)
class Flight:
    """`attempt` numbers the copies and never starts again; `copies` counts those of the present
    budget, which is 1 + Retries and which an operator may renew.

    `under_way`: the message has one of the places of its window. `carried`: a copy of it was
    answered 2xx. `reached` and `unreached` are about the present budget: a copy came through; how
    many failed in transport. Of `unsent` attempts it is certain that not a byte has left us.
    `expires_at` and `persists_until` are set when a copy is composed, and again as long as nothing
    has left. `number` is that of MessageOrder.
    `held_for`: an IncidentKind or OPERATOR while held, else empty.
    """

    message_id: str
    terms: FlightTerms
    on_silence: OnSilence = OnSilence.FAIL
    state: FlightState = FlightState.READY
    attempt: int = 0
    copies: int = 0
    under_way: bool = False
    carried: bool = False
    reached: bool = False
    unreached: int = 0
    due: datetime | None = None
    expires_at: datetime | None = None
    persists_until: datetime | None = None
    number: int | None = None
    held_for: str = ""
    unsent: int = 0

    @property
    def retry_interval(self) -> timedelta:
        return timedelta(seconds=self.terms.retry_interval)

    @property
    def has_left(self) -> bool:
        """True unless it is certain that nobody has seen a byte of it."""
        return self.attempt > self.unsent

    @property
    def budget_spent(self) -> bool:
        return self.copies > self.terms.retries

    def is_due(self, now: datetime) -> bool:
        """True if the due time is over, or so far away that the clock must have jumped (D13)."""
        return self.due is not None and (
            self.due <= now or self.due > now + self.terms.farthest_wait
        )

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def why_not_sent_again(self, now: datetime) -> str:
        """Why no further copy may leave, whoever asks for it; empty if one may."""
        if self.is_expired(now):
            return "past its TimeToLive"
        if self.persists_until is not None and self.persists_until <= now:
            return "past its PersistDuration"
        return ""

    @property
    def ends_at(self) -> datetime | None:
        """When Expired is due, beside `due`."""
        times = [self.expires_at]
        if self.state is FlightState.READY:
            times.append(self.persists_until)
        return min((time for time in times if time is not None), default=None)

    def departs(self, http_deadline: float, now: datetime) -> "Flight":
        """A worker takes a copy. One that dies after it leaves an ordinary deadline behind."""
        return replace(
            self,
            state=FlightState.WAITING,
            attempt=self.attempt + 1,
            under_way=True,
            due=now + timedelta(seconds=http_deadline) + self.retry_interval,
            expires_at=self.expires_at or (None if self.has_left else self.terms.expiry(now)),
            persists_until=(
                self.persists_until if self.has_left else self.terms.end_of_copies(now)
            ),
        )

    def sent_nothing(self) -> "Flight":
        """The latest attempt. If none has sent anything, its life has not begun."""
        after = replace(self, unsent=self.unsent + 1)
        return after if after.has_left else replace(after, expires_at=None, persists_until=None)

    def is_ready(self, now: datetime) -> "Flight":
        """A copy waits for a worker, from `now` on. What was learnt of the partner stays."""
        return replace(self, state=FlightState.READY, due=now, held_for="")

    def with_fresh_retries(self) -> "Flight":
        return replace(self, copies=0, reached=False, unreached=0)

    def stops(self, state: FlightState, held_for: str = "") -> "Flight":
        """No copy is to be sent any more, or not before an operator says so: its place is free."""
        return replace(self, state=state, under_way=False, due=None, held_for=held_for)
