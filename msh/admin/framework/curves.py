"""Curves of the last hour of partners and consumers, and the share of attempts at a consumer that
failed: a feature has them, or nobody does."""

from collections.abc import Callable, Iterable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class ErrorRate:
    """How many attempts at a consumer there were in the last hour and in the last 24 hours, and how
    many of them did not succeed."""

    attempts: int = 0
    failed: int = 0
    attempts_of_day: int = 0
    failed_of_day: int = 0


rates: ExtensionPoint[Callable[[Sequence[int]], Mapping[int, ErrorRate]]] = ExtensionPoint()
"""By the key of a consumer."""


def small_curves(about: Sequence[About]) -> Sequence[str]:
    for draw in small:
        return draw(about)
    return [""] * len(about)


def charts(about: About) -> Sequence[object]:
    return [chart for draw in whole for chart in draw(about)]


def error_rates(consumers: Sequence[int]) -> Mapping[int, ErrorRate]:
    for counted in rates:
        return counted(consumers)
    return {}


def percent(failed: int, attempts: int) -> str:
    """Return the share in percent, of at least one attempt. Only none of them is 0 %, and only all
    of them are 100 %."""
    share = 100 * failed / attempts
    if failed and share < 0.1:
        return "< 0.1 %"
    if failed < attempts and share > 99.9:
        return "> 99.9 %"
    return f"{round(share, 1):g} %"
