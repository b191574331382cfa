"""Statements of the tests' own, and what the store runs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.db import connection

from msh.store import engine
from msh.store.engine import Call

Calls = Sequence[Call[Any]]
Execute = Callable[[Calls], tuple[list[Any], ...]]


def execute(statement: str, *values: Any) -> None:
    """Run one statement that returns nothing."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def analyze(*tables: str) -> None:
    """ANALYZE these tables, or all."""
    _whatever_autovacuum_does(f"ANALYZE {', '.join(tables)}")


def reindex(*tables: str) -> None:
    """Remove what an index still has of rows that earlier tests took back: reading past it would
    count as a cost of this test."""
    for table in tables:
        _whatever_autovacuum_does(f"REINDEX TABLE {table}")


@contextmanager
def without_triggers(table: str) -> Iterator[None]:
    """The rows of this table, which refuse to be changed, can be."""
    _whatever_autovacuum_does(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    yield
    _whatever_autovacuum_does(f"ALTER TABLE {table} ENABLE TRIGGER USER")


def _whatever_autovacuum_does(statement: str) -> None:
    """Run a statement that waits for an autovacuum of the same table, however long."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = 0")
        cursor.execute(statement)
        cursor.execute("RESET lock_timeout")


def wrap_execute(patch: pytest.MonkeyPatch, wrap: Callable[[Execute, Calls], Any]) -> None:
    """Have `wrap(execute, calls)` run what the store runs in one round trip."""
    real = engine._execute
    patch.setattr(engine, "_execute", lambda calls, **how: wrap(partial(real, **how), calls))
