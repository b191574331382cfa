"""The tables of states, cell by cell, and what holds for each table as a whole."""

from dataclasses import replace
from enum import StrEnum
from typing import Any

import pytest

from msh.protocol import events as on
from msh.protocol.errors import IllegalTransition

from .tables import TABLES, flight, sender
from .tables.form import Row, Table


def _row(table: Table, row: Row) -> Any:
    proves = [*table.proves.split(), *row.proves.split()]
    marks = [pytest.mark.requirement(*proves)] if proves else []
    return pytest.param(table, row, id=f"{table.name}: {row.title}", marks=marks)


ROWS = [_row(table, row) for table in TABLES.values() for row in table.rows]


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_row(table: Table, row: Row) -> None:
    """Each of its cells."""
    for column in table.columns:
        before, cell = table.before(row, column), row.cell(column)
        if cell is None:
            with pytest.raises(IllegalTransition) as refusal:
                table.step(before, row.event)
            assert refusal.value.event == type(row.event).__name__, column
            assert refusal.value.state in (before.state, *table.reasons), column
            continue

        after, effects = table.step(before, row.event)

        assert after == replace(before, **cell.changes), column
        assert effects == cell.effects, column


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_event_has_a_row_and_every_cell_a_column(table: Table) -> None:
    assert {type(row.event) for row in table.rows} == table.events
    for row in table.rows:
        assert sorted(row.named) == sorted({*row.named} & {*table.columns}), row.title


@pytest.mark.parametrize("name", [name for name in TABLES if name != "delivery"])
def test_the_table_of_the_product_has_a_cell_for_every_state_and_event(name: str) -> None:
    table = TABLES[name]
    stated = {state: set(row) for state, row in table.transitions.items()}
    assert stated == dict.fromkeys(table.states, table.events)


@pytest.mark.parametrize("name", ["sender", "flight", "numbering"])
def test_every_arrow_that_the_table_states_is_walked_by_a_row(name: str) -> None:
    """The diagram is drawn from the cells' targets: one that is never reached would be a lie."""
    table = TABLES[name]
    walked = {
        (before.state, type(row.event), table.step(before, row.event)[0].state)
        for row in table.rows
        for column in table.columns
        if row.cell(column) and (before := table.before(row, column))
    }
    stated = {
        (state, event, target)
        for state, events in table.transitions.items()
        for event, cell in events.items()
        for target in (cell.targets if cell else ())
    }
    if name == "numbering":
        assert walked == stated
    assert _leaving(walked) == _leaving(stated)


def _leaving(arrows: set[tuple[StrEnum, type, StrEnum]]) -> set[tuple[StrEnum, type, StrEnum]]:
    return {(state, event, target) for state, event, target in arrows if target is not state}


# --- copies and answers, of a lane and of a flight ----------------------------------------------

LANES = [(sender.TABLE, column) for column in sender.COLUMNS]
FLIGHTS = [(flight.TABLE, column) for column in flight.COLUMNS]
ENDS = (on.AttemptTransmitted, on.AttemptFailed, on.AttemptRefused)
FLYING = [(table, column) for table, column in LANES if column in sender.FLIES.split()]
ANSWERS_OF_OTHERS = [
    on.AckReceived("m6"),
    on.TransientErrorReceived("m6", 30),
    on.SequenceErrorReceived("m6", sender.GAP),
    on.ErrorReceived("m6", sender.HARD),
]
"""The first and the last are known to a flight, too."""


def before(table: Table, column: str) -> Any:
    return table.before(table.rows[0], column)


@pytest.mark.parametrize(("message_id", "attempt"), [("m7", 1), ("m7", 3), ("m6", 2)])
@pytest.mark.parametrize(
    ("event", "table", "column"),
    [(event, *one) for event in ENDS for one in (*LANES, *FLIGHTS)]
    + [(on.AttemptBegun, *one) for one in LANES],
)
def test_an_attempt_that_is_not_the_latest_does_nothing(
    event: type[Any], message_id: str, attempt: int, table: Table, column: str
) -> None:
    value = before(table, column)
    assert table.step(value, event(message_id, attempt)) == (value, ())


@pytest.mark.requirement("000-014", "000-097")
@pytest.mark.parametrize(
    ("event", "table", "column"),
    [(event, *one) for event in ANSWERS_OF_OTHERS for one in FLYING]
    + [(event, *one) for event in ANSWERS_OF_OTHERS[::3] for one in FLIGHTS],
)
def test_an_answer_to_another_message_never_touches_this_one(
    event: Any, table: Table, column: str
) -> None:
    """EB-070, EB-086."""
    with pytest.raises(IllegalTransition):
        table.step(before(table, column), event)
