"""A time that statistics are asked for, and the fewest rows that it is summed from."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings

from msh.statistics.models import Unit

HOUR, DAY, WEEK = timedelta(hours=1), timedelta(days=1), timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Span:
    """Whole hours or days from `begin` on; `end` is a time within the last one."""

    unit: Unit
    begin: datetime
    end: datetime

    @property
    def parameters(self) -> dict[str, object]:
        return {"unit": self.unit.value, "begin": self.begin, "end": self.end}


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows of this unit that begin from `begin` on, before `end`."""

    unit: Unit
    begin: datetime
    end: datetime


def pieces(span: Span) -> list[Piece]:
    """Return whole weeks, the whole days beside them, and for a span of hours the hours beside
    those: each hour of the span once."""
    return list(_pieces(_COARSER[span.unit], span.begin, span.end))


_COARSER = {
    Unit.DAY: (Unit.WEEK, Unit.DAY),
    Unit.HOUR: (Unit.WEEK, Unit.DAY, Unit.HOUR),
}


def _pieces(units: tuple[Unit, ...], begin: datetime, end: datetime) -> Iterator[Piece]:
    if begin >= end:
        return
    unit, *finer = units
    if not finer:
        yield Piece(unit, begin, end)
        return
    first, last = beginning(unit, begin), beginning(unit, end)
    if first < begin:
        first = _next(unit, first)
    if first >= last:
        yield from _pieces(tuple(finer), begin, end)
        return
    yield from _pieces(tuple(finer), begin, first)
    yield Piece(unit, first, last)
    yield from _pieces(tuple(finer), last, end)


def beginning(unit: Unit, at: datetime) -> datetime:
    """Return the first moment of the hour, day or week (from Monday on) that `at` is in, in the
    zone of the settings. Where clocks are set back to midnight, the row of the day has the second
    one."""
    local = at.astimezone(zone()).replace(minute=0, second=0, microsecond=0)
    if unit is Unit.HOUR:
        return local
    day = local.replace(hour=0, fold=0)
    return day if unit is Unit.DAY else day - timedelta(days=day.weekday())


def _next(unit: Unit, begin: datetime) -> datetime:
    """Return the next one by the wall clock: a day may have 23 or 25 hours."""
    return begin + (WEEK if unit is Unit.WEEK else DAY)


def zone() -> ZoneInfo:
    return ZoneInfo(settings.TIME_ZONE)
