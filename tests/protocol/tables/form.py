"""The form of a table: rows of events, columns of values to start from, and what each cell says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Becomes:
    """What changes of the value, and every effect in its order."""

    changes: dict[str, Any] = field(default_factory=dict)
    effects: tuple[Any, ...] = ()


def becomes(*effects: Any, **changes: Any) -> Becomes:
    return Becomes(changes, effects)


SAME = becomes()

Cells = Mapping[str, Becomes]
"""Names of columns, with blanks between them, and what becomes of a value in each of them; "*":
every column that is not named. Otherwise the event may not happen in a column that is not named."""


@dataclass(frozen=True)
class Row:
    """`proves`: the numbers of requirements. `start` stands in place of what the columns of the
    table are made of. `due`: of the value, in seconds from now."""

    event: Any
    cells: Cells
    proves: str = ""
    name: str = ""
    start: Any = None
    due: float = -5

    @property
    def title(self) -> str:
        return ", ".join(filter(None, (type(self.event).__name__, self.name)))

    @property
    def named(self) -> list[str]:
        """Every column that the row names, as often as it does."""
        return [column for names in self.cells for column in names.split() if names != "*"]

    def cell(self, column: str) -> Becomes | None:
        """None: the event may not happen there."""
        mine = (cell for names, cell in self.cells.items() if column in names.split())
        return next(mine, self.cells.get("*"))


@dataclass(frozen=True)
class Table:
    """`before` makes the value of a column. `step` goes at NOW. `transitions` is the table of the
    product. `reasons` may be named in a refusal, in place of the state. `proves`: what
    every row proves."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    before: Callable[[Row, str], Any]
    step: Callable[[Any, Any], tuple[Any, tuple[Any, ...]]]
    transitions: Mapping[Any, Mapping[type, Any]]
    states: type[StrEnum]
    events: frozenset[type]
    reasons: tuple[str, ...] = ()
    proves: str = ""
