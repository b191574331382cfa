"""A table of states and events, as the Sender, a flight and others have one each.

A table is a dictionary state → event class → Cell, or None where the event may not happen. It is
complete: a cell for every state and event.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from .errors import IllegalTransition


class _Stateful(Protocol):
    @property
    def state(self) -> StrEnum: ...


Value = TypeVar("Value", bound=_Stateful)
State = TypeVar("State", bound=StrEnum)
Effect = TypeVar("Effect")


@dataclass(frozen=True, slots=True)
class Cell(Generic[State]):
    """One cell: what is done, called with the value, the event and the parameters that all cells
    of its table have, and the states it may lead to."""

    handler: Callable[..., Any]
    targets: tuple[State, ...]


Row = dict[State, Cell[State] | None]


def by_state(rows: Mapping[type, Row[State]], states: type[State]) -> dict[State, dict[type, Any]]:
    """The table, of its rows: event class → state → Cell."""
    return {state: {event: row[state] for event, row in rows.items()} for state in states}


def illegal(before: _Stateful, event: object) -> IllegalTransition:
    return IllegalTransition(before.state, type(event).__name__)


def apply(
    cell: Cell[Any], before: Value, event: object, *parameters: object
) -> tuple[Value, tuple[Any, ...]]:
    """Call the cell and return its result. Raises AssertionError if it leads to a state that it
    does not name."""
    after, effects = cell.handler(before, event, *parameters)
    if after.state not in cell.targets:
        raise AssertionError(f"{before.state}, {type(event).__name__} led to {after.state}")
    return after, effects
