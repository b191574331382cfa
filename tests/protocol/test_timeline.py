"""When copies go, how many, and how it ends: to the second, on the pure cores of both dialects."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.agreement import Terms
from msh.protocol.flight import DeadlinePassed, FlightState, FlightTerms, OnSilence, step
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.protocol.lane import LaneState
from msh.protocol.vocabulary import Severity

from .tables.flight import flight_in
from .tables.form import NOW, after
from .tables.sender import TERMS
from .worker import (
    FLIGHT_TERMS,
    HTTP_DEADLINE,
    Copy,
    Fate,
    FlightWorker,
    LaneWorker,
    acknowledged,
    busy,
    failed,
    refused,
    then,
    told_to_wait,
    transmitted,
    worker_dies,
)

T, I = TERMS.timeout, TERMS.retry_interval  # noqa: E741 (as in the specification's timeline)

WAIT = told_to_wait(30)
_OVER = TERMS.transient_count_limit + 1


def line(
    fates: Sequence[Fate],
    seconds: list[float],
    state: str,
    second: float,
    proves: str = "",
    **changes: Any,
) -> Any:
    """What becomes of the copies, after which the partner is silent; when each copy goes; how it
    ends, and when; what that proves. `changes`: what differs in the terms."""
    marks = [pytest.mark.requirement(*proves.split())] if proves else []
    return pytest.param(changes, fates, seconds, state, second, marks=marks)


_PLAIN = "000-004 000-021 000-022 000-023 000-024 000-026 000-028 000-031 000-032"
_MIX = "000-065 000-068"
LANES = [
    # D4, D6: 1 + Retries copies at 0, T, T+I, ...; suspended at T + Retries x I.
    line([], [0, 60, 80, 100], "suspended", 120, _PLAIN),
    line([], [0], "suspended", 60, "000-022", retries=0),
    # D8: without a connection it waits RetryInterval, and spends one.
    line([failed] * 4, [0, 20, 40, 60], "suspended", 80, "000-065 000-067"),
    # One budget. A copy after a TransientError is no retry; a worker that dies costs its HTTP
    # deadline.
    line([failed], [0, 20, 40, 60], "suspended", 80, _MIX),
    line([transmitted, failed, transmitted, failed], [0, 60, 80, 100], "suspended", 120, _MIX),
    line([failed, failed, WAIT], [0, 20, 40, 70, 90], "suspended", 110, _MIX),
    line([WAIT, failed, failed], [0, 30, 50, 70, 90], "suspended", 110, _MIX),
    line([worker_dies, failed], [0, 90, 110, 130], "suspended", 150, _MIX),
    line([transmitted, worker_dies], [0, 60, 110, 130], "suspended", 150, _MIX),
    line([worker_dies, acknowledged], [0, HTTP_DEADLINE + T], "idle", 90),
    line([refused], [0], "suspended", 0),
    # D54: Retry-After only lengthens, and is capped; RetryInterval is not.
    *(
        line([busy(asked), acknowledged], [0, wait], "idle", wait)
        for asked, wait in ((None, 20), (-1, 20), (5, 20), (50, 50), (100, 100), (1000, 100))
    ),
    line([busy(900), acknowledged], [0, 500], "idle", 500, retry_interval=500),
    # D10, D54: a TransientError is waited for exactly.
    *(
        line(
            [told_to_wait(asked), acknowledged], [0, wait], "idle", wait, "000-079 000-080 000-081"
        )
        for asked, wait in ((30, 30), (0, 1), (1, 1), (None, 20), (-5, 20), (100, 100), (101, 100))
    ),
    # D10, D53: it spends no retry; Timeout after such a copy while none is spent.
    line([WAIT] * 3, [0, 30, 60, 90, 150, 170, 190], "suspended", 210, "000-079 000-083"),
    line([transmitted, *[WAIT] * 3], [0, 60, 90, 120, 150, 170, 190], "suspended", 210, "000-083"),
    # D10: one more than agreed, or for longer than agreed.
    line([WAIT] * _OVER, [0, 30, 60, 90, 120, 150], "suspended", 150),
    line(
        [told_to_wait(100)] * 10,
        [0, 100, 200],
        "suspended",
        300,
        transient_count_limit=1000,
        transient_time_limit=250,
    ),
    # An Ack after any copy.
    line([acknowledged], [0], "idle", 0, "000-030"),
    line([transmitted, acknowledged], [0, 60], "idle", 60, "000-030"),
    line([*[transmitted] * 2, acknowledged], [0, 60, 80], "idle", 80, "000-030"),
    line([*[transmitted] * 3, acknowledged], [0, 60, 80, 100], "idle", 100, "000-030"),
    line([then(failed, on.AckReceived("m1"))], [0], "idle", 0, "000-069"),
]
FLIGHTS = [
    line([], [0, 20, 40, 60], "failed", 80, "EB-080 EB-082"),
    line([], [0], "failed", 20, retries=0),
    # 503 never ends a message before its retries do.
    line(
        [busy(5), busy(50), busy(500), acknowledged],
        [0, 20, 70, 170],
        "acknowledged",
        170,
        "EB-089 EB-090",
    ),
    line([worker_dies, transmitted, worker_dies], [0, 35, 55, 90], "failed", 110),
    # The partner is unreachable: the message waits, its retries unspent.
    line([*[failed] * 4, acknowledged], [0, 20, 40, 60, 80], "acknowledged", 80, "EB-091"),
    # The partner had one copy, and says nothing.
    line([failed, transmitted, failed, failed], [0, 20, 40, 60], "failed", 80, "EB-082"),
    # TimeToLive is meant for partners that are busy: nothing is sent after it.
    line([busy(50), busy(50), acknowledged], [0, 50], "failed", 81, "EB-083", time_to_live=1),
    line([], [0, 20, 40], "failed", 60, "EB-084", persist_duration=45),
    # Retries are reset: the copy that is on its way is the first of them.
    line(
        [*[transmitted] * 3, then(transmitted, on.RetriesReset())],
        [0, 20, 40, 60, 80, 100, 120],
        "failed",
        140,
        "EB-092",
    ),
]

COLUMNS = ("changes", "fates", "seconds", "state", "second")


@pytest.mark.parametrize(COLUMNS, LANES)
def test_copies_of_a_lane(
    changes: dict[str, Any], fates: Sequence[Fate], seconds: list[float], state: str, second: float
) -> None:
    worker = LaneWorker(replace(TERMS, **changes)).sends("m1", *fates)
    assert (worker.seconds, worker.state, worker.second) == (seconds, state, second)


@pytest.mark.parametrize(COLUMNS, FLIGHTS)
def test_copies_of_a_flight(
    changes: dict[str, Any], fates: Sequence[Fate], seconds: list[float], state: str, second: float
) -> None:
    worker = FlightWorker(replace(FLIGHT_TERMS, **changes)).goes_on(*fates)
    assert (worker.seconds, worker.state, worker.second) == (seconds, state, second)


# --- a lane -----------------------------------------------------------------------------------


@pytest.mark.requirement("000-004", "000-031")
@pytest.mark.parametrize(
    ("fates", "kind", "text"),
    [
        ([], IncidentKind.RETRIES_SPENT, "no Acknowledgement after 4 attempts"),
        (
            [WAIT] * _OVER,
            IncidentKind.TRANSIENT_LIMIT,
            "6 TransientErrors since 2026-03-01 12:00:00 UTC",
        ),
    ],
)
def test_a_suspension_is_told_once(fates: list[Fate], kind: IncidentKind, text: str) -> None:
    worker = LaneWorker().sends("m1", *fates)
    kinds = (do.OpenIncident, do.NotifyFromParty)
    assert [effect for effect in worker.effects if isinstance(effect, kinds)] == [
        do.OpenIncident(kind, "m1", text),
        do.NotifyFromParty(PartyEventKind.SUSPENDED, "m1", text, kind),
    ]


@pytest.mark.requirement("000-021", "000-022", "000-024", "000-026")
@given(
    timeout=st.integers(1, 500),
    retries=st.integers(0, 20),
    retry_interval=st.integers(1, 500),
    transmit_seconds=st.integers(0, 29),
)
def test_every_wait_runs_from_the_end_of_the_attempt(
    timeout: int, retries: int, retry_interval: int, transmit_seconds: int
) -> None:
    """D11, for any terms and however long a POST takes."""
    terms = Terms(timeout, retries, retry_interval)
    worker = LaneWorker(terms, transmit_seconds=transmit_seconds).sends()
    first = transmit_seconds + timeout
    later = transmit_seconds + retry_interval
    assert worker.seconds == [0, *(first + k * later for k in range(retries))]
    assert worker.second == first + retries * later
    assert worker.second - (1 + retries) * transmit_seconds == terms.retry_horizon


@pytest.mark.requirement("000-083")
def test_transient_error_during_the_wait_restarts_it() -> None:
    worker = LaneWorker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(told_to_wait(30))
    worker.passes(29)
    worker.happens(on.TransientErrorReceived("m1", 30))
    assert worker.goes_on(acknowledged).seconds == [0, 59]


@pytest.mark.requirement("000-085")
@pytest.mark.parametrize(
    ("changes", "asked", "wait"),
    [
        ({}, 30, 30),
        ({"retry_interval": 7200}, None, 7200),
        ({"transient_wait_limit": 36_000}, 20_000, 20_000),
    ],
)
def test_after_an_ack_the_rest_of_the_wait_is_served_out(
    changes: dict[str, int], asked: int | None, wait: float
) -> None:
    """D28."""
    terms = replace(TERMS, **changes)
    worker = LaneWorker(terms)
    worker.happens(on.LanePolled("m1", terms))
    worker.sends_copy(told_to_wait(asked))
    worker.passes(1)
    completed = worker.happens(on.AckReceived("m1"))
    assert completed == (do.Complete("m1"), do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, "m1"))
    assert worker.happens(on.DeadlinePassed()) == ()
    worker.goes_on()
    assert (worker.lane.state, worker.second) == (LaneState.IDLE, wait)
    assert worker.effects[-1] == do.PollLane()


@pytest.mark.requirement("000-069")
def test_an_ack_may_overtake_the_failure_of_its_own_post() -> None:
    def failed_after_its_ack(copy: object) -> list[on.SenderEvent]:
        return [on.AckReceived("m1"), on.AttemptFailed("m1", 1, "reset")]

    worker = LaneWorker().sends("m1", failed_after_its_ack).sends("m2", acknowledged)
    assert worker.copies == [Copy(0, "m1", 1, 1), Copy(0, "m2", 2, 1)]


# --- a flight ---------------------------------------------------------------------------------


def test_what_a_silent_partner_and_one_that_is_unreachable_are_put_down_to() -> None:
    """EB-082, EB-091."""
    text = "no Acknowledgement after 4 attempts"
    failure = do.Fail("m1", "DeliveryFailure", Severity.WARNING, text)
    assert failure in FlightWorker().goes_on().effects
    report = do.ReportUnreachable("m1", "4 attempts in a row were not answered")
    effects = FlightWorker().goes_on(*[failed] * 4, acknowledged).effects
    assert [one for one in effects if isinstance(one, do.ReportUnreachable)] == [report]


@given(retries=st.integers(0, 20), retry_interval=st.integers(1, 500), silent=st.integers(0, 20))
def test_copies_are_an_interval_apart(retries: int, retry_interval: int, silent: int) -> None:
    """EB-080, for any terms: 1 + Retries copies, unless one of them is acknowledged."""
    terms = FlightTerms(retry_interval, retries, retry_interval)
    worker = FlightWorker(terms).goes_on(*[transmitted] * silent, acknowledged)
    copies = min(silent, retries) + 1
    assert worker.seconds == [retry_interval * k for k in range(copies)]
    assert (worker.state == FlightState.ACKNOWLEDGED) is (silent <= retries)


@pytest.mark.parametrize(("asked", "end"), [(0, None), (1, 81), (81, 81), (90, 90), (1000, 1000)])
def test_time_to_live_is_never_shorter_than_the_retries(asked: int, end: float | None) -> None:
    """EB-083."""
    terms = replace(FLIGHT_TERMS, time_to_live=asked)
    assert terms.expiry(NOW) == (None if end is None else after(end))


def test_time_to_live_begins_when_the_message_is_composed() -> None:
    """EB-083: the copies of a message that waited in the queue have all their time."""
    worker = FlightWorker(replace(FLIGHT_TERMS, time_to_live=90))
    worker.passes(1000)
    assert worker.goes_on().seconds == [1000, 1020, 1040, 1060]
    assert (worker.state, worker.second) == (FlightState.FAILED, 1080)


def test_held_message_goes_again_with_all_its_retries() -> None:
    """EB-092."""
    worker = FlightWorker(on_silence=OnSilence.HOLD).goes_on()
    assert (worker.state, worker.second) == (FlightState.HELD, 80)
    worker.happens(on.OperatorResumed())
    assert worker.goes_on().seconds == [20 * k for k in range(8)]


def test_send_now_spends_nothing() -> None:
    """EB-092."""
    worker = FlightWorker(on_silence=OnSilence.HOLD)
    worker.goes_on(transmitted, then(transmitted, on.SendNowRequested()))
    assert worker.seconds == [0, 20, 20, 40, 60]
    worker.happens(on.SendNowRequested())
    assert worker.goes_on().seconds == [0, 20, 20, 40, 60, 80]


@pytest.mark.parametrize(("back", "due"), [(0, False), (180, False), (181, True)])
def test_clock_that_was_set_back_does_not_stop_a_flight(back: float, due: bool) -> None:
    """D13: the longest wait here is the 100 s of Retry-After."""
    worker = FlightWorker()
    worker.sends_copy(transmitted)
    state = step(worker.flight, DeadlinePassed(), now=after(-back))[0].state
    assert state is (FlightState.READY if due else FlightState.WAITING)


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
