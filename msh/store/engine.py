"""Statements with named parameters and typed rows, on Django's own connection and transaction.

The hot path does not use the ORM: it needs several statements in one round trip, locks that pass
over what others hold, and no objects that it throws away. The constraints are the same.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import groupby
from typing import Any, Generic, TypeVar, overload

from django.db import DEFAULT_DB_ALIAS, connections

from . import transactions
from .prepared import Asked, execute

Row_co = TypeVar("Row_co", covariant=True)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class Order(IntEnum):
    """The order in which one transaction writes, so that constraints hold after each statement and
    all transactions lock rows in one order: see ARCHITECTURE.md."""

    MESSAGE = 0
    """A message has its number before a link points at it."""
    LINK = 1
    FLIGHT = 2
    CONVERSATION = 3
    MESSAGE_AFTER_LINK = 4
    """A message loses its number when no link points at it any more."""
    DELIVERY = 5
    INBOUND_MESSAGE = 6
    ATTEMPT = 7
    EVENT = 8
    SIGNAL = 9
    INCIDENT = 10
    HISTORY = 11


@dataclass(frozen=True, eq=False)
class Statement(Generic[Row_co]):
    """SQL with parameters `%(name)s`. Called with their values, it gives a `Call` for `run`."""

    sql: str
    row: type[Row_co] | None = None
    """The type of each row; its fields are the names of the columns. None: rows are not read."""
    order: Order = Order.MESSAGE
    """Its place among the writes of one transaction."""
    binary: bool = False
    """Rows come in PostgreSQL's binary format: bytes as they are."""
    many: "Statement[None] | None" = None
    """The same write for many rows, none of them twice. Its parameter `rows` is JSON for
    `json_to_recordset`: a list of what would be the parameters of `sql`."""
    planned_anew: bool = False
    """It is planned for its values at each run: what it reads differs so much that the one plan of
    a prepared statement costs more than the planning."""

    def __call__(self, **values: object) -> "Call[Row_co]":
        return Call(self, values)

    def of(self, row: object) -> "Call[Row_co]":
        return Call(self, vars(row))


class Write(Statement[None]):
    """A statement whose rows nobody reads."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Row_co]):
    """A statement with its values."""

    statement: Statement[Row_co]
    values: Mapping[str, Any]


def in_order(calls: Sequence[Call[object]]) -> list[Call[object]]:
    """Return the same writes in the order of a transaction, those of one statement together."""
    places: dict[Statement[object], int] = {}
    for call in calls:
        places.setdefault(call.statement, len(places))
    return sorted(calls, key=lambda call: (call.statement.order, places[call.statement]))


def gather(calls: Sequence[Call[object]]) -> Iterator[Call[object]]:
    """Yield the same writes, those of one statement that stand together as one where it has
    `many`."""
    for statement, group in groupby(calls, key=lambda call: call.statement):
        some = list(group)
        if statement.many is None or len(some) == 1:
            yield from some
        else:
            # An array for each parameter would take psycopg ten times as long.
            yield statement.many(rows=json.dumps([call.values for call in some], default=str))


@dataclass(frozen=True, slots=True)
class Key:
    """A row of which only the id is read."""

    id: int


@overload
def run(first: Call[A], /) -> tuple[list[A]]: ...
@overload
def run(first: Call[A], second: Call[B], /) -> tuple[list[A], list[B]]: ...
@overload
def run(first: Call[A], second: Call[B], third: Call[C], /) -> tuple[list[A], list[B], list[C]]: ...
@overload
def run(*calls: Call[object]) -> tuple[list[Any], ...]: ...
def run(*calls: Call[object]) -> tuple[list[Any], ...]:
    """Run them in this order in one round trip; the rows of each."""
    return _execute(calls)


def run_all(calls: Sequence[Call[object]], *, last: bool = False) -> None:
    """Run writes in one round trip. `last`: COMMIT goes with them, in a `short_transaction`."""
    _execute(calls, last=last)


def _execute(calls: Sequence[Call[object]], *, last: bool = False) -> tuple[list[Any], ...]:
    """Raises TransactionManagementError, as Django's own cursors do, in a transaction that is
    marked for rollback: its COMMIT would do nothing and raise nothing."""
    begins, ends = transactions.here.begins, last and transactions.here.is_short
    # Nothing to write, and no transaction to end: BEGIN is sent with the first statement, so none
    # has begun.
    if not calls and (begins or not ends):
        return ()
    database: Any = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    database.validate_no_broken_transaction()
    asked = [
        Asked(of.sql, values, of.row, of.binary, of.planned_anew)
        for of, values in ((call.statement, call.values) for call in calls)
    ]
    with database.wrap_database_errors:
        rows = execute(database.connection, asked, begins=begins, ends=ends)
        transactions.here.begins = False
    return tuple(rows)


USE_INDEX_ORDER = Write("""
    SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true)
""")
"""For the rest of the transaction: what wants the first row in the order of an index reads that
row. A plan made while the table was small, or an index that once had many more entries, may
otherwise have all rows read and sorted; and the plan is kept."""
