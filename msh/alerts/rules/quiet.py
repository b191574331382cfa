"""Quiet hours: when a recipient is not called, by the clock on the wall of its time zone."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

EVERY_DAY = frozenset(range(1, 8))
"""ISO weekdays: 1 is Monday."""
_SEARCHED = timedelta(days=8)
"""No quiet hours last longer: see `never_end`."""
_QUARTER = timedelta(minutes=15)
"""Clocks are changed at whole quarters of an hour, in UTC."""


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Quiet hours from `begins` until `ends`, which is on the next day unless it is later than
    `begins`. `days`: weekdays on which they begin. `all_day`: weekdays that are quiet from midnight
    to midnight."""

    zone: str
    begins: time | None = None
    ends: time | None = None
    days: frozenset[int] = EVERY_DAY
    all_day: frozenset[int] = frozenset()

    def contain(self, at: datetime) -> bool:
        local = at.astimezone(ZoneInfo(self.zone))
        today, now = local.isoweekday(), local.time()
        if today in self.all_day:
            return True
        if self.begins is None or self.ends is None:
            return False
        if self.begins < self.ends:
            return today in self.days and self.begins <= now < self.ends
        yesterday = today - 1 or 7
        return (today in self.days and now >= self.begins) or (
            yesterday in self.days and now < self.ends
        )


def quiet_until(hours: QuietHours, now: datetime) -> datetime | None:
    """Return when they end, in UTC; None if it is not quiet now. A clock that is set forwards may
    end them, and an hour that comes twice is quiet twice."""
    if not hours.contain(now):
        return None
    candidates = sorted(one for one in _candidates(hours, now) if one > now)
    ends = (one for one in candidates if not hours.contain(one))
    return next(ends, candidates[-1])


def never_end(hours: QuietHours) -> bool:
    if hours.all_day == EVERY_DAY:
        return True
    whole_days = hours.begins is not None and hours.begins == hours.ends
    return whole_days and hours.days | hours.all_day == EVERY_DAY


def _candidates(hours: QuietHours, now: datetime) -> Iterator[datetime]:
    zone = ZoneInfo(hours.zone)
    boundaries = [one for one in (time(), hours.begins, hours.ends) if one is not None]
    today = now.astimezone(zone).date()
    for day in range(-1, _SEARCHED.days + 1):
        for boundary in boundaries:
            yield from _instants(today + timedelta(days=day), boundary, zone)
    quarter = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    last = quarter + _SEARCHED
    while quarter < last:
        yield quarter
        quarter += _QUARTER


def _instants(day: date, at: time, zone: ZoneInfo) -> Iterator[datetime]:
    """Return the times at which the clock shows this; two where a clock that is set back shows it
    twice."""
    for fold in (0, 1):
        yield datetime.combine(day, at.replace(fold=fold), zone).astimezone(UTC)
