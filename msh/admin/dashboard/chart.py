"""A day in lines: figures become the points of an SVG drawing, which needs no script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 140
"""Of the drawing, in its own units."""


@dataclass(frozen=True, slots=True)
class Line:
    """`style` is the CSS class that tells it from the others, `points` are "x,y x,y ..."."""

    name: str
    style: str
    points: str
    total: int


@dataclass(frozen=True, slots=True)
class Chart:
    """`ticks` are (x, text) along the time, `top` is the figure at its upper edge."""

    title: str
    lines: Sequence[Line]
    ticks: Sequence[tuple[float, str]]
    top: float
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def words(self) -> str:
        """What it shows, for those who do not see it."""
        totals = ", ".join(f"{line.name} {line.total}" for line in self.lines)
        return f"{self.title}: in all {totals}. At most {self.top:g} a minute."


def chart(
    title: str,
    series: Mapping[str, Sequence[int]],
    minutes: int,
    ticks: Sequence[tuple[int, str]],
) -> Chart:
    """A line for each of `series`, whose figures are counts of that many `minutes` each, all of the
    same length. `ticks` name some of them by their place."""
    peak = max((max(counts, default=0) for counts in series.values()), default=0)
    top = max(peak / minutes, 1)
    lines = [
        Line(name, f"msh-line-{place}", _points(counts, minutes, top), sum(counts))
        for place, (name, counts) in enumerate(series.items(), 1)
    ]
    slots = max((len(counts) for counts in series.values()), default=1)
    return Chart(title, lines, [(_x(at, slots), text) for at, text in ticks], round(top, 1))


def _points(counts: Sequence[int], minutes: int, top: float) -> str:
    return " ".join(
        f"{_x(at, len(counts)):.1f},{HEIGHT - count / minutes / top * HEIGHT:.1f}"
        for at, count in enumerate(counts)
    )


def _x(at: int, slots: int) -> float:
    return at * WIDTH / max(slots - 1, 1)
