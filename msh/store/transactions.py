"""Transactions whose BEGIN and COMMIT have no round trip of their own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.transaction import atomic
from psycopg.pq import TransactionStatus


class _Here(threading.local):
    begins = False
    """BEGIN goes with the next round trip of this thread."""
    is_short = False
    """COMMIT may go with a round trip of this thread."""


here = _Here()


@contextmanager
def short_transaction() -> Iterator[None]:
    """A transaction without round trips of its own: BEGIN goes with the first statements of `run`,
    COMMIT with those of `run_all(..., last=True)`. Nothing but these functions of the engine may be
    used in it.

    Rolled back if an error is raised, that of COMMIT too. Within another transaction a savepoint.
    """
    database = connections[DEFAULT_DB_ALIAS]
    database.ensure_connection()
    if database.in_atomic_block:
        with atomic():
            yield
        return
    here.begins = here.is_short = True
    try:
        yield
        if _is_open(database):
            with database.wrap_database_errors:
                database.connection.commit()
    except BaseException:
        _undo(database)
        raise
    finally:
        here.begins = here.is_short = False


def _undo(database: Any) -> None:
    """Roll back. A session that cannot is closed: the next statement opens another."""
    try:
        if _is_open(database):
            database.connection.rollback()
    except psycopg.Error:
        database.close()
    else:
        if database.connection.closed:
            database.close()


def _is_open(database: Any) -> bool:
    status: TransactionStatus = database.connection.info.transaction_status
    return status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)
