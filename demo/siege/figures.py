"""What a siege is judged by: quantiles, slopes, phases. Pure functions of what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from math import ceil, inf

SETTLING = 5.0
"""Seconds at both ends of a calm phase that are not measured: what the phase before it has left,
and exchanges that would reach into the next one."""


@dataclass(frozen=True, slots=True)
class Phase:
    """`scenarios`: what the hostile partner does; none: it is calm. Times in seconds."""

    start: float
    end: float
    scenarios: tuple[str, ...] = ()
    clean: bool = True
    """False of a calm phase in which what a hostile one had left behind was still worked off."""

    def measures(self, at: float) -> bool:
        """Whether what began at `at` counts for this phase."""
        margin = 0.0 if self.scenarios else SETTLING
        return self.clean and self.start + margin <= at < self.end - margin


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message of an honest pair: when it was submitted, and seconds until its Ack."""

    at: float
    seconds: float = inf


@dataclass(frozen=True, slots=True)
class Times:
    """Of exchanges, in seconds."""

    count: int
    p50: float
    p99: float
    longest: float


def plan(
    seconds: float, length: float, scenarios: Sequence[str]
) -> list[tuple[float, tuple[str, ...]]]:
    """Calm and hostile phases in turn, as many of each: how long, and what the hostile partner
    does. `scenarios` separated by blanks are run together, several are taken in turn."""
    rounds = max(1, round(seconds / length / 2))
    length = seconds / rounds / 2
    made: list[tuple[float, tuple[str, ...]]] = []
    for _, names in zip(range(rounds), cycle(scenarios), strict=False):
        made += [(length, ()), (length, tuple(names.split()))]
    return made


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all do not exceed. 0 of none."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def times(exchanges: Sequence[Exchange], phases: Sequence[Phase]) -> Times:
    """Of the exchanges that began in one of these phases."""
    spent = [one.seconds for one in exchanges if any(each.measures(one.at) for each in phases)]
    return Times(
        len(spent),
        round(quantile(spent, 0.5), 3),
        round(quantile(spent, 0.99), 3),
        round(max(spent, default=0.0), 3),
    )


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line through the points by least squares; 0 of fewer than two."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if not spread:
        return 0.0
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def later(points: Sequence[tuple[float, float]], share: float = 0.6) -> list[tuple[float, float]]:
    """The last `share` of the time: a process that has started fills its caches first."""
    if not points:
        return []
    first, last = points[0][0], points[-1][0]
    return [point for point in points if point[0] >= last - share * (last - first)]
