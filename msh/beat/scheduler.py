"""Beat's scheduler: that of django-celery-beat, which also goes on when the wall clock is set back.

Both compare times of day of different moments. Without this, a clock that has run ahead by a day
and is corrected stops all that the schedule runs for a day, over restarts of beat, because the last
runs are stored: no operator would be notified, no silent partner probed.
"""

from celery.schedules import schedstate
from celery.utils.time import maybe_make_aware
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from msh import health
from msh.celery import require_store


class Row(ModelEntry):  # type: ignore[misc] # django-celery-beat has no types
    """A row of the schedule. Its model is also that of the entries that follow it."""

    def is_due(self) -> schedstate:
        """An entry whose last run is in the future counts as run now, also when it is read
        again."""
        now = self.app.now()
        if maybe_make_aware(self.model.last_run_at) > now:
            self.model.last_run_at, self.model.no_changes = now, True
            self.save()
        self.last_run_at = self.model.last_run_at
        return schedstate(*super().is_due())


class Scheduler(DatabaseScheduler):  # type: ignore[misc] # django-celery-beat has no types
    """Celery's `CELERY_BEAT_SCHEDULER`."""

    Entry = Row

    def setup_schedule(self) -> None:
        require_store()  # before it is read here: the signal `beat_init` comes after
        super().setup_schedule()

    def tick(self, *args: object, **kwargs: object) -> float:
        health.note_beat()
        self.populate_heap()  # of a few entries, by the clock as it is now
        return float(super().tick(*args, **kwargs))
