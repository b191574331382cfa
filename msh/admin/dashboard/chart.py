"""Line charts as SVG: the points of the lines, the ticks, and a description."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 140
"""Of the plot, in SVG units."""


@dataclass(frozen=True, slots=True)
class Line:
    """`style` is a CSS class, `points` are "x,y x,y ..."."""

    name: str
    style: str
    points: str
    total: int


@dataclass(frozen=True, slots=True)
class Chart:
    """`ticks` are (x, text) on the time axis, `top` is the value at the upper edge."""

    title: str
    lines: Sequence[Line]
    ticks: Sequence[tuple[float, str]]
    top: float
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def description(self) -> str:
        """Description for screen readers."""
        totals = ", ".join(f"{line.name} {line.total}" for line in self.lines)
        return f"{self.title}: total {totals}, peak {self.top:g} per minute."


def chart(
    title: str,
    series: Mapping[str, Sequence[int]],
    minutes: int,
    ticks: Sequence[tuple[int, str]],
) -> Chart:
    """A line for each of `series`, which have equal lengths; each value counts a period of
    `minutes`. `ticks` are (index of a value, text)."""
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
