"""Beat: what the schedule runs goes on whatever the wall clock says; a time of day comes once."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django_celery_beat import schedulers
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from msh import health, tasks
from msh.beat.scheduler import Scheduler
from msh.celery import app
from msh.connections import redis_client
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
SWEEP, PRUNE, WATCH = "msh.tasks.sweep", "msh.tasks.prune", "msh.tasks.watch"
NIGHT = datetime(2030, 5, 20, 3, 30, tzinfo=UTC)
"""When the nightly prune is due."""


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The Redis of the tests, without anything in it. As in Django's test client, a connection in
    the test's transaction is not closed as an old one."""
    monkeypatch.setattr(schedulers, "close_old_connections", lambda: None)
    PeriodicTask.objects.filter(name="sweep").update(
        interval=IntervalSchedule.objects.create(every=50_000, period="microseconds")
    )
    with redis_client(settings.REDIS_URL) as client:
        client.flushdb()
        yield client
        client.flushdb()


class Beat:
    """The scheduler, and how often it has queued each task."""

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self._scheduler = Scheduler(app)
        self._scheduler._finalize.cancel()  # at the end of the process it would write its rows
        self.queued: list[str] = []

    def close(self) -> None:
        self._scheduler.connection.close()

    def tick(self) -> None:
        self._scheduler.tick()

    def work(self) -> None:
        """Tick, and take what is queued as a worker does."""
        self.tick()
        while text := self._broker.rpop(app.conf.task_default_queue):
            self.queued.append(json.loads(text)["headers"]["task"])

    def count(self, task: str) -> int:
        return self.queued.count(task)

    def wait_for(self, task: str, count: int) -> None:
        """Fails unless the task has been queued so often soon."""

        def has_run() -> bool:
            self.work()
            return self.count(task) >= count

        wait_until(has_run, seconds=20)

    def goes_on(self) -> None:
        """Fails unless sweeps are queued further."""
        self.wait_for(SWEEP, self.count(SWEEP) + 3)

    def prunes(self, *times: datetime) -> list[int]:
        """How often prune was queued until shortly after each of these times."""
        counted = []
        for now in times:
            with time_machine.travel(now, tick=False):
                for _ in range(20):
                    self.work()
            counted.append(self.count(PRUNE))
        return counted


@pytest.fixture
def beat(broker: Any) -> Iterator[Callable[[], Beat]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Beat(broker)))


@pytest.mark.parametrize("step", [DAY, -DAY])
def test_sweeps_go_on_when_the_clock_is_set(beat: Callable[[], Beat], step: timedelta) -> None:
    running = beat()
    running.goes_on()
    with time_machine.travel(datetime.now(UTC) + step):
        running.goes_on()
    running.goes_on()


@pytest.mark.parametrize("ago", [-DAY, 1000 * DAY])
def test_sweeps_begin_whatever_the_last_run_says(beat: Callable[[], Beat], ago: timedelta) -> None:
    """A beat that ran ahead and was started again had left runs of tomorrow."""
    PeriodicTask.objects.update(last_run_at=datetime.now(UTC) - ago)
    beat().goes_on()


def test_interval_of_a_day_outlives_a_restart_of_beat(beat: Callable[[], Beat]) -> None:
    daily = IntervalSchedule.objects.create(every=1, period="days")
    task = PeriodicTask.objects.get(task=WATCH)
    for ago, runs in ((DAY / 2, 0), (DAY, 1)):
        PeriodicTask.objects.filter(pk=task.pk).update(
            interval=daily, last_run_at=datetime.now(UTC) - ago
        )
        running = beat()
        running.goes_on()
        running.wait_for(WATCH, runs)
        assert running.count(WATCH) == runs


def test_beat_alone_waits_until_an_entry_is_due(beat: Callable[[], Beat]) -> None:
    """Else it would look many times a second."""
    PeriodicTask.objects.exclude(task=WATCH).update(enabled=False)
    PeriodicTask.objects.filter(task=WATCH).update(last_run_at=datetime.now(UTC))
    assert beat()._scheduler.tick() > 1


def test_queue_does_not_grow_while_no_worker_runs(
    beat: Callable[[], Beat], broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_WAITING", 5)
    PeriodicTask.objects.filter(task=PRUNE).update(enabled=False)
    running = beat()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        running.tick()
    assert broker.llen(app.conf.task_default_queue) == 5
    assert health.processes()[0].alive, "beat works, though it queues nothing more"
    running.goes_on()


@pytest.mark.parametrize(
    ("last_run", "times", "counted"),
    [
        pytest.param(NIGHT - DAY, (-MINUTE, MINUTE, HOUR), [0, 1, 1], id="usual"),
        pytest.param(
            NIGHT - DAY, (-HOUR, 30 * DAY + MINUTE, 30 * DAY + HOUR), [0, 1, 1], id="ahead"
        ),
        pytest.param(NIGHT + 30 * DAY, (-HOUR, MINUTE, HOUR), [0, 1, 1], id="back"),
        pytest.param(NIGHT - DAY, (MINUTE, -HOUR, -MINUTE, MINUTE), [1, 1, 1, 2], id="again"),
    ],
)
def test_time_of_day_comes_once_though_the_clock_is_set(
    beat: Callable[[], Beat],
    last_run: datetime,
    times: tuple[timedelta, ...],
    counted: list[int],
) -> None:
    PeriodicTask.objects.filter(task=PRUNE).update(last_run_at=last_run)
    with time_machine.travel(NIGHT + times[0], tick=False):
        running = beat()
    assert running.prunes(*(NIGHT + time for time in times)) == counted
