"""Curves of the last hour: what waits for a partner or at a consumer, and what was done. How many
attempts at a consumer failed."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from django.template.loader import render_to_string
from django.utils import timezone

from msh.admin.framework import curves
from msh.admin.framework.curves import About, ErrorRate
from msh.statistics.models import Unit
from msh.statistics.store.read import MINUTELY, Minutes, Tried, minutes, tried
from msh.statistics.store.span import beginning

from . import charts

MINUTES = 60
HOURS = 24
EVERY = 10
"""Minutes between two ticks."""
BEFORE = 15
"""Minutes that a trend looks back."""


@curves.small.register
def small_curves(about: Sequence[About]) -> Sequence[str]:
    if not about:
        return []
    begin = first_minute()
    read = _read(begin, about, ("waiting",))
    return [_small(one, found) for one, found in zip(about, read, strict=True)]


@curves.whole.register
def charts_of(about: About) -> Iterator[charts.Chart]:
    begin = first_minute()
    (found,) = _read(begin, [about])
    ticks = [(at, clock(begin + timedelta(minutes=at))) for at in range(0, MINUTES + 1, EVERY)]
    if about.waiting:
        yield _waiting(about, found, ticks)
    yield charts.rates(f"{_DONE[bool(about.partners)]}, last hour", _done(about, found), 1, ticks)


@curves.rates.register
def error_rates(consumers: Sequence[int]) -> Mapping[int, ErrorRate]:
    """The hour that is not over is one of the 24."""
    this_hour = beginning(Unit.HOUR, timezone.now()).astimezone(UTC)
    found = tried(consumers, first_minute(), this_hour - timedelta(hours=HOURS - 1))
    rates = {}
    for key in consumers:
        hour, day = (found.get((key, unit), Tried()) for unit in (Unit.MINUTE, Unit.HOUR))
        rates[key] = ErrorRate(hour.attempts, hour.failed, day.attempts, day.failed)
    return rates


def first_minute(number: int = MINUTES) -> datetime:
    """Return the beginning of the first of so many minutes, of which the last is not over."""
    this = timezone.now().replace(second=0, microsecond=0)
    return this - timedelta(minutes=number - 1)


def clock(at: datetime) -> str:
    return timezone.localtime(at).strftime("%H:%M")


def _read(
    begin: datetime, about: Sequence[About], names: Sequence[str] = MINUTELY
) -> Sequence[Minutes]:
    return minutes(begin, MINUTES, [(one.partners, one.consumers) for one in about], names=names)


_WAITING = {True: "Queue", False: "Open deliveries"}
_DONE = {True: "Messages per minute", False: "Deliveries per minute"}
"""Of partners, and of consumers."""


def _waiting(about: About, found: Minutes, ticks: Sequence[tuple[int, str]] = ()) -> charts.Chart:
    name = _WAITING[bool(about.partners)]
    values = {"waiting": found["waiting"]}
    return charts.rates(f"{name}, last hour", values, 1, ticks, summary=_latest)


def _done(about: About, found: Minutes) -> Mapping[str, Sequence[int | None]]:
    if about.partners:
        both = zip(found["acknowledged"], found["sent"], strict=True)
        out = [None if one == (None, None) else sum(filter(None, one)) for one in both]
        return {"out": out, "in": found["received"]}
    return {"completed": found["delivered"], "failed attempts": found["delivery_failures"]}


def _small(about: About, found: Minutes) -> str:
    if all(one is None for one in found["waiting"]) or about == About():
        return ""
    context = {"chart": _waiting(about, found), "trend": trend(found["waiting"])}
    return render_to_string("admin/msh/statistics/small.html", context)


def _latest(values: Sequence[int | None]) -> str:
    known = [one for one in values if one is not None]
    return f"now {known[-1]:,}" if known else "not known"


def trend(waiting: Sequence[int | None]) -> str:
    """Return how what waits has changed, in words; empty if that is not known."""
    known = [(at, one) for at, one in enumerate(waiting) if one is not None]
    if len(known) < 2:
        return ""
    last, now = known[-1]
    first, before = next(one for one in known if one[0] >= last - BEFORE)
    change = f"{now - before:+,}" if now != before else "unchanged"
    return f"{change} in {last - first} min" if first < last else ""
