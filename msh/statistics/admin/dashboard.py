"""What the dashboard shows of the statistics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest

from msh.admin.dashboard.page import parts
from msh.statistics.store.read import Minutes, minutes

from . import charts
from .last_hour import clock, first_minute

NAMES = ("acknowledged", "received", "retries", "duplicates")


@dataclass(frozen=True, slots=True)
class Period:
    """Until now, in minutes. `slot` is one point of a line, and `every` the time between two
    ticks."""

    words: str
    length: int
    slot: int
    every: int


HOUR = Period("last hour", 60, 1, 10)
DAY = Period("last 24 hours", 24 * 60, 10, 4 * 60)


@parts.register
def charts_of_the_dashboard(request: HttpRequest, now: datetime) -> Mapping[str, object]:
    """Is it getting better? And what is usual?"""
    (day,) = minutes(first_minute(DAY.length), DAY.length, [((), ())], names=NAMES)
    return {
        "charts": list(_charts(day, HOUR, _messages, _repeated)),
        "charts_of_day": list(_charts(day, DAY, _messages, _repeated)),
    }


def _messages(counts: Minutes) -> tuple[str, Minutes]:
    return "Messages per minute", {"out": counts["acknowledged"], "in": counts["received"]}


def _repeated(counts: Minutes) -> tuple[str, Minutes]:
    names = ("retries", "duplicates")
    return "Retries and duplicates per minute", {name: counts[name] for name in names}


def _charts(
    day: Minutes, period: Period, *lines: Callable[[Minutes], tuple[str, Minutes]]
) -> Iterator[charts.Chart]:
    begin = first_minute(period.length)
    counts = {name: _slots(of_day[-period.length :], period.slot) for name, of_day in day.items()}
    ticks = [
        (at // period.slot, clock(begin + timedelta(minutes=at)))
        for at in range(0, period.length + 1, period.every)
    ]
    for title, counted in (of(counts) for of in lines):
        yield charts.rates(f"{title}, {period.words}", counted, period.slot, ticks)


def _slots(of_minutes: Sequence[int | None], slot: int) -> Sequence[int | None]:
    """Return the sum of each so many minutes; None if none of them is counted yet."""
    cut = [of_minutes[at : at + slot] for at in range(0, len(of_minutes), slot)]
    return [None if set(one) == {None} else sum(filter(None, one)) for one in cut]
