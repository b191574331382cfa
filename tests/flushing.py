"""Empties the database after a test that commits: rows are deleted where there are any, and what
the migrations made stays.

Django truncates every table and then makes content types, permissions, roles and the schedule
again, which takes a quarter of a second of CPU: more than most of these tests.
"""

from collections.abc import Iterable
from typing import Any

from django.db import connection, transaction
from django.test import TransactionTestCase
from psycopg import sql

LARGE = 1_000_000  # bytes. The pages of a deleted row stay until autovacuum has been there.

_flush_all = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]


class Flushing:
    """`defaults` are the tables that have rows once the database is migrated, each with a digest
    of them."""

    def __init__(self) -> None:
        self._tables = connection.introspection.django_table_names(
            only_existing=True, include_views=False
        )
        with connection.cursor() as cursor:
            cursor.execute("SELECT usesuper FROM pg_user WHERE usename = current_user")
            (self._is_superuser,) = cursor.fetchone()
        self._remember()

    def _remember(self) -> None:
        with connection.cursor() as cursor:
            written = _written(cursor, self._tables)
            self._defaults = {
                table: digest for table, digest in _digests(cursor, written).items() if digest
            }

    def flush(self, case: Any) -> None:
        """As Django does it, if a test has changed what the migrations made, or where we may not
        switch off triggers."""
        if not self._is_superuser or not self._delete_rows():
            _flush_all(case)
            self._remember()

    def _delete_rows(self) -> bool:
        with transaction.atomic(), connection.cursor() as cursor:
            # Waits for other sessions that have written and not committed, as TRUNCATE does.
            cursor.execute(_of("LOCK TABLE {} IN SHARE MODE", self._tables))
            if _digests(cursor, self._defaults) != self._defaults:
                return False
            written = _written(cursor, self._tables)
            of_tests = {table: written[table] for table in written.keys() - self._defaults.keys()}
            large = [table for table, size in of_tests.items() if size > LARGE]
            if large:
                cursor.execute(_of("TRUNCATE {} CASCADE", large))
            # Without foreign keys and without the triggers that keep the history.
            cursor.execute("SET LOCAL session_replication_role = replica")
            for table in of_tests.keys() - set(large):
                cursor.execute(_of("DELETE FROM {}", [table]))
        return True


def _written(cursor: Any, tables: Iterable[str]) -> dict[str, int]:
    """Tables that have pages, and their size in bytes."""
    cursor.execute(
        "SELECT relname, pg_relation_size(oid) FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace AND relname = ANY(%(tables)s)"
        " AND pg_relation_size(oid) > 0",
        {"tables": list(tables)},
    )
    return dict(cursor.fetchall())


def _digests(cursor: Any, tables: Iterable[str]) -> dict[str, str | None]:
    """Of all rows of each table; None if it is empty."""
    one = "SELECT {name}, md5(string_agg(row::text, '' ORDER BY row::text)) FROM {table} row"
    parts = [
        sql.SQL(one).format(name=sql.Literal(table), table=sql.Identifier(table))
        for table in tables
    ]
    cursor.execute(sql.SQL(" UNION ALL ").join(parts))
    return dict(cursor.fetchall())


def _of(statement: str, tables: Iterable[str]) -> sql.Composed:
    return sql.SQL(statement).format(sql.SQL(", ").join(map(sql.Identifier, tables)))
