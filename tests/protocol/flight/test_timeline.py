"""When copies of a flight go, how many, and how it ends: to the second, on the pure core."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.flight import (
    DeadlinePassed,
    Expired,
    Flight,
    FlightEvent,
    FlightState,
    FlightTerms,
    OnSilence,
    step,
)
from msh.protocol.vocabulary import Severity
from tests.protocol.tables.flight import flight_in
from tests.protocol.tables.form import NOW, after

HTTP_DEADLINE = 15.0
TERMS = FlightTerms(timeout=20, retries=3, retry_interval=20, transient_wait_limit=100)
Fate = Callable[[Flight], Iterable[FlightEvent]]


def transmitted(copy: Flight) -> Iterable[FlightEvent]:
    return (on.AttemptTransmitted(copy.message_id, copy.attempt),)


def unreachable(copy: Flight) -> Iterable[FlightEvent]:
    return (on.AttemptFailed(copy.message_id, copy.attempt, "refused", unreachable=True),)


def busy(seconds: float) -> Fate:
    def fate(copy: Flight) -> Iterable[FlightEvent]:
        attempt = (copy.message_id, copy.attempt)
        return (on.AttemptFailed(*attempt, "503", retry_after=seconds, unreachable=True),)

    return fate


def worker_dies(copy: Flight) -> Iterable[FlightEvent]:
    return ()


def acknowledged(copy: Flight) -> Iterable[FlightEvent]:
    return (*transmitted(copy), on.AckReceived(copy.message_id))


class Worker:
    """Sends what the flight says, and lets every deadline pass exactly when it is due. The partner
    is asked for nothing else, so `failures` are those of this message."""

    def __init__(self, terms: FlightTerms = TERMS, **changes: object) -> None:
        self.now = NOW
        self.flight = replace(Flight("m1", terms, due=NOW), **changes)  # type: ignore[arg-type]
        self.seconds: list[float] = []
        self.failures = 0
        self.effects: list[do.FlightEffect] = []

    @property
    def second(self) -> float:
        return (self.now - NOW).total_seconds()

    def happens(self, event: FlightEvent) -> None:
        if isinstance(event, on.AttemptEvent):
            silent = isinstance(event, on.AttemptFailed) and event.unreachable
            self.failures = self.failures + 1 if silent else 0
        self.flight, effects = step(self.flight, event, now=self.now)
        self.effects.extend(effects)

    def goes_on(self, *fates: Fate) -> "Worker":
        """Until it rests; after `fates` the partner takes copies and says nothing."""
        coming = chain(fates, repeat(transmitted))
        while self.flight.state in (FlightState.READY, FlightState.WAITING):
            if self.flight.state is FlightState.READY:
                self.happens(on.AttemptClaimed(HTTP_DEADLINE))
                self.seconds.append(self.second)
                for event in next(coming)(self.flight):
                    self.happens(event)
            else:
                times = [time for time in (self.flight.due, self.flight.ends_at) if time]
                self.now = max(self.now, min(times))
                self._time_is_over()
        return self

    def _time_is_over(self) -> None:
        ends_at = self.flight.ends_at
        if ends_at is not None and ends_at <= self.now:
            self.happens(Expired())
        else:
            self.happens(DeadlinePassed(self.failures))


def ends(worker: Worker) -> tuple[list[float], FlightState, float]:
    return worker.seconds, worker.flight.state, worker.second


def test_a_silent_partner_gets_every_copy_in_time_and_then_nothing() -> None:
    """EB-080, EB-082."""
    worker = Worker().goes_on()
    assert ends(worker) == ([0, 20, 40, 60], FlightState.FAILED, 80)
    text = "no Acknowledgement after 4 attempts"
    assert do.Fail("m1", "DeliveryFailure", Severity.WARNING, text) in worker.effects


def test_no_retries_means_one_copy() -> None:
    assert ends(Worker(replace(TERMS, retries=0)).goes_on()) == ([0], FlightState.FAILED, 20)


@given(retries=st.integers(0, 20), retry_interval=st.integers(1, 500), silent=st.integers(0, 20))
def test_copies_are_an_interval_apart(retries: int, retry_interval: int, silent: int) -> None:
    """EB-080, for any terms: 1 + Retries copies, unless one of them is acknowledged."""
    terms = FlightTerms(retry_interval, retries, retry_interval)
    worker = Worker(terms).goes_on(*[transmitted] * silent, acknowledged)
    copies = min(silent, retries) + 1
    assert worker.seconds == [retry_interval * k for k in range(copies)]
    assert (worker.flight.state is FlightState.ACKNOWLEDGED) is (silent <= retries)


def test_503_never_ends_a_message_before_its_retries_do() -> None:
    """EB-090, EB-089."""
    worker = Worker().goes_on(busy(5), busy(50), busy(500), acknowledged)
    assert ends(worker) == ([0, 20, 70, 170], FlightState.ACKNOWLEDGED, 170)


def test_worker_that_dies_costs_its_http_deadline() -> None:
    worker = Worker().goes_on(worker_dies, transmitted, worker_dies)
    assert ends(worker) == ([0, 35, 55, 90], FlightState.FAILED, 110)


def test_partner_that_is_unreachable_costs_no_message() -> None:
    """EB-091: the message waits, its retries unspent."""
    worker = Worker().goes_on(*[unreachable] * 4, acknowledged)
    assert worker.seconds == [0, 20, 40, 60, 80]
    report = do.ReportUnreachable("m1", "4 attempts in a row were not answered")
    assert [one for one in worker.effects if isinstance(one, do.ReportUnreachable)] == [report]


def test_one_copy_that_came_through_makes_it_the_message() -> None:
    """EB-082: the partner had it, and says nothing."""
    worker = Worker().goes_on(unreachable, transmitted, unreachable, unreachable)
    assert ends(worker) == ([0, 20, 40, 60], FlightState.FAILED, 80)


@pytest.mark.parametrize(("asked", "end"), [(0, None), (1, 81), (81, 81), (90, 90), (1000, 1000)])
def test_time_to_live_is_never_shorter_than_the_retries(asked: int, end: float | None) -> None:
    """EB-083."""
    terms = replace(TERMS, time_to_live=asked)
    assert terms.expiry(NOW) == (None if end is None else after(end))


def test_time_to_live_ends_a_message_whose_partner_keeps_it_waiting() -> None:
    """EB-083: meant for partners that are busy; nothing is sent after it."""
    worker = Worker(replace(TERMS, time_to_live=1)).goes_on(busy(50), busy(50), acknowledged)
    assert ends(worker) == ([0, 50], FlightState.FAILED, 81)


def test_time_to_live_begins_when_the_message_is_composed() -> None:
    """EB-083: the copies of a message that waited in the queue have all their time."""
    worker = Worker(replace(TERMS, time_to_live=90))
    worker.now = after(1000)
    assert ends(worker.goes_on()) == ([1000, 1020, 1040, 1060], FlightState.FAILED, 1080)


def test_persist_duration_ends_the_copies() -> None:
    """EB-084."""
    worker = Worker(replace(TERMS, persist_duration=45)).goes_on()
    assert ends(worker) == ([0, 20, 40], FlightState.FAILED, 60)


def test_held_message_goes_again_with_all_its_retries() -> None:
    """EB-092."""
    worker = Worker(on_silence=OnSilence.HOLD).goes_on()
    assert ends(worker) == ([0, 20, 40, 60], FlightState.HELD, 80)
    worker.happens(on.OperatorResumed())
    assert ends(worker.goes_on())[0] == [0, 20, 40, 60, 80, 100, 120, 140]


def test_send_now_spends_nothing() -> None:
    """EB-092."""
    worker = Worker(on_silence=OnSilence.HOLD)

    def asked_for(copy: Flight) -> Iterable[FlightEvent]:
        return (*transmitted(copy), on.SendNowRequested())

    worker.goes_on(transmitted, asked_for)
    assert worker.seconds == [0, 20, 20, 40, 60]
    worker.happens(on.SendNowRequested())
    assert worker.goes_on().seconds == [0, 20, 20, 40, 60, 80]


def test_reset_retries_gives_the_budget_back() -> None:
    """EB-092: the copy that is on its way is the first of it."""

    def renewed(copy: Flight) -> Iterable[FlightEvent]:
        return (*transmitted(copy), on.RetriesReset())

    worker = Worker().goes_on(transmitted, transmitted, transmitted, renewed)
    assert worker.seconds == [20 * k for k in range(7)]


@pytest.mark.parametrize(
    ("back", "due"), [(0, False), (180, False), (181, True)], ids=["now", "near", "too far"]
)
def test_clock_that_was_set_back_does_not_stop_a_flight(back: float, due: bool) -> None:
    """D13: the longest wait here is the 100 s of Retry-After."""
    worker = Worker()
    worker.happens(on.AttemptClaimed(HTTP_DEADLINE))
    worker.happens(on.AttemptTransmitted("m1", 1))
    now: datetime = after(-back)
    assert step(worker.flight, DeadlinePassed(), now=now)[0].state is (
        FlightState.READY if due else FlightState.WAITING
    )


@pytest.mark.parametrize(
    ("column", "expires", "persists", "end"),
    [
        ("ready", 500, 800, 500),
        ("ready", 900, 800, 800),
        ("ready", None, None, None),
        ("waiting", 900, 800, 900),
        ("held", None, 800, None),
    ],
)
def test_a_copy_may_end_before_the_message_does(
    column: str, expires: float | None, persists: float | None, end: float | None
) -> None:
    """EB-083, EB-084: PersistDuration forbids copies, TimeToLive ends the message."""
    times = [None if time is None else after(time) for time in (expires, persists, end)]
    flight = replace(flight_in(column), expires_at=times[0], persists_until=times[1])
    assert flight.ends_at == times[2]
