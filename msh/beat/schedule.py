"""The entries of beat's schedule.

Each entry is created once. Administrators may change, disable or delete it; a later version leaves
it as they left it.
"""

from dataclasses import dataclass

from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask

from msh.models import AppliedDefault


@dataclass(frozen=True, slots=True)
class Every:
    """An interval, in seconds."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Daily:
    """A time of day in the time zone of the settings."""

    hour: int
    minute: int


SCHEDULE: dict[str, tuple[str, Every | Daily]] = {
    "sweep": ("msh.tasks.sweep", Every(5)),
    "sweep: notify operators": ("msh.tasks.notify_operators", Every(5)),
    "sweep: watch": ("msh.tasks.watch", Every(10)),
    "sweep: ends": ("msh.tasks.look_for_ends", Every(600)),
    "sweep: statistics": ("msh.tasks.collect_statistics", Every(30)),
    "prune": ("msh.tasks.prune", Daily(3, 30)),
}
"""Name of the entry: task, and when it runs."""


def apply_schedule() -> None:
    """Create the entries that no earlier version created."""
    wanted = {f"schedule: {name}": name for name in SCHEDULE}
    for key in AppliedDefault.objects.mark_new(wanted):
        name = wanted[key]
        task, when = SCHEDULE[name]
        timing = {"interval": _interval(when)} if isinstance(when, Every) else {
            "crontab": _crontab(when)
        }  # fmt: skip
        PeriodicTask.objects.get_or_create(name=name, defaults={"task": task, **timing})


def _interval(when: Every) -> IntervalSchedule:
    row, _ = IntervalSchedule.objects.get_or_create(
        every=when.seconds, period=IntervalSchedule.SECONDS
    )
    return row


def _crontab(when: Daily) -> CrontabSchedule:
    row, _ = CrontabSchedule.objects.get_or_create(
        minute=str(when.minute),
        hour=str(when.hour),
        day_of_week="*",
        day_of_month="*",
        month_of_year="*",
    )
    return row
