"""Migrations of tables that are in use: operations, and a `migrate` that gives way.

A statement that waits for a lock on a table has everybody else wait behind it. So each waits only
briefly, and is tried again. `tools/migration_lint.py` says what a migration may do.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import Any

from django.contrib.postgres import operations as postgres
from django.core.management import call_command
from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Q
from psycopg.errors import DeadlockDetected, LockNotAvailable

LOCK_WAITS = (0.3, 0.3, 0.3, 1.4)
"""Seconds to wait for a lock, at one attempt after the other. What our processes do meanwhile fails
after 2 seconds (lock_timeout in `msh/connections`). The last is longer than PostgreSQL's
deadlock_timeout, after which an autovacuum gives way to us."""
PAUSE = 1.0
"""Seconds between two attempts, in which those who waited behind us catch up."""
GIVES_UP_AFTER = 600.0  # seconds
_FILLS_FOR = 600.0
"""Seconds for which a back-fill waits for rows that others have locked."""
_INDEX = """
SELECT index.indisvalid FROM pg_index index
JOIN pg_class class ON class.oid = index.indexrelid
WHERE class.relname = %s AND pg_table_is_visible(class.oid)
"""
_BLOCKING = """
SELECT pid, coalesce(nullif(application_name, ''), backend_type, 'unknown'),
       extract(epoch FROM clock_timestamp() - xact_start)::int
FROM pg_stat_activity WHERE pid = ANY(pg_blocking_pids(%s))
ORDER BY wait_event_type IS NOT DISTINCT FROM 'Lock', xact_start LIMIT 1
"""
"""Finds the session in the way: the one that holds the lock, rather than one that waits for it
too."""
_LOOK_EVERY = 0.05  # seconds


class NotMigrated(Exception):
    """A table could not be locked: a sentence that names who was in the way at the last attempt,
    if somebody was seen, and the cure."""


def migrate(say: Callable[[str], object], *, gives_up_after: float = GIVES_UP_AFTER) -> None:
    """Apply all migrations while others use the tables. What was applied stays applied.

    `say` is given a line for each attempt that found a table locked. Raises NotMigrated.
    """
    ends = time.monotonic() + gives_up_after
    for wait in chain.from_iterable(repeat(LOCK_WAITS)):
        error = _migrate_once(wait)
        if error is None:
            return
        if time.monotonic() > ends:
            break
        say(f"a table is in use, trying again: {str(error).splitlines()[0]}")
        time.sleep(PAUSE)
    with _watching() as seen:
        error = _migrate_once(LOCK_WAITS[-1])
    if error is not None:
        raise NotMigrated(_in_the_way(seen)) from error


def _migrate_once(wait: float) -> OperationalError | None:
    """The error if a table could not be locked."""
    try:
        with _lock_timeout(wait):
            call_command("migrate", interactive=False, verbosity=0)
    except OperationalError as error:
        if not isinstance(error.__cause__, (LockNotAvailable, DeadlockDetected)):
            raise
        return error
    return None


@contextmanager
def _lock_timeout(seconds: float) -> Iterator[None]:
    """Set the lock timeout of this session, and reset it afterwards. 0: no limit."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        (before,) = cursor.fetchone()
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{seconds * 1000:.0f}ms"])
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])


@contextmanager
def _watching() -> Iterator[list[tuple[int, str, int | None]]]:
    """Whom this session waited for last, as a second session sees it: pid, name and seconds of
    its transaction. Empty if nobody was seen."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (own,) = cursor.fetchone()
    seen: list[tuple[int, str, int | None]] = []
    started, ended = threading.Event(), threading.Event()

    def watch() -> None:
        try:
            with suppress(DatabaseError), connection.cursor() as cursor:
                started.set()
                while not ended.wait(_LOOK_EVERY):
                    cursor.execute(_BLOCKING, [own])
                    seen[:] = cursor.fetchall() or seen
        finally:
            started.set()
            connection.close()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    started.wait()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def _in_the_way(seen: Sequence[tuple[int, str, int | None]]) -> str:
    if not seen:
        return "A table is locked again and again. Run it once more."
    ((pid, name, age),) = seen
    since = "" if age is None else f", whose transaction began {age} s ago"
    return (
        f"A table is locked by {name} (pid {pid}){since}: end it, or"
        f" SELECT pg_terminate_backend({pid}), and run this once more."
    )


class AddIndexConcurrently(postgres.AddIndexConcurrently):
    """Django's, which may be repeated: an index that an attempt has left unfinished is replaced.

    It waits for transactions of others as long as they take. Nobody waits behind it.
    """

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        with _lock_timeout(0):
            with connection.cursor() as cursor:
                cursor.execute(_INDEX, [self.index.name])
                found = cursor.fetchone()
            if found == (True,):
                return
            if found:
                self.database_backwards(app_label, schema_editor, from_state, to_state)
            super().database_forwards(app_label, schema_editor, from_state, to_state)


class BackFill(Operation):
    """Set `values` in the rows that fit `where`, which none of them does afterwards.

    Each batch is a transaction, as long as which others wait for its rows; rows that others have
    locked are left for the next round. It may be interrupted and repeated.
    """

    atomic = False
    reversible = True

    def __init__(
        self, model_name: str, values: Mapping[str, object], where: Q, *, batch: int = 1000
    ) -> None:
        self.model_name = model_name
        self.values = values
        self.where = where
        self.batch = batch

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Rows only."""

    def database_forwards(
        self,
        app_label: str,
        schema_editor: BaseDatabaseSchemaEditor,
        from_state: ProjectState,
        to_state: ProjectState,
    ) -> None:
        if schema_editor.connection.in_atomic_block:
            raise ValueError("BackFill: set atomic = False on the migration")
        rows = to_state.apps.get_model(app_label, self.model_name).objects
        ends = time.monotonic() + _FILLS_FOR
        while rows.filter(self.where).exists():
            if self._fill_once(rows):
                ends = time.monotonic() + _FILLS_FOR
            elif time.monotonic() > ends:
                raise ValueError(f"BackFill of {self.model_name}: rows still fit {self.where}")
            else:
                time.sleep(PAUSE)

    def database_backwards(self, *_: object) -> None:
        """Values that were filled in stay."""

    def describe(self) -> str:
        return f"Fill in {', '.join(self.values)} of {self.model_name}"

    def _fill_once(self, rows: Any) -> int:
        """Rows filled, in the order of their keys; what is inserted meanwhile, too."""
        filled: int = 0
        last = None
        while True:
            began = time.monotonic()
            fitting = rows.filter(self.where).order_by("pk")
            if last is not None:
                fitting = fitting.filter(pk__gt=last)
            with transaction.atomic():
                free = fitting.select_for_update(skip_locked=True, no_key=True)
                keys = list(free.values_list("pk", flat=True)[: self.batch])
                filled += rows.filter(pk__in=keys).update(**self.values)
            if not keys:
                return filled
            last = keys[-1]
            time.sleep(time.monotonic() - began)  # half of the time is left to others
