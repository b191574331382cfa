"""A figure: a rate of the product and, beside it, the rate of its floor in the same run."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

_WITHIN = 120.0  # seconds
_POLL = 0.05


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


def wait_until(condition: Callable[[], bool], what: str, report: Callable[[], object]) -> None:
    """Returns when `condition` holds. RuntimeError, with `report`, after two minutes without."""
    deadline = time.monotonic() + _WITHIN
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not {what} within {_WITHIN:g} s: {report()}")
        time.sleep(_POLL)
