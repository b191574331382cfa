"""Times and durations as text."""

from datetime import UTC, datetime, timedelta

from django.utils import timezone

from msh.flows.operations.figures import duration_text


def format_time(at: datetime | None, now: datetime) -> str:
    """The time with its zone, and the date if it is not today's."""
    if at is None:
        return "an unknown time"
    local = local_time(at)
    # The year always has four digits, which %Y does not say.
    shown = local.replace(tzinfo=None).isoformat(" ", "seconds")
    if local.date() == timezone.localdate(now):
        shown = shown.partition(" ")[2]
    return f"{shown} {local:%Z}"


def local_time(at: datetime) -> datetime:
    """Return the time in the user's zone, or in UTC if that zone has no such time: partners may
    send any year from 1 to 9999."""
    try:
        return timezone.localtime(at)
    except (OverflowError, ValueError):
        return at.astimezone(UTC)


def format_duration(since: datetime, until: datetime) -> str:
    """Return a duration in its two largest units: "3 h 12 min"."""
    return duration_text(timedelta(seconds=max(int((until - since).total_seconds()), 0)))


def format_seconds(count: int) -> str:
    """A wait of an agreement: "90 s", "2 h"."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if count >= 2 * length and count % length == 0:
            return f"{count // length} {unit}"
    return f"{count} s"
