"""Rows made by PostgreSQL itself, as copies of rows that the product has written."""

import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from .msh import Msh
from .report import tell

_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
  AND attname <> 'id'
ORDER BY attnum
"""
_INDEXES = """
SELECT CASE WHEN c.oid IS NULL THEN format('DROP INDEX %%s', i.indexrelid::regclass)
            ELSE format('ALTER TABLE %%s DROP CONSTRAINT %%I', i.indrelid::regclass, c.conname) END,
       CASE WHEN c.oid IS NULL THEN pg_get_indexdef(i.indexrelid)
            ELSE format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', i.indrelid::regclass, c.conname,
                        pg_get_constraintdef(c.oid)) END
FROM pg_index i LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype IN ('u', 'x')
WHERE i.indrelid = ANY(%s::regclass[]) AND NOT i.indisprimary
ORDER BY i.indrelid, i.indexrelid
"""
"""What drops an index or the constraint that has it, and what makes it again."""
HEADROOM = 1.25
"""Of disk space, for the write-ahead log and for what is written while it is measured."""


def clone(
    connection: "psycopg.Connection[Any]", table: str, source: str, values: Mapping[str, str]
) -> int:
    """Insert copies into `table`, with `values`, expressions, instead of what was copied.

    `source` is what follows FROM: `row` in it is the row that is copied. How many rows were made.
    """
    columns = [name for (name,) in connection.execute(_COLUMNS, (table,))]
    names = ["id", *columns] if "id" in values else columns
    quoted = ", ".join(f'"{name}"' for name in names)  # one is called window
    selected = [values.get(name, f'"row"."{name}"') for name in names]
    statement = f"INSERT INTO {table} ({quoted}) SELECT {', '.join(selected)} {source}"
    return connection.execute(statement.encode()).rowcount


@contextmanager
def without_indexes(
    connection: "psycopg.Connection[Any]", tables: Sequence[str]
) -> Generator[None]:
    """Builds the indexes of the tables after the block, which fills them several times faster.

    Primary keys stay: foreign keys need them, and ids come in order.
    """
    connection.execute("SET maintenance_work_mem = '1GB'")
    found = connection.execute(_INDEXES, (list(tables),)).fetchall()
    for drop, _ in found:
        connection.execute(drop.encode())
    yield
    for _, create in found:
        tell(create.split(" USING ")[0])
        connection.execute(create.encode())


def reset_ids(connection: "psycopg.Connection[Any]", table: str) -> None:
    """Have new rows come after those that were made with ids."""
    statement = f"""
        SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}
    """
    connection.execute(statement.encode())


def require_space(msh: Msh, needed: float, what: str) -> None:
    """SystemExit unless so many bytes are free where its database is."""
    free = shutil.disk_usage(msh.folder).free
    if needed * HEADROOM > free:
        raise SystemExit(
            f"{what} need {needed * HEADROOM / 1e9:,.1f} GB, but {free / 1e9:,.1f} GB are free in"
            f" {msh.folder.parent}: give fewer, or less of --stored-bytes"
        )


def database_size(msh: Msh) -> int:
    return int(msh.value("SELECT pg_database_size(current_database())"))
