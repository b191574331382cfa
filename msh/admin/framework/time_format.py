"""Times and durations as text."""

from datetime import datetime, timedelta

from django.utils import timezone

from msh.flows.operations.statistics.words import duration_text


def format_time(at: datetime | None, now: datetime) -> str:
    """The time with its zone, and the date if it is not today's."""
    if at is None:
        return "an unknown time"
    local = timezone.localtime(at)
    form = "%H:%M:%S %Z" if local.date() == timezone.localdate(now) else "%Y-%m-%d %H:%M:%S %Z"
    return local.strftime(form)


def format_duration(since: datetime, until: datetime) -> str:
    """How long, in its two largest units: "3 h 12 min"."""
    return duration_text(timedelta(seconds=max(int((until - since).total_seconds()), 0)))


def format_seconds(count: int) -> str:
    """A wait of an agreement: "90 s", "2 h"."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if count >= 2 * length and count % length == 0:
            return f"{count // length} {unit}"
    return f"{count} s"
