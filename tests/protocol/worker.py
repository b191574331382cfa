"""A worker and a sweep without a network: every copy goes the moment it may, never late."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, repeat

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.agreement import Terms
from msh.protocol.lane import InFlight, Lane, LaneState
from msh.protocol.sender import step

from .tables.form import NOW
from .tables.sender import TERMS

HTTP_DEADLINE = 30.0

Fate = Callable[[InFlight], Iterable[on.SenderEvent]]
"""What becomes of one copy: the events that follow when its attempt ends."""


def transmitted(copy: InFlight) -> Iterable[on.SenderEvent]:
    return (on.AttemptTransmitted(copy.message_id, copy.attempt),)


def failed(copy: InFlight) -> Iterable[on.SenderEvent]:
    return (on.AttemptFailed(copy.message_id, copy.attempt, "connection refused"),)


def refused(copy: InFlight) -> Iterable[on.SenderEvent]:
    return (on.AttemptRefused(copy.message_id, copy.attempt, "400"),)


def worker_dies(copy: InFlight) -> Iterable[on.SenderEvent]:
    return ()


def acknowledged(copy: InFlight) -> Iterable[on.SenderEvent]:
    return (*transmitted(copy), on.AckReceived(copy.message_id))


def told_to_wait(seconds: int | None) -> Fate:
    def fate(copy: InFlight) -> Iterable[on.SenderEvent]:
        return (*transmitted(copy), on.TransientErrorReceived(copy.message_id, seconds))

    return fate


@dataclass(frozen=True)
class Copy:
    second: float
    message_id: str
    sequence_number: int
    attempt: int


class Worker:
    """Sends what the lane says, and lets every deadline pass exactly when it is due."""

    def __init__(
        self, terms: Terms = TERMS, lane: Lane | None = None, *, transmit_seconds: float = 0
    ) -> None:
        self.terms = terms
        self.lane = lane or Lane()
        self.transmit_seconds = transmit_seconds
        self.now = NOW
        self.copies: list[Copy] = []
        self.effects: list[do.SenderEffect] = []

    @property
    def second(self) -> float:
        return (self.now - NOW).total_seconds()

    @property
    def seconds(self) -> list[float]:
        """When each copy went."""
        return [copy.second for copy in self.copies]

    def happens(self, event: on.SenderEvent) -> tuple[do.SenderEffect, ...]:
        self.lane, effects = step(self.lane, event, now=self.now)
        self.effects.extend(effects)
        return effects

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def sends(self, message_id: str, *fates: Fate) -> "Worker":
        """Put a message in flight and go on until the lane rests. After `fates`: silence."""
        self.happens(on.LanePolled(message_id, self.terms))
        return self.goes_on(*fates)

    def goes_on(self, *fates: Fate) -> "Worker":
        """Go on until the lane rests."""
        coming = chain(fates, repeat(transmitted))
        while self.lane.state in (LaneState.WAITING, LaneState.TRANSIENT):
            if self.lane.unsent:
                self.sends_copy(next(coming))
            else:
                assert self.lane.due is not None
                self.now = max(self.now, self.lane.due)
                self.happens(on.DeadlinePassed())
        return self

    def sends_copy(self, fate: Fate) -> None:
        """One attempt, from its claim to its end."""
        self.happens(on.AttemptClaimed(HTTP_DEADLINE))
        copy = self.lane.flying
        self.copies.append(Copy(self.second, copy.message_id, copy.sequence_number, copy.attempt))
        self.passes(self.transmit_seconds)
        for event in fate(copy):
            self.happens(event)
