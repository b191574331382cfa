"""A worker and a sweep without a network: every copy goes the moment it may, never late."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any, Self

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol import flight as flights
from msh.protocol.agreement import Terms
from msh.protocol.flight import Flight, FlightState, FlightTerms
from msh.protocol.lane import Lane, LaneState
from msh.protocol.sender import step

from .tables.form import NOW
from .tables.sender import TERMS

HTTP_DEADLINE = 30.0
FLIGHT_TERMS = FlightTerms(timeout=20, retries=3, retry_interval=20, transient_wait_limit=100)

Fate = Callable[[Any], Iterable[Any]]
"""What becomes of one copy (InFlight or Flight): the events that follow when its attempt ends."""


def transmitted(copy: Any) -> Iterable[Any]:
    return (on.AttemptTransmitted(copy.message_id, copy.attempt),)


def failed(copy: Any) -> Iterable[Any]:
    detail = "connection refused"
    return (on.AttemptFailed(copy.message_id, copy.attempt, detail, unreachable=True),)


def busy(seconds: float | None) -> Fate:
    """503, and when the partner asks for the next copy, if it does."""

    def fate(copy: Any) -> Iterable[Any]:
        of = (copy.message_id, copy.attempt, "503")
        return (on.AttemptFailed(*of, retry_after=seconds, unreachable=True),)

    return fate


def refused(copy: Any) -> Iterable[Any]:
    return (on.AttemptRefused(copy.message_id, copy.attempt, "400"),)


def worker_dies(copy: Any) -> Iterable[Any]:
    return ()


def acknowledged(copy: Any) -> Iterable[Any]:
    return (*transmitted(copy), on.AckReceived(copy.message_id))


def told_to_wait(seconds: int | None) -> Fate:
    def fate(copy: Any) -> Iterable[Any]:
        return (*transmitted(copy), on.TransientErrorReceived(copy.message_id, seconds))

    return fate


def then(fate: Fate, *events: Any) -> Fate:
    """And these events follow."""
    return lambda copy: (*fate(copy), *events)


@dataclass(frozen=True)
class Copy:
    second: float
    message_id: str
    sequence_number: int
    attempt: int


class LaneWorker:
    """Sends what the lane says, and lets every deadline pass exactly when it is due."""

    http_deadline = HTTP_DEADLINE

    def __init__(
        self, terms: Terms = TERMS, lane: Lane | None = None, transmit_seconds: float = 0
    ) -> None:
        self.terms = terms
        self.lane = lane or Lane()
        self.transmit_seconds = transmit_seconds
        self.now = NOW
        self.copies: list[Copy] = []
        self.seconds: list[float] = []
        """When each copy went."""
        self.effects: list[Any] = []

    @property
    def state(self) -> str:
        return self.lane.state

    @property
    def second(self) -> float:
        return (self.now - NOW).total_seconds()

    def happens(self, event: on.SenderEvent) -> tuple[do.SenderEffect, ...]:
        self.lane, effects = step(self.lane, event, now=self.now)
        self.effects.extend(effects)
        return effects

    def has_copy(self) -> bool:
        """Is there one to be sent?"""
        return self.lane.unsent

    def due(self) -> datetime | None:
        """When the wait is over; None: it rests."""
        waits = self.lane.state in (LaneState.WAITING, LaneState.TRANSIENT)
        return self.lane.due if waits else None

    def time_is_over(self) -> None:
        self.happens(on.DeadlinePassed())

    def claimed(self) -> Any:
        """That of which a copy was claimed."""
        copy = self.lane.flying
        self.copies.append(Copy(self.second, copy.message_id, copy.sequence_number, copy.attempt))
        return copy

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def sends(self, message_id: str = "m1", *fates: Fate) -> Self:
        """Put a message in flight and go on until the lane rests."""
        self.happens(on.LanePolled(message_id, self.terms))
        return self.goes_on(*fates)

    def goes_on(self, *fates: Fate) -> Self:
        """Go on until it rests. After `fates` the partner takes copies and says nothing."""
        coming = chain(fates, repeat(transmitted))
        while self.has_copy() or self.due():
            if self.has_copy():
                self.sends_copy(next(coming))
            else:
                self.now = max(self.now, self.due() or self.now)
                self.time_is_over()
        return self

    def sends_copy(self, fate: Fate) -> None:
        """One attempt, from its claim to its end."""
        self.happens(on.AttemptClaimed(self.http_deadline))
        self.seconds.append(self.second)
        copy = self.claimed()
        self.passes(self.transmit_seconds)
        for event in fate(copy):
            self.happens(event)


class FlightWorker(LaneWorker):
    """The same for a flight. The partner is asked for nothing else, so `failures` are those of this
    message."""

    http_deadline = 15.0

    def __init__(self, terms: FlightTerms = FLIGHT_TERMS, **changes: Any) -> None:
        super().__init__()
        self.flight = replace(Flight("m1", terms, due=NOW), **changes)
        self.failures = 0

    @property
    def state(self) -> str:
        return self.flight.state

    def happens(self, event: Any) -> Any:
        if isinstance(event, on.AttemptEvent):
            silent = isinstance(event, on.AttemptFailed) and event.unreachable
            self.failures = self.failures + 1 if silent else 0
        self.flight, effects = flights.step(self.flight, event, now=self.now)
        self.effects.extend(effects)
        return effects

    def has_copy(self) -> bool:
        return self.flight.state is FlightState.READY

    def due(self) -> datetime | None:
        times = [time for time in (self.flight.due, self.flight.ends_at) if time]
        return min(times) if self.flight.state is FlightState.WAITING else None

    def time_is_over(self) -> None:
        ends_at = self.flight.ends_at
        ended = ends_at is not None and ends_at <= self.now
        self.happens(flights.Expired() if ended else flights.DeadlinePassed(self.failures))

    def claimed(self) -> Flight:
        return self.flight
