"""The times that statistics are shown for, in whole hours or days of the zone of the settings."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from msh.statistics.models import Unit
from msh.statistics.store.span import DAY, HOUR, Span, beginning, zone


@dataclass(frozen=True, slots=True)
class Period:
    """`length` before what is counted, and the rest of the hour or day in which that falls."""

    title: str
    length: timedelta
    unit: Unit


PERIODS = {
    "24h": Period("24 hours", DAY, Unit.HOUR),
    "7d": Period("7 days", 7 * DAY, Unit.HOUR),
    "30d": Period("30 days", 30 * DAY, Unit.DAY),
    "90d": Period("90 days", 90 * DAY, Unit.DAY),
}
FIRST = "24h"


def span_of(period: Period, up_to: datetime) -> Span:
    return Span(period.unit, beginning(period.unit, up_to - period.length), up_to)


def month(year: int, number: int) -> Span:
    """Return this month. Raises ValueError for a month that the calendar does not have."""
    begin = datetime(year, number, 1, tzinfo=zone())
    after = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=zone())
    return Span(Unit.DAY, begin, after)


def month_before(at: datetime) -> tuple[int, int]:
    """Return year and number of the last month that is over."""
    last = at.astimezone(zone()).replace(day=1) - DAY
    return last.year, last.month


def slots(span: Span) -> Iterator[datetime]:
    """Return the beginnings of its hours or days, as their rows have them. A day may have 23 or 25
    hours."""
    begin = span.begin.astimezone(zone())
    if span.unit is Unit.HOUR:
        utc = begin.astimezone(ZoneInfo("UTC"))
        while utc < span.end:
            yield utc.astimezone(zone())
            utc += HOUR
        return
    while begin < span.end:
        # Where clocks are set back to midnight, the row of the day has the second one.
        yield max(begin, begin.replace(fold=1), key=datetime.timestamp)
        begin += DAY  # of the wall clock
