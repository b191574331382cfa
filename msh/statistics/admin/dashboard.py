"""What the dashboard shows of the statistics."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.http import HttpRequest
from django.utils import timezone

from msh.admin.dashboard.page import parts
from msh.statistics.models import Statistics, Unit

from . import charts

DAY = timedelta(days=1)
SLOT = 10  # minutes in one point of a chart


@parts.register
def charts_of_a_day(request: HttpRequest, now: datetime) -> Mapping[str, object]:
    return {"charts": _charts(now)}


def _charts(now: datetime) -> Sequence[charts.Chart]:
    """Return charts of the last 24 hours: messages sent and received, retries and duplicates."""
    slot = timedelta(minutes=SLOT)
    begin = now - DAY
    names = ("acknowledged", "received", "retries", "duplicates")
    counts = {name: [0] * (DAY // slot) for name in names}
    minutes = Statistics.objects.filter(unit=Unit.MINUTE, partner=None, begins__gte=begin)
    for row in minutes.values_list("begins", *names):
        for name, count in zip(names, row[1:], strict=True):
            counts[name][min((row[0] - begin) // slot, DAY // slot - 1)] += count
    every = timedelta(hours=4)
    ticks = [(at * (every // slot), _clock(begin + at * every)) for at in range(DAY // every + 1)]
    return [
        charts.rates(
            "Messages per minute, last 24 hours",
            {"out": counts["acknowledged"], "in": counts["received"]},
            SLOT,
            ticks,
        ),
        charts.rates(
            "Retries and duplicates per minute, last 24 hours",
            {"retries": counts["retries"], "duplicates": counts["duplicates"]},
            SLOT,
            ticks,
        ),
    ]


def _clock(at: datetime) -> str:
    return timezone.localtime(at).strftime("%H:%M")
