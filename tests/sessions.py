"""A second session with the database, beside the test's own: another worker, or an operator."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from threading import Thread
from typing import TypeVar

from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from tests.waiting import wait_until

T = TypeVar("T")


def in_another_session(act: Callable[[], T]) -> T:
    """What `act` returns in a session of its own.

    Raises OperationalError if it would wait for a lock that another session holds.
    """
    with beside(act, lock_timeout="200ms") as doing:
        return doing.result()


@contextmanager
def beside(act: Callable[[], T], *, lock_timeout: str = "60s") -> Iterator[Future[T]]:
    """`act` runs in a session of its own while the block does; it has ended after the block."""

    def run() -> T:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, false)", [lock_timeout])
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool.submit(run)


def somebody_waits_for_us() -> bool:
    """Whether another session waits for a lock that the test's session holds."""
    connection.ensure_connection()
    return somebody_waits_for(connection.connection.info.backend_pid)


def somebody_waits_for(pid: int) -> bool:
    """Whether a session waits for a lock that the session of backend `pid` holds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted"
            " AND %s = ANY(pg_blocking_pids(pid)))",
            [pid],
        )
        return bool(cursor.fetchone()[0])


def waits_for_us(act: Callable[[], object]) -> bool:
    """Whether `act`, in a session of its own, waits for a lock that the test's session holds."""
    try:
        in_another_session(act)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return True
        raise
    return False


def meet(first: Callable[[], object], second: Callable[[], T]) -> T:
    """What `second` returns in a session of its own, which began before `first` was committed in
    ours. It may wait for that."""
    with ExitStack() as stack:
        with transaction.atomic():
            first()
            doing = stack.enter_context(beside(second))
            wait_until(lambda: somebody_waits_for_us() or doing.done())
        return doing.result()


def lose_the_connection_unnoticed() -> None:
    """Our end of it is closed. The server notices once somebody waits for a lock of its session."""
    session = connection.connection
    connection.connection, connection.closed_in_transaction = None, True
    connection.needs_rollback = True

    def end() -> None:
        try:
            wait_until(lambda: somebody_waits_for(session.info.backend_pid), seconds=10)
        finally:
            session.close()
            connection.close()

    Thread(target=end).start()
