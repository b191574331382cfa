"""When copies go, how many, and when the lane is suspended: exact, on the pure core."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.agreement import Terms
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.protocol.lane import LaneState

from .tables.sender import TERMS
from .worker import (
    HTTP_DEADLINE,
    Copy,
    Fate,
    Worker,
    acknowledged,
    failed,
    refused,
    told_to_wait,
    transmitted,
    worker_dies,
)

T, I = TERMS.timeout, TERMS.retry_interval  # noqa: E741 (as in the specification's timeline)


def suspensions(worker: Worker) -> list[do.SenderEffect]:
    """What operators and the From-Party were told of suspensions."""
    kinds = (do.OpenIncident, do.NotifyFromParty)
    return [effect for effect in worker.effects if isinstance(effect, kinds)]


@pytest.mark.requirement(
    *("000-004", "000-021", "000-022", "000-023", "000-024", "000-026", "000-028", "000-031"),
    *("000-032",),
)
def test_a_silent_partner_gets_every_copy_in_time_and_then_nothing() -> None:
    """D4, D6: 1 + Retries copies at 0, T, T+I, ...; suspended at T + Retries x I, told once."""
    worker = Worker().sends("m1")
    assert worker.seconds == [0, T, T + I, T + 2 * I]
    assert (worker.lane.state, worker.second) == (LaneState.SUSPENDED, T + 3 * I)
    text = "no Acknowledgement after 4 attempts"
    assert suspensions(worker) == [
        do.OpenIncident(IncidentKind.RETRIES_SPENT, "m1", text),
        do.NotifyFromParty(PartyEventKind.SUSPENDED, "m1", text),
    ]


@pytest.mark.requirement("000-022")
def test_no_retries_means_one_copy_and_a_full_timeout() -> None:
    worker = Worker(replace(TERMS, retries=0)).sends("m1")
    assert worker.seconds == [0]
    assert (worker.lane.state, worker.second) == (LaneState.SUSPENDED, T)


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
    worker = Worker(terms, transmit_seconds=transmit_seconds).sends("m1")
    first = transmit_seconds + timeout
    later = transmit_seconds + retry_interval
    assert worker.seconds == [0, *(first + k * later for k in range(retries))]
    assert worker.second == first + retries * later
    assert worker.second - (1 + retries) * transmit_seconds == terms.retry_horizon


@pytest.mark.requirement("000-065", "000-067")
def test_a_refused_connection_waits_retry_interval_and_spends_one() -> None:
    """D8."""
    worker = Worker().sends("m1", failed, failed, failed, failed)
    assert worker.seconds == [0, I, 2 * I, 3 * I]
    assert (worker.lane.state, worker.second) == (LaneState.SUSPENDED, 4 * I)


@pytest.mark.requirement("000-065", "000-068")
@pytest.mark.parametrize(
    ("fates", "seconds", "suspended"),
    [
        ([failed, transmitted, transmitted, transmitted], [0, 20, 40, 60], 80),
        ([transmitted, failed, transmitted, failed], [0, 60, 80, 100], 120),
        ([failed, failed, told_to_wait(30)], [0, 20, 40, 70, 90], 110),
        ([told_to_wait(30), failed, failed], [0, 30, 50, 70, 90], 110),
        ([worker_dies, failed], [0, 90, 110, 130], 150),
        ([transmitted, worker_dies], [0, 60, 110, 130], 150),
    ],
    ids=[
        "failed once",
        "failed twice, not in a row",
        "refused, refused, TransientError",
        "TransientError, refused, refused",
        "a worker dies with the first copy",
        "a worker dies with a retry",
    ],
)
def test_a_mix_of_failures_keeps_one_budget(
    fates: list[Fate], seconds: list[float], suspended: float
) -> None:
    """A copy after a TransientError is not a retry; a worker that dies costs its HTTP deadline."""
    worker = Worker().sends("m1", *fates)
    assert worker.seconds == seconds
    assert (worker.lane.state, worker.second) == (LaneState.SUSPENDED, suspended)


def test_a_refusal_for_good_suspends_at_once() -> None:
    worker = Worker().sends("m1", refused)
    assert worker.seconds == [0]
    assert (worker.lane.state, worker.second) == (LaneState.SUSPENDED, 0)


@pytest.mark.parametrize(
    ("asked", "wait"), [(None, 20), (-1, 20), (5, 20), (50, 50), (100, 100), (1000, 100)]
)
def test_retry_after_only_lengthens_and_is_capped(asked: float | None, wait: float) -> None:
    """D54."""
    worker = Worker()
    worker.sends(
        "m1", lambda copy: [on.AttemptFailed("m1", copy.attempt, retry_after=asked)], acknowledged
    )
    assert worker.seconds == [0, wait]


def test_retry_interval_above_the_cap_is_not_reduced() -> None:
    worker = Worker(replace(TERMS, retry_interval=500))
    worker.sends(
        "m1", lambda copy: [on.AttemptFailed("m1", copy.attempt, retry_after=900)], acknowledged
    )
    assert worker.seconds == [0, 500]


@pytest.mark.requirement("000-079", "000-080", "000-081")
@pytest.mark.parametrize(
    ("asked", "wait"), [(30, 30), (0, 1), (1, 1), (None, 20), (-5, 20), (100, 100), (101, 100)]
)
def test_a_transient_error_is_waited_for_exactly(asked: int | None, wait: float) -> None:
    """D10, D54."""
    worker = Worker().sends("m1", told_to_wait(asked), acknowledged)
    assert worker.seconds == [0, wait]
    assert worker.lane.state is LaneState.IDLE


@pytest.mark.requirement("000-079", "000-083")
def test_transient_errors_spend_no_retry_and_leave_the_waits_as_they_were() -> None:
    """D10, D53: Timeout after such a copy while no retry is spent, else RetryInterval."""
    waits = [told_to_wait(30)] * 3
    assert Worker().sends("m1", *waits).seconds == [0, 30, 60, 90, 150, 170, 190]
    assert Worker().sends("m1", transmitted, *waits).seconds == [0, 60, 90, 120, 150, 170, 190]


@pytest.mark.requirement("000-083")
def test_transient_error_during_the_wait_restarts_it() -> None:
    worker = Worker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(told_to_wait(30))
    worker.passes(29)
    worker.happens(on.TransientErrorReceived("m1", 30))
    assert worker.goes_on(acknowledged).seconds == [0, 59]


def test_one_transient_error_more_than_agreed_suspends() -> None:
    """D10."""
    limit = TERMS.transient_count_limit
    worker = Worker().sends("m1", *[told_to_wait(30)] * (limit + 1))
    assert worker.seconds == [30 * k for k in range(limit + 1)]
    text = f"{limit + 1} TransientErrors since 2026-03-01 12:00:00 UTC"
    assert suspensions(worker) == [
        do.OpenIncident(IncidentKind.TRANSIENT_LIMIT, "m1", text),
        do.NotifyFromParty(PartyEventKind.SUSPENDED, "m1", text),
    ]


def test_transient_errors_hold_a_message_no_longer_than_agreed() -> None:
    """D10."""
    terms = replace(TERMS, transient_count_limit=1000, transient_time_limit=250)
    worker = Worker(terms).sends("m1", *[told_to_wait(100)] * 10)
    assert worker.seconds == [0, 100, 200]
    assert (worker.lane.state, worker.second) == (LaneState.SUSPENDED, 300)


@pytest.mark.requirement("000-085")
@pytest.mark.parametrize(
    ("terms", "asked", "wait"),
    [
        (TERMS, 30, 30),
        (replace(TERMS, retry_interval=7200), None, 7200),
        (replace(TERMS, transient_wait_limit=36_000), 20_000, 20_000),
    ],
)
def test_after_an_ack_the_rest_of_the_wait_is_served_out(
    terms: Terms, asked: int | None, wait: float
) -> None:
    """D28."""
    worker = Worker(terms)
    worker.happens(on.LanePolled("m1", terms))
    worker.sends_copy(told_to_wait(asked))
    worker.passes(1)
    completed = worker.happens(on.AckReceived("m1"))
    assert completed == (
        do.Complete("m1"),
        do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, "m1"),
    )
    assert worker.happens(on.DeadlinePassed()) == ()
    worker.goes_on()
    assert (worker.lane.state, worker.second) == (LaneState.IDLE, wait)
    assert worker.effects[-1] == do.PollLane()


@pytest.mark.requirement("000-030")
def test_an_ack_after_any_copy_completes_and_nothing_more_is_sent() -> None:
    for silent in range(4):
        worker = Worker().sends("m1", *[transmitted] * silent, acknowledged)
        assert len(worker.copies) == silent + 1
        assert worker.lane.state is LaneState.IDLE


@pytest.mark.requirement("000-069")
def test_an_ack_completes_though_the_post_looked_failed() -> None:
    def acknowledged_but_failed(copy: object) -> list[on.SenderEvent]:
        return [on.AttemptFailed("m1", 1, "reset"), on.AckReceived("m1")]

    worker = Worker().sends("m1", acknowledged_but_failed)
    assert worker.seconds == [0]
    assert worker.lane.state is LaneState.IDLE


@pytest.mark.requirement("000-069")
def test_an_ack_may_overtake_the_failure_of_its_own_post() -> None:
    def failed_after_its_ack(copy: object) -> list[on.SenderEvent]:
        return [on.AckReceived("m1"), on.AttemptFailed("m1", 1, "reset")]

    worker = Worker().sends("m1", failed_after_its_ack).sends("m2", acknowledged)
    assert worker.copies == [Copy(0, "m1", 1, 1), Copy(0, "m2", 2, 1)]


def test_deadline_of_a_claimed_copy_covers_http_and_wait() -> None:
    worker = Worker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(worker_dies)
    worker.goes_on(acknowledged)
    assert worker.seconds == [0, HTTP_DEADLINE + T]
