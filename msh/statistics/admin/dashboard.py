"""What the dashboard shows of the statistics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import HttpRequest
from django.utils import timezone

from msh.admin.dashboard.page import parts
from msh.statistics.models import Statistics, Unit

from . import charts

NAMES = ("acknowledged", "received", "retries", "duplicates")


@dataclass(frozen=True, slots=True)
class Period:
    """Until now. `slot` is one point of a line, and `every` the time between two ticks."""

    words: str
    length: timedelta
    slot: timedelta
    every: timedelta


HOUR = Period("last hour", timedelta(hours=1), timedelta(minutes=1), timedelta(minutes=10))
DAY = Period("last 24 hours", timedelta(days=1), timedelta(minutes=10), timedelta(hours=4))


@parts.register
def charts_of_the_dashboard(request: HttpRequest, now: datetime) -> Mapping[str, object]:
    """Is it getting better? And what is usual?"""
    shown = [*_charts(now, HOUR, _messages, _repeated), *_charts(now, DAY, _messages, _repeated)]
    return {"charts": shown}


Counted = Mapping[str, Sequence[int]]


def _messages(counts: Counted) -> tuple[str, Counted]:
    return "Messages per minute", {"out": counts["acknowledged"], "in": counts["received"]}


def _repeated(counts: Counted) -> tuple[str, Counted]:
    names = ("retries", "duplicates")
    return "Retries and duplicates per minute", {name: counts[name] for name in names}


def _charts(
    now: datetime, period: Period, *lines: Callable[[Counted], tuple[str, Counted]]
) -> Iterator[charts.Chart]:
    begin, slots = now - period.length, period.length // period.slot
    counts = {name: [0] * slots for name in NAMES}
    minutes = Statistics.objects.filter(unit=Unit.MINUTE, partner=None, begins__gte=begin)
    for row in minutes.values_list("begins", *NAMES):
        for name, count in zip(NAMES, row[1:], strict=True):
            counts[name][min((row[0] - begin) // period.slot, slots - 1)] += count
    ticks = [
        (at * (period.every // period.slot), _clock(begin + at * period.every))
        for at in range(period.length // period.every + 1)
    ]
    for title, counted in (of(counts) for of in lines):
        minutes_of_slot = period.slot // timedelta(minutes=1)
        yield charts.rates(f"{title}, {period.words}", counted, minutes_of_slot, ticks)


def _clock(at: datetime) -> str:
    return timezone.localtime(at).strftime("%H:%M")
