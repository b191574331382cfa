"""Curves of the last hour of partners and consumers: a feature draws them, or nobody does."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msh.extension import ExtensionPoint


@dataclass(frozen=True, slots=True)
class About:
    """What a curve adds up: keys of partners, or of consumers. Of neither there is none. `waiting`:
    with what waits, and not only with what was done."""

    partners: tuple[int, ...] = ()
    consumers: tuple[int, ...] = ()
    waiting: bool = True


small: ExtensionPoint[Callable[[Sequence[About]], Sequence[str]]] = ExtensionPoint()
"""For each, what waits for it as a small curve, and whether it grows; empty if it is not known."""
whole: ExtensionPoint[Callable[[About], Iterable[object]]] = ExtensionPoint()
"""What waits, and what was done: charts for `statistics/chart.html`."""


def small_curves(about: Sequence[About]) -> Sequence[str]:
    for draw in small:
        return draw(about)
    return [""] * len(about)


def charts(about: About) -> Sequence[object]:
    return [chart for draw in whole for chart in draw(about)]
