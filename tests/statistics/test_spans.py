"""Long times are summed from weeks, days and hours: the same as from their smallest rows."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum

from msh.statistics.admin.charts import of_time
from msh.statistics.flows.periods import slots
from msh.statistics.models import AcknowledgementTime, Statistics, Unit
from msh.statistics.store import collect as collecting
from msh.statistics.store import read
from msh.statistics.store.read import Counts
from msh.statistics.store.span import Span, beginning, pieces

from .happenings import COUNTED, NOON, Cast, cast, collect_all

__all__ = ["cast"]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
YEARS = timedelta(days=36_500)
ZONES = [
    *("UTC", "Asia/Kolkata", "Europe/Berlin", "America/New_York"),
    "America/Havana",  # its clocks are set back to midnight
    "Asia/Beirut",  # its clocks are set forward at midnight
]


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "KEPT", dict.fromkeys(Unit, YEARS))


def spans(chance: Random, count: int) -> Iterator[Span]:
    for _ in range(count):
        end = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=chance.uniform(0, 366 * 86_400))
        hours = chance.random() < 0.5
        long = timedelta(hours=chance.uniform(0, 200 if hours else 2_400))
        unit = Unit.HOUR if hours else Unit.DAY
        yield Span(unit, beginning(unit, end - long), end)


@pytest.mark.parametrize("zone", ZONES)
def test_pieces_are_one_after_the_other_and_begin_where_their_rows_do(
    settings: Any, zone: str
) -> None:
    settings.TIME_ZONE = zone
    for span in spans(Random(zone), 200):
        at = span.begin
        for piece in pieces(span):
            assert piece.begin == at < piece.end, span
            assert piece.begin == beginning(piece.unit, piece.begin), span
            at = piece.end
        assert at == span.end


def test_long_times_have_few_pieces_of_few_rows(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    lengths = {Unit.HOUR: HOUR, Unit.DAY: DAY, Unit.WEEK: 7 * DAY}
    end = datetime(2026, 11, 21, 13, 30, tzinfo=UTC)
    for unit, long, most in ((Unit.DAY, 90, 25), (Unit.HOUR, 7, 55)):
        span = Span(unit, beginning(unit, end - long * DAY), end)
        of = pieces(span)
        assert sum(-(-(one.end - one.begin) // lengths[one.unit]) for one in of) <= most


@pytest.mark.django_db
@pytest.mark.parametrize("zone", ZONES)
def test_rows_begin_where_the_database_begins_them(settings: Any, zone: str) -> None:
    """A chart finds the row of each day, also where the day is not 24 hours long."""
    settings.TIME_ZONE = zone
    year = Span(
        Unit.DAY, beginning(Unit.DAY, datetime(2026, 1, 1, 12, tzinfo=UTC)), NOON + 220 * DAY
    )
    days = [day.astimezone(UTC) for day in slots(year)]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT date_trunc('day', day + interval '12 hours', %s) FROM unnest(%s) AS day",
            [zone, days],
        )
        assert [at for (at,) in cursor.fetchall()] == days


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("zone", "begin"),
    [
        ("Europe/Berlin", datetime(2026, 10, 23, tzinfo=UTC)),
        ("America/Havana", datetime(2026, 10, 30, tzinfo=UTC)),
        ("Asia/Beirut", datetime(2026, 3, 27, tzinfo=UTC)),
    ],
)
def test_sums_are_those_of_the_smallest_rows(
    cast: Cast, settings: Any, zone: str, begin: datetime
) -> None:
    """Over the night in which clocks are set, and a Monday."""
    settings.TIME_ZONE = zone
    chance = Random(zone)
    for _ in range(60):
        cast.random_event(chance, begin)
    collect_all()
    for span in [*spans_of(chance, begin, 20)]:
        smallest, by_bucket = of_smallest(span)
        assert read.counts(span) == smallest
        found = read.times(span)
        assert {(*key, b): n for key, of in found.items() for b, n in of.items()} == by_bucket
        whole = read.total(of_time(span, read.series(span)))
        assert whole.counts == read.added(smallest.values())
        assert sum(whole.times.values()) == sum(by_bucket.values())


def spans_of(chance: Random, begin: datetime, count: int) -> Iterator[Span]:
    for unit in (Unit.HOUR, Unit.DAY) * count:
        first = begin + timedelta(seconds=chance.uniform(-86_400, 2 * 86_400))
        yield Span(unit, beginning(unit, first), first + timedelta(hours=chance.uniform(1, 96)))


def of_smallest(span: Span) -> tuple[dict[read.Key, Counts], Mapping[tuple[Any, ...], int]]:
    """By partner and agreement; times by bucket, too."""
    rows = Statistics.objects.filter(
        unit=span.unit, begins__gte=span.begin, begins__lt=span.end, partner__isnull=False
    )
    keys = ("partner_id", "agreement_id")
    summed = rows.values(*keys).annotate(**{f"sum_{name}": Sum(name) for name in COUNTED})
    times = AcknowledgementTime.objects.filter(slot__in=rows)
    return (
        {
            (row["partner_id"], row["agreement_id"]): Counts(*(row[f"sum_{n}"] for n in COUNTED))
            for row in summed
        },
        {
            row[:3]: row[3]
            for row in times.values_list("slot__partner_id", "slot__agreement_id", "bucket")
            .annotate(found=Sum("number"))
            .order_by()
        },
    )
