"""A figure: a rate of the product and, beside it, the rate of its floor in the same run. A gauge
has no floor."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

_WITHIN = 120.0  # seconds
_POLL = 0.05

Quiet = Callable[[], AbstractContextManager[None]]
"""Has stand still what is not measured."""


class Figure(Protocol):
    """Rates are messages per second. Each is returned only after the rows were counted in the
    databases; RuntimeError if they and the answers do not agree."""

    name: str
    minimum: float
    """The ratio to hold, below it the run fails. 0: reported only."""

    def quiet(self) -> AbstractContextManager[None]:
        """What neither side needs stands still, for both."""
        ...

    def product(self) -> float: ...

    def floor(self) -> float: ...

    def facts(self) -> dict[str, Any]:
        """What else was seen of the product, warm-up included: its name → a number."""
        ...


class Gauge(Protocol):
    """A quantity of the product alone, measured once in a run."""

    name: str
    unit: str
    at_most: float
    """More fails the run. 0: reported only."""

    def measure(self) -> float: ...

    def facts(self) -> dict[str, Any]: ...


class Against:
    """A figure here, and the same figure elsewhere for its floor: what differs between the two
    places is what the ratio shows."""

    def __init__(
        self,
        name: str,
        here: Figure,
        elsewhere: Figure,
        *,
        minimum: float = 0,
        quiet: tuple[Quiet, Quiet] = (nullcontext, nullcontext),
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.minimum = minimum
        self._here = here
        self._elsewhere = elsewhere
        self._quiet_here, self._quiet_elsewhere = quiet
        self._facts = facts or {}

    def quiet(self) -> AbstractContextManager[None]:
        return nullcontext()

    def product(self) -> float:
        with self._quiet_elsewhere(), self._here.quiet():
            return self._here.product()

    def floor(self) -> float:
        with self._quiet_here(), self._elsewhere.quiet():
            return self._elsewhere.product()

    def facts(self) -> dict[str, Any]:
        return self._facts | self._here.facts()


def wait_until(condition: Callable[[], bool], what: str, report: Callable[[], object]) -> None:
    """Returns when `condition` holds. RuntimeError, with `report`, after two minutes without."""
    deadline = time.monotonic() + _WITHIN
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not {what} within {_WITHIN:g} s: {report()}")
        time.sleep(_POLL)
