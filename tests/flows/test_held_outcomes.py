"""A 2xx waits a moment for the Acknowledgement, so that nothing of the link is written for it."""

import threading
from dataclasses import replace

import pytest
from django.db import connections

from msh.flows.hints import EVERYTHING, NOTHING, Hints
from msh.flows.sending import outcomes
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import Attempt, OutboundMessage, Signal
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import Finished
from msh.transport.job import Job
from tests.waiting import wait_until

from . import byhand
from .byhand import TRANSMITTED, hold_no_longer
from .world import World, make_world

pytestmark = pytest.mark.django_db

FAILED = AttemptResult(AttemptOutcome.FAILED, status=503)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> SendingLoop:
    """Holds outcomes for longer than a test takes."""
    monkeypatch.setattr(outcomes, "HOLD", 600.0)
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


@pytest.mark.parametrize("hints", [NOTHING, EVERYTHING, Hints(links=frozenset({2**40}))])
def test_2xx_waits_until_its_time_is_over(loop: SendingLoop, hints: Hints) -> None:
    message, job = claimed(loop)
    loop.take(Finished(job, TRANSMITTED))

    loop.round(hints)
    assert loop.is_busy()
    assert not is_recorded(message)

    hold_no_longer(loop)
    loop.round(hints)
    assert is_recorded(message)
    assert not loop.is_busy()


def test_2xx_is_recorded_with_what_else_its_link_is_locked_for(loop: SendingLoop) -> None:
    message, job = claimed(loop)
    loop.take(Finished(job, TRANSMITTED))
    loop.round(Hints(links=frozenset({job.partner_id})))
    assert is_recorded(message)


@pytest.mark.parametrize("kind", ["poll", "other outcome"])
def test_2xx_of_a_signal_is_recorded_by_the_next_transaction(
    world: World, loop: SendingLoop, kind: str
) -> None:
    """It writes nothing else, and is claimed for a second only."""
    world.submit()
    world.hand_over(byhand.poll()[0])
    (signal,) = byhand.poll()
    _, job = claimed(loop)
    loop.take(Finished(signal, TRANSMITTED))
    if kind == "poll":
        loop.round(EVERYTHING)
    else:
        loop.take(Finished(job, FAILED))
        loop.round(NOTHING)
    assert not Signal.objects.filter(sending=True).exists()


def test_2xx_is_recorded_without_a_poll_when_its_time_is_over(
    loop: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, job = claimed(loop)
    monkeypatch.setattr(outcomes, "HOLD", 0.01)
    loop.take(Finished(job, TRANSMITTED))

    assert loop.patience() <= 0.01
    wait_until(lambda: loop.round(NOTHING) and is_recorded(message))


@pytest.mark.parametrize("first", [FAILED, TRANSMITTED])
def test_failure_is_recorded_at_once(loop: SendingLoop, first: AttemptResult) -> None:
    """The 2xx of another link waits on."""
    ended = [claimed(loop), claimed(loop)]
    results = [first, FAILED if first is TRANSMITTED else TRANSMITTED]
    for (_, job), result in zip(ended, results, strict=True):
        loop.take(Finished(job, result))

    loop.round(NOTHING)

    recorded = [is_recorded(message) for message, _ in ended]
    assert recorded == [result is FAILED for result in results]


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
