"""Charts as SVG: bars of counts, lines of times and of rates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil

from django.utils import timezone

from msh.flows.operations.figures import seconds_text
from msh.statistics.flows.periods import slots
from msh.statistics.models import Unit
from msh.statistics.store.read import Figures
from msh.statistics.store.span import Span

WIDTH, HEIGHT = 600, 140
"""Of the plot, in SVG units."""
TICKS = 6


@dataclass(frozen=True, slots=True)
class Series:
    """`style` ends the name of a CSS class. Of bars, which are one path: a page has a thousand of
    them; or of lines, one for each run of points."""

    name: str
    style: int
    bars: str = ""
    lines: Sequence[str] = ()
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """`top`: the text at the upper edge. `ticks`: (x, text)."""

    title: str
    series: Sequence[Series]
    ticks: Sequence[tuple[float, str]]
    top: str
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def description(self) -> str:
        """Return the text for screen readers."""
        said = ", ".join(f"{one.name} {one.summary}" for one in self.series)
        return f"{self.title}: {said}; at most {self.top}."


Counted = Sequence[tuple[str, Sequence[int]]]
Measured = Sequence[tuple[str, Sequence[float | None]]]


def bars(title: str, span: Span, counted: Counted) -> Chart:
    """Return for each hour or day a bar of each series, side by side."""
    peak = max((max(values, default=0) for _, values in counted), default=0)
    top = max(peak, 1)
    series = [
        Series(
            name,
            place + 1,
            bars="".join(
                _bar(at, len(values), place, len(counted), value / top)
                for at, value in enumerate(values)
                if value
            ),
            summary=_total(values),
        )
        for place, (name, values) in enumerate(counted)
    ]
    return Chart(title, series, _ticks(span), f"{top:,}")


def lines(title: str, span: Span, measured: Measured) -> Chart:
    """Return lines of times in seconds; where there is none the line is interrupted."""
    known = [value for _, values in measured for value in values if value is not None]
    top = max(known, default=1.0)
    series = [
        Series(name, place + 1, lines=_lines(values, top), summary=_at_most(values))
        for place, (name, values) in enumerate(measured)
    ]
    return Chart(title, series, _ticks(span), seconds_text(top))


def rates(
    title: str,
    counted: Mapping[str, Sequence[int | None]],
    minutes: int,
    ticks: Sequence[tuple[int, str]],
    *,
    summary: Callable[[Sequence[int | None]], str] | None = None,
) -> Chart:
    """Return lines of what happens in a minute. Each value counts a period of `minutes`, as many
    for each series; where it is not known the line is interrupted. `ticks`: (index of the value
    that begins there, text). `summary`: what is said of a series, by default its total."""
    by_minute = [
        [None if count is None else count / minutes for count in counts]
        for counts in counted.values()
    ]
    most = max((rate for line in by_minute for rate in line if rate is not None), default=0)
    top = whole_number(most)
    series = [
        Series(name, place, lines=_lines(line, top), summary=(summary or _total)(counts))
        for place, ((name, counts), line) in enumerate(
            zip(counted.items(), by_minute, strict=True), 1
        )
    ]
    slot = WIDTH / max((len(line) for line in by_minute), default=1)
    return Chart(title, series, [(round(at * slot, 1), text) for at, text in ticks], f"{top:,}")


def whole_number(most: float) -> int:
    """Return the upper end of an axis: the first of 1, 2, 5, 10, 20, 50 and so on that is not less
    than `most`."""
    size = 1
    while most > 5 * size:
        size *= 10
    return next(step * size for step in (1, 2, 5) if most <= step * size)


def of_time(span: Span, found: dict[datetime, Figures]) -> list[Figures]:
    """Return a value for each hour or day, also those in which nothing happened."""
    return [found.get(begin.astimezone(UTC), Figures()) for begin in slots(span)]


def _bar(at: int, slots: int, place: int, places: int, share: float) -> str:
    slot = WIDTH / slots
    width = slot * 0.8 / places
    height = max(share * HEIGHT, 1)
    left = at * slot + slot * 0.1 + place * width
    return f"M{left:.1f} {HEIGHT}v-{height:.1f}h{width:.2f}v{height:.1f}z"


def _lines(values: Sequence[float | None], top: float) -> list[str]:
    runs: list[list[str]] = [[]]
    slot = WIDTH / max(len(values), 1)
    for at, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{(at + 0.5) * slot:.1f},{HEIGHT - value / top * HEIGHT:.1f}")
    # A single point is a short line.
    return [" ".join(run if len(run) > 1 else [run[0], _beside(run[0])]) for run in runs if run]


def _beside(point: str) -> str:
    x, _, y = point.partition(",")
    return f"{float(x) + 3:.1f},{y}"


def _total(counts: Sequence[int | None]) -> str:
    return f"{sum(filter(None, counts)):,} total"


def _at_most(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"up to {seconds_text(max(known))}" if known else "none"


def _ticks(span: Span) -> list[tuple[float, str]]:
    begins = list(slots(span))
    if span.unit is Unit.HOUR:  # days are those of the MSH
        begins = [timezone.localtime(begin) for begin in begins]
    short = span.unit is Unit.HOUR and len(begins) <= 48
    every = max(ceil(len(begins) / TICKS), 1)
    form = "%H:%M" if short else "%d %b"
    return [
        (round((at + 0.5) * WIDTH / len(begins), 1), begin.strftime(form))
        for at, begin in enumerate(begins)
        if at % every == 0
    ]
