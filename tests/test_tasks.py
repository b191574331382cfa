"""The sweep: one task polls for every kind of work."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import DatabaseError
from django.utils import timezone

from msh import tasks
from msh.flows.operations import change_link
from msh.flows.operations.many import bulk_jobs
from msh.flows.wake_up import WakeUp
from msh.flows.worker_loop import WorkerLoop
from msh.models import BulkAction
from msh.store.history import Actor
from tests.flows.costs import statements_of
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

ANN = Actor("ann", "their network is back")


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch) -> list[WakeUp]:
    """The kinds that were polled; forwarding finds nothing."""
    polled: list[WakeUp] = []
    monkeypatch.setattr(tasks, "forward_due", lambda: polled.append(WakeUp.FORWARD))

    def run(loop: WorkerLoop, on_work: Callable[[], None]) -> None:
        polled.append(loop.kind)

    monkeypatch.setattr(WorkerLoop, "run", run)
    return polled


def test_sweep_polls_for_every_kind_of_work(polled: list[WakeUp]) -> None:
    tasks.sweep()
    assert sorted(polled) == sorted(WakeUp)


@pytest.mark.parametrize("error", [DatabaseError, ValueError])
def test_kind_that_raises_an_error_stops_no_other(
    polled: list[WakeUp], monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(loop: WorkerLoop, on_work: Callable[[], None]) -> None:
        raise error

    monkeypatch.setattr(WorkerLoop, "run", fail)
    tasks.sweep()
    assert polled == [WakeUp.FORWARD]


def test_loop_that_stays_awake_leaves_the_others_to_their_own_tasks(
    polled: list[WakeUp], monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[tuple[WakeUp, ...]] = []
    monkeypatch.setattr(tasks, "wake_up", lambda *kinds: woken.append(kinds))
    monkeypatch.setattr(WorkerLoop, "run", lambda loop, on_work: on_work())
    tasks.sweep()
    assert woken == [tasks.SWEPT[1:], tasks.SWEPT[2:], tasks.SWEPT[3:]]


def test_sweep_goes_on_with_bulk_jobs(polled: list[WakeUp]) -> None:
    world, since = make_world(), timezone.now() - timedelta(hours=1)
    change_link.suspend(world.there, ANN)
    agreed = bulk_jobs.seen(BulkAction.RESUME, since)
    job = bulk_jobs.start(BulkAction.RESUME, since, agreed, ANN)
    tasks.sweep()
    job.refresh_from_db()
    assert (job.state, job.done) == ("done", 1)


def test_sweep_that_finds_nothing_costs_few_statements() -> None:
    """Of these each MSH runs as many every second."""
    tasks.sweep()
    assert len(statements_of(tasks.sweep)) <= 18
