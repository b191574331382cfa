"""What the statistics say of a time: for partners and agreements, and as a series."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta

from msh.statistics.models import Unit
from msh.store.engine import Statement, run

from .histogram import quantile
from .span import Span, pieces


@dataclass(frozen=True, slots=True)
class Counts:
    """As the columns of the same names: see `msh/statistics/models.py`."""

    submitted: int = 0
    acknowledged: int = 0
    sent: int = 0
    received: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    retries: int = 0
    duplicates: int = 0
    failed: int = 0
    rejected: int = 0
    delivery_failures: int = 0
    in_doubt: int = 0

    @property
    def volume(self) -> int:
        """Return how many messages came through, out and in."""
        return self.acknowledged + self.sent + self.received

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(*map(operator.sub, _values(self), _values(other)))


COUNTED = tuple(one.name for one in fields(Counts))
_values = operator.attrgetter(*COUNTED)


@dataclass(frozen=True, slots=True)
class Figures:
    """`times`: acknowledgements by bucket. `down`: how long the partner was suspended."""

    counts: Counts = Counts()
    times: Mapping[int, int] = field(default_factory=dict)
    down: timedelta = timedelta()

    def within(self, share: float) -> float | None:
        """Return the seconds within which this share was acknowledged."""
        return quantile(self.times, share)


def total(figures: Iterable[Figures]) -> Figures:
    """Return the sum over agreements, or times. `down` is of one link, and not summed."""
    found = list(figures)
    if len(found) == 1:
        return found[0]
    times: dict[int, int] = {}
    for one in found:
        for bucket, number in one.times.items():
            times[bucket] = times.get(bucket, 0) + number
    return Figures(added(one.counts for one in found), times)


def added(counts: Iterable[Counts]) -> Counts:
    return Counts(*map(sum, zip(*map(_values, counts), strict=True)))


@dataclass(frozen=True, slots=True)
class _Sums(Counts):
    partner_id: int = 0
    agreement_id: int | None = None


@dataclass(frozen=True, slots=True)
class _Times:
    partner_id: int
    agreement_id: int | None
    bucket: int
    number: int


@dataclass(frozen=True, slots=True)
class _Point(Counts):
    begins: datetime = datetime.min  # noqa: DTZ901  read from the row


@dataclass(frozen=True, slots=True)
class _PointTimes:
    begins: datetime
    bucket: int
    number: int


def length(begin: datetime, end: datetime) -> timedelta:
    """Return the length, not of the wall clock, as the difference of two times of one zone is."""
    return timedelta(seconds=end.timestamp() - begin.timestamp())


@dataclass(frozen=True, slots=True)
class Down:
    """The link to a partner was suspended; None: it still is."""

    partner_id: int
    began_at: datetime
    ended_at: datetime | None

    def within(self, begin: datetime, end: datetime) -> timedelta:
        last = end if self.ended_at is None else min(self.ended_at, end)
        return max(length(max(self.began_at, begin), last), timedelta())


_COUNTS = ", ".join(f"sum({name})::bigint AS {name}" for name in COUNTED)
# OFFSET 0: a search of the index for each piece, instead of one read of all that there is.
_PIECES = """
    unnest(%(units)s::text[], %(begins)s::timestamptz[], %(ends)s::timestamptz[])
        AS piece (unit, begins, ends)
    CROSS JOIN LATERAL (
        SELECT * FROM msh_statistics
        WHERE unit = piece.unit AND begins >= piece.begins AND begins < piece.ends
          AND partner_id IS NOT NULL
          AND (%(partner_ids)s::bigint[] IS NULL OR partner_id = ANY(%(partner_ids)s))
        OFFSET 0) slot
"""
_SUMS = Statement(
    f"SELECT partner_id, agreement_id, {_COUNTS} FROM {_PIECES} GROUP BY partner_id, agreement_id",
    _Sums,
    planned_anew=True,
)
_TIMES = Statement(
    f"""
    SELECT slot.partner_id, slot.agreement_id, time.bucket, sum(time.number)::bigint AS number
    FROM {_PIECES} JOIN msh_acknowledgementtime time ON time.slot_id = slot.id
    GROUP BY slot.partner_id, slot.agreement_id, time.bucket
    """,
    _Times,
    planned_anew=True,
)

# The rows of the whole MSH are those without a partner and without a consumer.
_OF = """
    slot.unit = %(unit)s AND slot.begins >= %(begin)s AND slot.begins < %(end)s
    AND slot.consumer_id IS NULL
    AND CASE WHEN %(partner_ids)s::bigint[] IS NULL THEN slot.partner_id IS NULL
             ELSE slot.partner_id = ANY(%(partner_ids)s) END
"""
_SERIES = Statement(
    f"SELECT begins, {_COUNTS} FROM msh_statistics slot WHERE {_OF} GROUP BY begins",
    _Point,
    binary=True,
)
_SERIES_TIMES = Statement(
    f"""
    SELECT slot.begins, time.bucket, sum(time.number)::bigint AS number
    FROM msh_statistics slot JOIN msh_acknowledgementtime time ON time.slot_id = slot.id
    WHERE {_OF} GROUP BY slot.begins, time.bucket
    """,
    _PointTimes,
    binary=True,
)
_DOWN = Statement(
    """
    SELECT partner_id, began_at, ended_at FROM msh_suspension
    WHERE (ended_at IS NULL OR ended_at > %(begin)s) AND began_at < %(end)s
      AND (%(partner_ids)s::bigint[] IS NULL OR partner_id = ANY(%(partner_ids)s))
    ORDER BY began_at
    """,
    Down,
    binary=True,  # times are sooner read: there may be thousands
)

MINUTELY = (
    *("acknowledged", "sent", "received", "retries", "duplicates", "delivered"),
    *("delivery_failures", "waiting"),
)
Minutes = Mapping[str, Sequence[int | None]]
"""By the names of MINUTELY, a value for each minute: None if it is not counted yet, or if nobody
looked what was waiting."""


@dataclass(frozen=True, slots=True)
class _Minute:
    line: int
    begins: datetime
    acknowledged: int
    sent: int
    received: int
    retries: int
    duplicates: int
    delivered: int
    delivery_failures: int
    waiting: int | None
    up_to: datetime | None


# Each part is a search of the constraint's index, which has rows without a partner too.
_MINUTES_OF = f"""
    SELECT line, begins,
           {", ".join(f"sum({name})::bigint AS {name}" for name in MINUTELY)},
           (SELECT up_to FROM msh_statisticsprogress) AS up_to
    FROM (
        SELECT line, slot.*
        FROM unnest(%(lines_of_partners)s::int[], %(partner_ids)s::bigint[]) AS of (line, id)
        JOIN msh_statistics slot ON slot.partner_id = of.id {{}}
        UNION ALL
        SELECT line, slot.*
        FROM unnest(%(lines_of_consumers)s::int[], %(consumer_ids)s::bigint[]) AS of (line, id)
        JOIN msh_statistics slot ON slot.partner_id IS NULL AND slot.agreement_id IS NULL
                                AND slot.consumer_id = of.id
        UNION ALL
        SELECT line, slot.*
        FROM unnest(%(lines_of_all)s::int[]) AS of (line)
        JOIN msh_statistics slot ON slot.partner_id IS NULL AND slot.agreement_id IS NULL
                                AND slot.consumer_id IS NULL) slot
    WHERE unit = 'minute' AND begins >= %(begin)s
    GROUP BY line, begins
"""
_MINUTES = Statement(_MINUTES_OF.format(""), _Minute)
# Of a partner only the row in which somebody looked what waits: for a group of hundreds.
_LOOKED = Statement(
    _MINUTES_OF.format("AND slot.agreement_id IS NULL AND slot.consumer_id IS NULL"), _Minute
)


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of attempts at a consumer in a time. `failed`: also those that were rejected, and
    those that nobody knows the outcome of. What an operator decides counts as an attempt."""

    attempts: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class _Tried(Tried):
    consumer_id: int = 0
    unit: str = ""


# A search of the constraint's index for each consumer and unit: at most 60 and 24 rows.
_TRIED = Statement(
    """
    SELECT of.id AS consumer_id, span.unit,
           sum(delivered + rejected + delivery_failures + in_doubt)::bigint AS attempts,
           sum(rejected + delivery_failures + in_doubt)::bigint AS failed
    FROM unnest(%(consumer_ids)s::bigint[]) AS of (id)
    CROSS JOIN unnest(%(units)s::text[], %(begins)s::timestamptz[]) AS span (unit, begins)
    JOIN msh_statistics slot ON slot.partner_id IS NULL AND slot.agreement_id IS NULL
                            AND slot.consumer_id = of.id AND slot.unit = span.unit
                            AND slot.begins >= span.begins
    GROUP BY of.id, span.unit
    """,
    _Tried,
)

Key = tuple[int, int | None]
"""Partner and agreement."""


def counts(span: Span, partner_ids: Sequence[int] | None = None) -> dict[Key, Counts]:
    """Return the counts of every agreement that had something. None: of all partners."""
    (rows,) = run(_SUMS(**_parameters(span, partner_ids)))
    return {(row.partner_id, row.agreement_id): _counts(row) for row in rows}


def times(span: Span, partner_ids: Sequence[int] | None = None) -> dict[Key, Mapping[int, int]]:
    """Return Acknowledgements by bucket. There are many rows: ask for those that are shown."""
    (rows,) = run(_TIMES(**_parameters(span, partner_ids)))
    found: dict[Key, dict[int, int]] = {}
    for row in rows:
        found.setdefault((row.partner_id, row.agreement_id), {})[row.bucket] = row.number
    return dict(found)


def series(span: Span, partner_ids: Sequence[int] | None = None) -> dict[datetime, Figures]:
    """Return counts by the beginning of each hour or day in which something happened. None: of the
    whole MSH, partners that were removed since included."""
    given = {**span.parameters, "partner_ids": _array(partner_ids)}
    points, times = run(_SERIES(**given), _SERIES_TIMES(**given))
    by_begin: dict[datetime, dict[int, int]] = {}
    for one in times:
        by_begin.setdefault(one.begins, {})[one.bucket] = one.number
    return {row.begins: Figures(_counts(row), by_begin.get(row.begins, {})) for row in points}


def minutes(
    begin: datetime,
    number: int,
    about: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    names: Sequence[str] = MINUTELY,
) -> list[Minutes]:
    """Return so many minutes from `begin` on, for each of `about`: keys of partners and of
    consumers, which are added up; without any: of the whole MSH. One statement for all. `names`:
    those that are asked for."""
    whole = len(about)  # the MSH has a row of each minute in which somebody looked
    partners = [(line, key) for line, (keys, _) in enumerate(about) for key in keys]
    consumers = [(line, key) for line, (_, keys) in enumerate(about) for key in keys]
    statement = _LOOKED if tuple(names) == ("waiting",) else _MINUTES
    (rows,) = run(
        statement(
            lines_of_partners=[line for line, _ in partners],
            partner_ids=[key for _, key in partners],
            lines_of_consumers=[line for line, _ in consumers],
            consumer_ids=[key for _, key in consumers],
            lines_of_all=[whole, *(line for line, of in enumerate(about) if not any(of))],
            begin=begin,
        )
    )
    minute = timedelta(minutes=1)
    found = {(row.line, (row.begins - begin) // minute): row for row in rows}
    up_to = max((row.up_to for row in rows if row.up_to), default=begin)
    counted = [begin + (at + 1) * minute <= up_to for at in range(number)]
    of_all = [found.get((whole, at)) for at in range(number)]
    looked = [row is not None and row.waiting is not None for row in of_all]
    known = {name: looked if name == "waiting" else counted for name in names}
    return [
        {
            name: [_value(found.get((line, at)), name, known[name][at]) for at in range(number)]
            for name in names
        }
        for line in range(whole)
    ]


def _value(row: _Minute | None, name: str, is_known: bool) -> int | None:
    """Return what was counted; what is not over yet only if there is something."""
    value: int | None = getattr(row, name) if row else None
    return (value or 0) if is_known else value or None


def tried(
    consumer_ids: Sequence[int], minutes_from: datetime, hours_from: datetime
) -> Mapping[tuple[int, Unit], Tried]:
    """Return what became of attempts, by consumer, in the minutes and in the hours that begin at
    these times or later. Without attempts there is no entry."""
    spans = {Unit.MINUTE: minutes_from, Unit.HOUR: hours_from}
    given = {"consumer_ids": list(consumer_ids), "units": [one.value for one in spans]}
    (rows,) = run(_TRIED(**given, begins=list(spans.values())))
    counted = [row for row in rows if row.attempts]
    return {(row.consumer_id, Unit(row.unit)): Tried(row.attempts, row.failed) for row in counted}


def downs(
    begin: datetime, end: datetime, partner_ids: Sequence[int] | None = None
) -> Sequence[Down]:
    (rows,) = run(_DOWN(begin=begin, end=end, partner_ids=_array(partner_ids)))
    return rows


def _parameters(span: Span, partner_ids: Sequence[int] | None) -> dict[str, object]:
    of = pieces(span)
    return {
        "units": [one.unit.value for one in of],
        "begins": [one.begin for one in of],
        "ends": [one.end for one in of],
        "partner_ids": _array(partner_ids),
    }


def _counts(row: Counts) -> Counts:
    return Counts(*_values(row))


def _array(keys: Sequence[int] | None) -> list[int] | None:
    return None if keys is None else list(keys)
