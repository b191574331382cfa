"""On Django's own connection and in its transaction, under the same constraints as the ORM."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from psycopg.rows import namedtuple_row

from .usual import TOGETHER

Cursor = psycopg.Cursor[Any]
Statement = tuple[str, Sequence[Any]]
"""SQL and its parameters."""
NamedStatement = tuple[str, Mapping[str, Any]]
"""SQL and its parameters by name."""


@contextmanager
def pipeline() -> Iterator[Cursor]:
    """A cursor whose statements go to the server in one round trip.

    Results are read after the block. Parameters are bound by the server.
    """
    database = _database()
    with database.wrap_database_errors, database.connection.pipeline():
        yield _cursor(database)


def run(*statements: Statement | NamedStatement) -> list[list[Any]]:
    """Run (statement, parameters) pairs in one round trip; the rows of each."""
    if whole := TOGETHER.get(tuple(statement for statement, _ in statements)):
        statements = ((whole, [value for _, values in statements for value in values]),)
    database = _database()
    cursors = [_cursor(database) for _ in statements]
    with database.wrap_database_errors:
        if len(statements) == 1:
            cursors[0].execute(*statements[0])
        elif statements:
            with database.connection.pipeline():
                for cursor, (statement, parameters) in zip(cursors, statements, strict=True):
                    cursor.execute(statement, parameters)
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


def fetch(statement: str, parameters: Sequence[Any]) -> list[Any]:
    """The rows of one statement in PostgreSQL's binary format: bytes come as they are."""
    database = _database()
    with database.wrap_database_errors:
        return _cursor(database).execute(statement, parameters, binary=True).fetchall()


def _database() -> Any:
    """Django's own connection of this thread, connected. Looked up once: the look-up is dear.

    Raises TransactionManagementError, as Django's own cursors do, in a transaction that is marked
    for rollback: its COMMIT would be none, and say nothing.
    """
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    database.validate_no_broken_transaction()
    return database


def _cursor(database: Any) -> Cursor:
    return psycopg.Cursor(database.connection, row_factory=namedtuple_row)


BY_INDEX = "SELECT set_config('enable_bitmapscan', 'off', true)"
"""For the rest of the transaction: what wants the first row in the order of an index reads that
row. A plan made while a table was small may else read and sort all rows, and is kept."""

CLOCK = "SELECT clock_timestamp() AS now"
"""One clock for all: the database's (D13)."""
