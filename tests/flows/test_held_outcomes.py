"""A 2xx waits a moment for the next poll, so that both are written by one transaction."""

import threading
from dataclasses import replace

import pytest
from django.db import connections

from msh.flows.names import EVERYTHING, NOTHING
from msh.flows.sending import sending_loop
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import Attempt, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import Finished
from msh.transport.job import Job
from tests.waiting import wait_until

from .byhand import TRANSMITTED
from .world import make_world

pytestmark = pytest.mark.django_db

FAILED = AttemptResult(AttemptOutcome.FAILED, status=503)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> SendingLoop:
    """Holds outcomes for longer than a test takes."""
    monkeypatch.setattr(sending_loop, "HOLD", 600.0)
    loop = SendingLoop()
    monkeypatch.setattr(loop.carrier, "submit", lambda jobs: None)
    return loop


def claimed(loop: SendingLoop) -> tuple[OutboundMessage, Job]:
    jobs: list[Job] = []
    loop.carrier.submit = jobs.extend  # type: ignore[assignment, method-assign]
    message = make_world().submit()
    loop.round(EVERYTHING)
    (job,) = jobs
    return message, job


def is_recorded(message: OutboundMessage) -> bool:
    return Attempt.objects.get(message=message).outcome != ""


def test_2xx_is_recorded_by_the_next_poll(loop: SendingLoop) -> None:
    message, job = claimed(loop)
    loop.take(Finished(job, TRANSMITTED))

    assert loop.round(NOTHING)
    assert loop.is_busy()
    assert not is_recorded(message)

    loop.round(EVERYTHING)
    assert is_recorded(message)
    assert not loop.is_busy()


def test_2xx_is_recorded_without_a_poll_when_its_time_is_over(
    loop: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, job = claimed(loop)
    monkeypatch.setattr(sending_loop, "HOLD", 0.01)
    loop.take(Finished(job, TRANSMITTED))

    assert loop.patience() <= 0.01
    wait_until(lambda: loop.round(NOTHING) and is_recorded(message))


@pytest.mark.parametrize("first", [FAILED, TRANSMITTED])
def test_failure_is_recorded_at_once(loop: SendingLoop, first: AttemptResult) -> None:
    """With those that wait."""
    ended = [claimed(loop), claimed(loop)]
    results = [first, FAILED if first is TRANSMITTED else TRANSMITTED]
    for (_, job), result in zip(ended, results, strict=True):
        loop.take(Finished(job, result))

    loop.round(NOTHING)

    assert all(is_recorded(message) for message, _ in ended)


def test_what_has_ended_and_is_not_taken_keeps_the_loop_from_ending(loop: SendingLoop) -> None:
    _, job = claimed(loop)
    assert not loop.is_busy()
    loop._events.put(Finished(job, TRANSMITTED))
    assert loop.is_busy()


def test_2xx_wakes_nobody(loop: SendingLoop) -> None:
    _, job = claimed(loop)
    assert not loop.is_urgent(Finished(job, TRANSMITTED))
    assert loop.is_urgent(Finished(job, FAILED))
    assert loop.is_urgent(Finished(job, replace(TRANSMITTED, answer=("text/xml", b"<a/>"))))


@pytest.mark.django_db(transaction=True)
def test_stopped_loop_records_what_it_holds(loop: SendingLoop) -> None:
    message, job = claimed(loop)
    loop._events.put(Finished(job, TRANSMITTED))

    def run() -> None:
        loop.run()
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(loop.is_busy)
    loop.stop()
    thread.join(timeout=60)

    assert not thread.is_alive()
    assert is_recorded(message)
