"""The Sender's lane: one per pair, at most one reliable message in flight (000 §2.1.3)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from . import sequence
from .agreement import Terms

OPERATOR = "operator"
"""Why a lane is suspended, if no incident of its own was the reason."""

PROMISED_FOR = timedelta(seconds=1)
"""The time for which a promised copy is reserved for one worker. Its wake-up takes milliseconds."""

EMPTY_LANE_HORIZON = timedelta(days=7)
"""A transient wait that outlives its message is at most so far away: no agreement may grant more
(`transient_wait_limit`, D28)."""


class LaneState(StrEnum):
    IDLE = "idle"
    WAITING = "waiting"
    TRANSIENT = "transient"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class InFlight:
    """The message in flight. `attempt` numbers its copies and never starts again; the retry
    counter `retries_spent` does."""

    message_id: str
    sequence_number: int
    terms: Terms
    attempt: int = 0
    retries_spent: int = 0
    transients: int = 0
    transient_since: datetime | None = None

    @property
    def wait(self) -> timedelta:
        """The time to wait for an answer after a copy was sent (000 §2.1.4.1, D53)."""
        terms = self.terms
        return timedelta(seconds=terms.retry_interval if self.retries_spent else terms.timeout)

    @property
    def probing(self) -> bool:
        """True if the copy is a probe: one beyond the budget, which has no retry (D41)."""
        return self.retries_spent > 0 and self.retries_spent > self.terms.retries

    def probes(self) -> "InFlight":
        return replace(self, retries_spent=self.terms.retries + 1)

    def with_fresh_retries(self) -> "InFlight":
        return replace(self, retries_spent=0, transients=0, transient_since=None)

    def transient_limit_reached(self, now: datetime) -> bool:
        if self.transient_since is None:
            return False
        held = now - self.transient_since
        return self.transients > self.terms.transient_count_limit or held >= timedelta(
            seconds=self.terms.transient_time_limit
        )


@dataclass(frozen=True, slots=True)
class Lane:
    """`unsent`: a copy of the message in flight waits for a worker; then `due` is when it may go.
    `promised`: that copy has its attempt number, and until `due` only the worker that its wake-up
    names may send it.
    `late_ack`: while suspended, the message was acknowledged after all (D12). `suspended_for`: an
    IncidentKind or OPERATOR while suspended, else empty."""

    state: LaneState = LaneState.IDLE
    next_number: int = sequence.FIRST
    epoch: int = 1
    in_flight: InFlight | None = None
    due: datetime | None = None
    unsent: bool = False
    promised: bool = False
    late_ack: bool = False
    suspended_for: str = ""

    @property
    def flying(self) -> InFlight:
        """The message in flight, where the state says that there is one."""
        if self.in_flight is None:
            raise AssertionError(f"{self.state} with nothing in flight")
        return self.in_flight

    @property
    def attempt_to_send(self) -> int:
        """The number of the copy that is unsent."""
        return self.flying.attempt + (0 if self.promised else 1)

    def is_due(self, now: datetime) -> bool:
        """True if the due time is over, or so far away that the clock must have jumped (D13)."""
        if self.due is None or self.due <= now:
            return self.due is not None
        flying = self.in_flight
        return self.due > now + (flying.terms.farthest_wait if flying else EMPTY_LANE_HORIZON)

    def takes(self, message_id: str, terms: Terms, now: datetime, attempts: int = 0) -> "Lane":
        """Put a message in flight under the next number."""
        after = replace(
            self,
            next_number=sequence.following(self.next_number),
            epoch=sequence.epoch_following(self.next_number, self.epoch),
        )
        return after.transmits(InFlight(message_id, self.next_number, terms, attempts), now)

    def transmits(self, in_flight: InFlight, now: datetime) -> "Lane":
        return replace(
            self,
            state=LaneState.WAITING,
            in_flight=in_flight,
            due=now,
            unsent=True,
            promised=False,
            suspended_for="",
        )

    def suspends(self, cause: str) -> "Lane":
        sent = self.has_no_copy_to_send()
        return replace(sent, state=LaneState.SUSPENDED, due=None, suspended_for=cause)

    def has_no_copy_to_send(self) -> "Lane":
        return replace(self, unsent=False, promised=False)

    def rests(self) -> "Lane":
        return replace(self, state=LaneState.IDLE, due=None, late_ack=False, suspended_for="")

    def ends_flight(self) -> "Lane":
        """Nothing is in flight any more. A transient wait is waited for to its end (D28)."""
        lane = replace(self.has_no_copy_to_send(), in_flight=None)
        if self.state is LaneState.WAITING:
            return replace(lane, state=LaneState.IDLE, due=None)
        return lane

    def takes_back(self, number: int) -> "Lane":
        """The number of the message in flight is used again by the next one (D18)."""
        epoch = self.epoch - 1 if number == sequence.LAST else self.epoch
        return replace(self, next_number=number, epoch=epoch)

    def restarts(self, number: int = sequence.FIRST) -> "Lane":
        return replace(self, next_number=number, epoch=self.epoch + 1)
