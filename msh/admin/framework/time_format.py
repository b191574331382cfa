"""Times and durations as text."""

from datetime import datetime

from django.utils import timezone


def format_time(at: datetime | None, now: datetime) -> str:
    """The time with its zone, and the date if it is not today's."""
    if at is None:
        return "an unknown time"
    local = timezone.localtime(at)
    form = "%H:%M:%S %Z" if local.date() == timezone.localdate(now) else "%Y-%m-%d %H:%M:%S %Z"
    return local.strftime(form)


def format_duration(since: datetime, until: datetime) -> str:
    """How long, in its two largest units: "3 h 12 min"."""
    seconds = max(int((until - since).total_seconds()), 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86_400
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


def format_seconds(count: int) -> str:
    """A wait of an agreement: "90 s", "2 h"."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if count >= 2 * length and count % length == 0:
            return f"{count // length} {unit}"
    return f"{count} s"
