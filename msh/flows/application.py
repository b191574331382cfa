"""Functions of the application that run in our process: consumers, handlers, resolvers.

They work on our connection and may leave it, or the transaction that they were called in, in any
state. Whatever calls one has to find that out before it counts the call as done.
"""

from asyncio import CancelledError
from datetime import timedelta

from django.db import connection

from msh.store import plans
from msh.wire.text import prose

ERRORS = (Exception, SystemExit, CancelledError)
"""The errors that a function of an application may raise. Not KeyboardInterrupt: it is meant for
this process."""
REASON_LIMIT = 2000
"""Characters of an exception's words that are kept."""


class TransactionBroken(Exception):
    """The function returned, but its transaction will be rolled back. `str()` says why."""


def allow_idle(time_allowed: timedelta) -> None:
    """Until its end, the transaction may go so long without a statement, and its statements are
    planned as PostgreSQL likes: a function of the application works in it."""
    milliseconds = int(time_allowed.total_seconds() * 1000)
    idle = f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}"
    with connection.cursor() as cursor:
        cursor.execute(f"{idle}; {plans.PLAN_FREELY_LOCALLY}")


def require_commit() -> None:
    """Check that what was done in this block can be committed, deferred constraints included.

    Call it inside the `atomic` block of the function: on leaving a block that is marked for
    rollback, Django rolls it back and raises nothing. Raises TransactionBroken or DatabaseError.
    """
    if connection.closed_in_transaction:
        raise TransactionBroken("the connection was closed inside the transaction")
    if connection.needs_rollback:
        raise TransactionBroken(
            "the transaction is marked for rollback: a database error was caught without an"
            " atomic() block of its own, or set_rollback(True) was called"
        )
    with connection.cursor() as cursor:
        cursor.execute(f"SET CONSTRAINTS ALL IMMEDIATE; {plans.local_plans()}")


def restore_connection() -> None:
    """Drop the connection of this thread if it was lost, or left without autocommit, so that the
    next statement gets a new one. Nothing inside an `atomic` block."""
    if not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()


def reason_of(error: BaseException) -> str:
    return prose(f"{type(error).__name__}: {words_of(error)}")


def words_of(error: BaseException) -> str:
    try:
        return prose(str(error)[:REASON_LIMIT])
    except Exception:  # noqa: BLE001  __str__ is the application's too
        return ""
