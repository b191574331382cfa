"""Beat: intervals are kept whatever the wall clock says; a time of day comes once."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django_celery_beat import schedulers
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
from redis.exceptions import RedisError

from msh import health
from msh.beat import scheduler
from msh.beat.scheduler import Scheduler
from msh.beat.turns import Turn, Turns
from msh.celery import app
from msh.connections import redis_client
from msh.flows import wake_up
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
SWEEP, PRUNE, WATCH = "msh.tasks.sweep", "msh.tasks.prune", "msh.tasks.watch"
NIGHT = datetime(2030, 5, 20, 3, 30, tzinfo=UTC)
"""When the nightly prune is due."""


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The Redis of the tests, without anything in it. As in Django's test client, a connection in
    the test's transaction is not closed as an old one."""
    monkeypatch.setattr(schedulers, "close_old_connections", lambda: None)
    monkeypatch.setattr(scheduler, "ASK_EVERY", 0.0)
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
        self.queued: list[dict[str, Any]] = []

    def close(self) -> None:
        self._scheduler.connection.close()

    def tick(self) -> None:
        self._scheduler.tick()

    def run_of(self, task: str) -> str:
        (run,) = [one.run for one in self._scheduler.schedule.values() if one.task == task]
        return run

    def work(self) -> None:
        """Tick, and take what is queued as a worker does."""
        self.tick()
        while text := self._broker.rpop(app.conf.task_default_queue):
            headers = json.loads(text)["headers"]
            self.queued.append(headers)
            wake_up.note_begin(headers["task"])

    def look_at_all(self) -> None:
        """A tick queues one entry."""
        for _ in self._scheduler.schedule:
            self.work()

    def count(self, task: str) -> int:
        return [headers["task"] for headers in self.queued].count(task)

    def wait_for(self, task: str, count: int) -> None:
        """Fails unless the task has been queued so often soon."""

        def has_run() -> bool:
            self.work()
            return self.count(task) >= count

        wait_until(has_run, seconds=20)

    def goes_on(self) -> None:
        """Fails unless sweeps are queued further."""
        self.wait_for(SWEEP, self.count(SWEEP) + 3)


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


@pytest.mark.parametrize("nightly", [True, False])
@pytest.mark.parametrize(
    ("where", "name"), [(scheduler, "may_queue"), (app.amqp, "send_task_message")]
)
def test_run_that_redis_did_not_take_is_not_lost(
    beat: Callable[[], Beat], monkeypatch: pytest.MonkeyPatch, where: Any, name: str, nightly: bool
) -> None:
    """Redis is away for a moment when something is due that comes once a day."""
    watch = PeriodicTask.objects.filter(task=WATCH)
    when = (
        {"crontab": CrontabSchedule.objects.create(minute="*"), "interval": None}
        if nightly
        else {"interval": IntervalSchedule.objects.create(every=1, period="days")}
    )
    watch.update(**when, last_run_at=datetime.now(UTC) - DAY)
    monkeypatch.setattr(scheduler, "LOOK_EVERY", 0.1)
    running = beat()
    with monkeypatch.context() as away:
        away.setattr(where, name, _no_redis)
        for _ in range(20):
            running.work()
    assert running.count(WATCH) == 0
    running.wait_for(WATCH, 1)


@pytest.mark.parametrize("nightly", [True, False])
def test_two_beats_queue_a_run_once(beat: Callable[[], Beat], nightly: bool) -> None:
    """Also if the clock of one is an hour off; and the other goes on when one has ended."""
    watch = PeriodicTask.objects.filter(task=WATCH)
    if nightly:
        at_half_past_three = CrontabSchedule.objects.create(minute="30", hour="3")
        watch.update(crontab=at_half_past_three, interval=None, last_run_at=NIGHT - DAY)
    else:
        daily = IntervalSchedule.objects.create(every=1, period="days")
        watch.update(interval=daily, last_run_at=NIGHT - 2 * DAY)
    with time_machine.travel(NIGHT - HOUR):
        one, other = beat(), beat()
    for minutes in (1, 31, 61, 91, 121):  # the other's clock is an hour behind
        for running, behind in ((one, 0), (other, 60)):
            with time_machine.travel(NIGHT + timedelta(minutes=minutes - behind)):
                running.work()
                running.work()
    assert (one.count(WATCH), other.count(WATCH)) == (1, 0)
    assert Turns().seconds_left(one.run_of(WATCH)) > (2 * HOUR).total_seconds()
    other.goes_on()


def test_run_that_a_beat_began_and_did_not_queue_is_left_to_another(
    beat: Callable[[], Beat], broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died in between."""
    monkeypatch.setattr(scheduler, "LOOK_EVERY", 0.1)
    watch = PeriodicTask.objects.filter(task=WATCH)
    now = datetime.now(UTC)
    hourly = CrontabSchedule.objects.create(minute=str((now.minute + 30) % 60))
    watch.update(crontab=hourly, interval=None, last_run_at=now - DAY)
    running = beat()
    run = running.run_of(WATCH)
    assert Turns().take(run) is Turn.OURS
    running.look_at_all()
    assert running.count(WATCH) == 0
    broker.delete(f"msh:turn:{run}")  # as Redis does after ten seconds
    running.wait_for(WATCH, 1)


def _no_redis(*_: object, **__: object) -> bool:
    raise RedisError("away")


def test_sweeps_do_not_expire(beat: Callable[[], Beat]) -> None:
    """The clocks of beat's and worker's hosts would be compared, and a sweep that is dropped is
    replaced by none."""
    PeriodicTask.objects.filter(task=SWEEP).update(expire_seconds=2)  # by an operator
    running = beat()
    running.goes_on()
    assert {headers["expires"] for headers in running.queued} == {None}
    others = PeriodicTask.objects.filter(task__startswith="msh.").exclude(task=SWEEP)
    assert set(others.values_list("expire_seconds", flat=True)) == {None}


def test_queue_does_not_grow_while_no_worker_runs(beat: Callable[[], Beat], broker: Any) -> None:
    running = beat()
    tasks = PeriodicTask.objects.filter(enabled=True).count()  # those of a certain hour, too
    end = time.monotonic() + 1
    while time.monotonic() < end:
        running.tick()
    waiting = broker.lrange(app.conf.task_default_queue, 0, -1)
    kinds = [json.loads(text)["headers"]["task"] for text in waiting]
    assert sorted(kinds) == sorted(set(kinds))
    assert SWEEP in kinds
    assert len(kinds) <= tasks
    assert health.processes()[0].alive, "beat works, though it queues nothing more"


def test_task_that_was_lost_is_queued_again(beat: Callable[[], Beat], broker: Any) -> None:
    """Its worker was killed before the task began."""
    running = beat()
    while not broker.rpop(app.conf.task_default_queue):
        running.tick()
    running.goes_on()


def test_console_of_a_host_whose_clock_is_behind_is_heard(beat: Callable[[], Beat]) -> None:
    running = beat()
    running.goes_on()
    with time_machine.travel(datetime.now(UTC) - DAY, tick=False):
        entry = PeriodicTask.objects.get(task=SWEEP)
        entry.enabled = False
        entry.save()
    running.work()
    before = running.count(SWEEP)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        running.work()
    assert running.count(SWEEP) == before


def test_beat_asks_for_changes_only_now_and_then(
    beat: Callable[[], Beat], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at its schedule many times a second, also where nothing else is done."""
    monkeypatch.setattr(scheduler, "ASK_EVERY", 3600.0)
    running = beat()
    running.goes_on()
    with CaptureQueriesContext(connection) as asked:
        running.goes_on()
    assert [query["sql"] for query in asked] == []


class Nights:
    """Beat at times of day."""

    def __init__(self, beat: Beat) -> None:
        self._beat = beat

    def prunes(self, *times: datetime) -> list[int]:
        """How often prune was queued until, at the latest, half a minute after each."""
        counted = []
        for now in times:
            with time_machine.travel(now, tick=False):
                self._beat._scheduler.populate_heap()  # as half a minute later
                for _ in range(20):
                    self._beat.work()
            counted.append(self._beat.count(PRUNE))
        return counted


MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.mark.parametrize(
    ("last_run", "times", "counted"),
    [
        pytest.param(NIGHT - DAY, (-MINUTE, MINUTE, HOUR), [0, 1, 1], id="usual"),
        pytest.param(
            NIGHT - DAY, (-HOUR, 30 * DAY + MINUTE, 30 * DAY + HOUR), [0, 1, 1], id="ahead"
        ),
        pytest.param(NIGHT + 30 * DAY, (-HOUR, MINUTE, HOUR), [0, 1, 1], id="back"),
        pytest.param(NIGHT - DAY, (MINUTE, -HOUR, -MINUTE, MINUTE), [1, 1, 1, 2], id="again"),
        pytest.param(NIGHT, (11 * HOUR, -MINUTE, MINUTE), [0, 0, 1], id="half a day back"),
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
        nights = Nights(beat())
    assert nights.prunes(*(NIGHT + time for time in times)) == counted
