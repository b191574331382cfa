"""Beat's scheduler. What operators enter in the console as intervals is counted by a clock that
nobody sets; times of day are those of the wall clock, which may be set at any time.

The schedulers of Celery compare wall clock times of different moments: after a correction by minus
one day, nothing would be sent for a day.
"""

import logging
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from celery.beat import SchedulingError
from celery.schedules import schedstate, schedule
from celery.utils.time import maybe_make_aware
from django.db import DatabaseError
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry
from redis.exceptions import RedisError

from msh import health
from msh.beat.turns import Turn, Turns
from msh.celery import require_store
from msh.flows.wake_up import may_queue, note_begin

if TYPE_CHECKING:
    from django.db.models import QuerySet

logger = logging.getLogger(__name__)

OURS = "msh.tasks."
READ_EVERY = 300.0
"""Seconds after which the entries are read again, though nobody says that they have changed."""
ASK_EVERY = 5.0
"""Seconds after which the console's changes are seen."""
SLACK = 5.0
"""Seconds, or a twentieth of an interval if that is less, by which a run may come before its time
at another beat: no two clocks run alike."""
_EARLY = 0.010  # seconds by which Celery looks too early, so as to be in time
LOOK_EVERY = 30.0
"""Seconds after which an entry is looked at again, however far its time is: the wall clock may have
been set, or Redis may have been away when it was due."""


class Interval(schedule):
    """Due when `seconds` have passed by the monotonic clock."""

    def __init__(self, seconds: float, waited: float) -> None:
        """`waited`: how many seconds ago it was due last."""
        super().__init__(seconds)
        self.due_last = time.monotonic() - waited

    def is_due(self, last_run_at: datetime) -> schedstate:
        remaining = self.due_last + self.seconds - time.monotonic()
        if remaining <= 0:
            return schedstate(True, min(self.seconds, LOOK_EVERY))
        return schedstate(False, remaining + _EARLY)


class Row(ModelEntry):  # type: ignore[misc] # django-celery-beat has no types
    """One row of the schedule."""

    schedule: Any
    last_run_at: Any

    def __init__(self, model: PeriodicTask, app: object = None) -> None:
        super().__init__(model, app=app)
        if self.task.startswith(OURS):
            # It would be counted by this host's clock and compared with that of the worker's host.
            self.options.pop("expires", None)
        entered: Any = self.schedule
        if type(entered) is schedule:
            self.schedule = Interval(entered.seconds, self._seconds_since_last_run(entered))

    def is_due(self) -> schedstate:
        if isinstance(self.schedule, Interval):
            return schedstate(*super().is_due())
        if self._ran_in_the_future():
            # The clock was set back: the next time of day that comes counts.
            self.last_run_at = self.model.last_run_at = self._default_now()
        due, wait = super().is_due()
        return schedstate(due, min(wait or LOOK_EVERY, LOOK_EVERY))

    def __next__(self) -> "Row":
        following: Row = super().__next__()
        if isinstance(following.schedule, Interval):
            following.schedule.due_last = time.monotonic()
        return following

    next = __next__

    def follow(self, before: "Row") -> None:
        if isinstance(self.schedule, Interval) and isinstance(before.schedule, Interval):
            self.schedule.due_last = before.schedule.due_last
        elif self._ran_in_the_future():
            self.last_run_at = self.model.last_run_at = before.last_run_at

    def stay_due(self, before: "Row") -> None:
        """What was reserved as `before` could not be queued: a nightly run must not be lost."""
        self.last_run_at = self.model.last_run_at = before.last_run_at
        if isinstance(self.schedule, Interval):
            self.schedule.due_last = time.monotonic() - self.schedule.seconds

    @property
    def run(self) -> str:
        """What beats call it among themselves."""
        return f"{self.name} {self.schedule!r}"

    def kept_for(self) -> float:
        """Seconds after a run in which no other beat may queue one."""
        if isinstance(self.schedule, Interval):
            return float(self.schedule.seconds) - self._slack
        now = self._default_now()
        until_next: timedelta = self.schedule.remaining_estimate(now)
        return until_next.total_seconds() / 2  # clocks of two hosts may be hours apart

    def follow_another_beat(self, seconds_left: float) -> None:
        """Be due a little after that beat's next run, in case that it does not come."""
        if isinstance(self.schedule, Interval):
            wait = seconds_left + 2 * self._slack
            self.schedule.due_last = time.monotonic() + wait - self.schedule.seconds

    @property
    def _slack(self) -> float:
        return float(min(SLACK, self.schedule.seconds / 20))

    def _ran_in_the_future(self) -> bool:
        return bool(maybe_make_aware(self.last_run_at) > self._default_now())

    def _seconds_since_last_run(self, entered: schedule) -> float:
        """Of the process before this one: so an interval of a day outlives restarts. A last run
        that cannot be, because a clock was set, makes it due at once."""
        passed: timedelta = self._default_now() - maybe_make_aware(self.last_run_at)
        return entered.seconds if self._ran_in_the_future() else passed.total_seconds()


class Scheduler(DatabaseScheduler):  # type: ignore[misc] # django-celery-beat has no types
    """Celery's `CELERY_BEAT_SCHEDULER`."""

    Entry = Row
    _read_at = 0.0
    _asked_at = -ASK_EVERY
    _heap_invalidated = False

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._turns = Turns()
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        require_store()  # before it is read here: the signal `beat_init` comes after
        super().setup_schedule()

    @property
    def schedule(self) -> dict[str, Row]:
        """The entries, read again when the console has changed them, and now and then anyway."""
        if time.monotonic() - self._read_at > READ_EVERY:
            self._read_at = time.monotonic()
            self._last_full_sync = datetime.min  # noqa: DTZ901  the base class compares naive times
        try:
            super().schedule  # noqa: B018  reads into self._schedule, if it is time to
        except DatabaseError as error:
            if self._schedule is None:
                raise
            logger.warning("the schedule is not read again before the database answers: %s", error)
        entries: dict[str, Row] = self._schedule
        return entries

    def all_as_schedule(self) -> dict[str, Row]:
        before = self._schedule or {}
        entries: dict[str, Row] = super().all_as_schedule()
        for name in entries.keys() & before.keys():
            entries[name].follow(before[name])
        return entries

    def reserve(self, entry: Row) -> Row:
        following: Row = super().reserve(entry)
        self._schedule[entry.name] = following  # the base class keeps the one before
        return following

    def enabled_models_qs(self) -> "QuerySet[PeriodicTask]":
        """All, also those whose hour is far: it may come at once, when the clock is set."""
        found: QuerySet[PeriodicTask] = self.Model.objects.enabled()
        return found

    def schedule_changed(self) -> bool:
        """Another time of change than before is a change: the console's host may be behind the one
        that made the change before. The base class would ask twice for each task."""
        if time.monotonic() - self._asked_at < ASK_EVERY:
            return False
        self._asked_at = time.monotonic()
        before = self._last_timestamp
        newer: bool = super().schedule_changed()
        return newer or (before is not None and self._last_timestamp not in {before, None})

    def schedules_equal(self, *_: object, **__: object) -> bool:
        """Whether the heap stands: entries change only where they are read. The base class would
        compare all of them at each look."""
        stands = not self._heap_invalidated
        self._heap_invalidated = False
        return stands

    def apply_entry(self, entry: Row, producer: object = None) -> None:
        health.note_beat()
        try:
            turn = self._turns.take(entry.run)
            if turn is Turn.OURS:
                self._apply(entry, producer)
                self._turns.keep(entry.run, entry.kept_for())
            elif turn is Turn.QUEUED:
                left = self._turns.seconds_left(entry.run)
                self._schedule[entry.name].follow_another_beat(left)
            else:
                self._schedule[entry.name].stay_due(entry)
        except (RedisError, SchedulingError) as error:
            logger.warning("%s is not queued, it stays due: %s", entry.task, error)
            self._schedule[entry.name].stay_due(entry)

    def _apply(self, entry: Row, producer: object) -> None:
        if not entry.task.startswith(OURS):
            super().apply_entry(entry, producer=producer)
        elif may_queue(entry.task, entry.options.get("queue")):
            self._queue(entry, producer)

    def _queue(self, entry: Row, producer: object) -> None:
        """Unlike `apply_entry` of Celery, it raises SchedulingError instead of logging it."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError:
            note_begin(entry.task)  # it does not wait in the queue
            raise

    def _when(self, entry: Row, next_time_to_run: float, mktime: object = None) -> float:
        """The heap's times, by the monotonic clock."""
        return time.monotonic() + (self.adjust(next_time_to_run) or 0)
