"""The tasks: each runs a loop of this worker, or is queued by beat and looks for work."""

import json
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery.concurrency import prefork, thread
from django.conf import settings
from django.core import mail
from django.utils import timezone
from pytest_django import Settings

from msh import tasks
from msh.alerts.models import OperatorNotice
from msh.beat.schedule import SCHEDULE
from msh.celery import app
from msh.connections import redis_client
from msh.flows.operations import change_link
from msh.flows.operations.many import bulk_jobs
from msh.flows.wake_up import WakeUp
from msh.models import BulkAction, Incident
from msh.store.history import Actor
from msh.store.operations.ongoing import Ongoing
from tests.admin.conftest import suspended_world
from tests.flows.costs import statements_of
from tests.flows.world import make_world

ANN = Actor("ann", "their network is back")
WORKER = "one@here"


@pytest.fixture
def broker() -> Iterator[Any]:
    with redis_client(settings.REDIS_URL) as client:
        client.flushdb()
        yield client
        client.flushdb()


@pytest.fixture
def _other_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that has just been started."""
    monkeypatch.setattr(tasks, "_loops", {})


def queued(broker: Any, queue: str) -> list[str]:
    texts = broker.lrange(queue, 0, -1)
    broker.delete(queue)
    return sorted(json.loads(text)["headers"]["task"] for text in texts)


@pytest.mark.usefixtures("_other_loops")
def test_worker_queues_its_loops_for_itself(broker: Any) -> None:
    """Another worker would take them, and have its own already."""
    tasks.queue_loops(WORKER)
    assert queued(broker, f"{WORKER}.dq2") == sorted(WakeUp)
    assert queued(broker, app.conf.task_default_queue) == []
    assert app.conf.worker_direct, "so that each worker looks into a queue of its own"


@pytest.mark.usefixtures("_other_loops")
def test_worker_queues_only_the_loops_that_have_ended(broker: Any) -> None:
    running = tasks.loop_of(tasks.LOOPS[WakeUp.DELIVER])
    tasks.loop_of(tasks.LOOPS[WakeUp.NOTIFY]).stop()
    with running._running:
        tasks.queue_loops(WORKER)
    assert queued(broker, f"{WORKER}.dq2") == [WakeUp.FORWARD, WakeUp.TRANSMIT]


@pytest.mark.parametrize("kind", WakeUp)
def test_each_loop_has_a_task(monkeypatch: pytest.MonkeyPatch, kind: WakeUp) -> None:
    ran: list[WakeUp] = []
    monkeypatch.setattr(tasks.LOOPS[kind], "run", lambda loop: ran.append(loop.kind))
    app.tasks[kind]()
    assert ran == [kind]


@pytest.mark.parametrize(
    ("pool", "threads", "begins"),
    [
        (thread.TaskPool, tasks.THREADS, True),
        (thread.TaskPool, tasks.THREADS - 1, False),
        (prefork.TaskPool, 8, False),
    ],
)
def test_worker_without_a_thread_for_each_loop_does_not_start(
    pool: Any, threads: int, begins: bool
) -> None:
    """What has no thread would never be done."""
    worker = SimpleNamespace(pool_cls=pool, concurrency=threads)
    if begins:
        tasks._require_threads(sender=worker)
    else:
        with pytest.raises(SystemExit, match="--pool threads --concurrency 8"):
            tasks._require_threads(sender=worker)
    assert app.conf.worker_concurrency >= tasks.THREADS


@pytest.mark.django_db
def test_sweep_goes_on_with_bulk_jobs(broker: Any) -> None:
    """And is followed by another at once: a slice of a long job may be over."""
    world, since = make_world(), timezone.now() - timedelta(hours=1)
    change_link.suspend(world.there, ANN)
    job = bulk_jobs.start(BulkAction.RESUME, since, None, ANN)
    tasks.sweep()
    job.refresh_from_db()
    assert (job.state, job.done) == ("done", 1)
    assert queued(broker, app.conf.task_default_queue) == ["msh.tasks.sweep"]
    tasks.sweep()
    assert queued(broker, app.conf.task_default_queue) == []


@pytest.mark.django_db
def test_slice_is_done_without_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(tasks, "find_ongoing", lambda: Ongoing(bulk_jobs=True, key_rules=False))
    monkeypatch.setattr(tasks, "run_bulk_jobs", lambda: 1)
    monkeypatch.setattr(app.amqp, "send_task_message", away)
    tasks.sweep()


@pytest.mark.django_db
def test_sweep_that_finds_nothing_costs_one_statement() -> None:
    tasks.sweep()
    assert len(statements_of(tasks.sweep)) == 1


@pytest.mark.django_db
def test_schedule_of_two_beats_does_what_that_of_one_does(settings: Settings) -> None:
    """Each run comes twice then."""
    settings.MSH_OPERATORS_EMAIL = ["ops@example.com"]
    suspended_world()
    counts = []
    for _ in range(2):
        for task, _when in SCHEDULE.values():
            app.tasks[task]()
        notices = list(OperatorNotice.objects.values_list("pk", "sent_at"))
        counts.append((len(mail.outbox), Incident.objects.count(), notices))
    assert counts[0][0] == 1
    assert counts[0] == counts[1]
