"""How PostgreSQL plans what a thread asks: for the hot path, or freely.

A statement of the hot path is planned once in a session and run often, also when it was planned
while its table was empty, so that reading all of it looked cheap. Pages, reports and functions of
the application are the planner's own affair.

The settings are those of the session, so they cost a round trip when a thread changes its mind, or
has a new connection, and none otherwise.
"""

import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.signals import connection_created

_HOT = "SET {0}enable_seqscan = off; SET {0}plan_cache_mode = force_generic_plan"
_FREE = "SET {0}enable_seqscan TO DEFAULT; SET {0}plan_cache_mode TO DEFAULT"
PLAN_FREELY_LOCALLY = _FREE.format("LOCAL ")
"""For the rest of the transaction, or until the savepoint is rolled back."""
_PLAN_FOR_HOT_PATH_LOCALLY = _HOT.format("LOCAL ")


class _Thread(threading.local):
    is_hot = False


_thread = _Thread()
_hot_sessions: WeakSet[Any] = WeakSet()


def plan_for_hot_path() -> None:
    """Until `plan_freely`, on each connection of this thread. No effect in a transaction, with
    which it would end."""
    _plan(hot=True)


def plan_freely() -> None:
    """As every session begins."""
    _plan(hot=False)


def local_plans() -> str:
    """What has statements planned as this thread wants it, after PLAN_FREELY_LOCALLY."""
    return _PLAN_FOR_HOT_PATH_LOCALLY if _thread.is_hot else PLAN_FREELY_LOCALLY


def _plan(*, hot: bool) -> None:
    database = connections[DEFAULT_DB_ALIAS]
    if database.in_atomic_block:
        return
    _thread.is_hot = hot
    with suppress(DatabaseError):  # a dead connection: whoever uses it next finds out
        _apply(database)


def _apply(database: Any) -> None:
    session = database.connection
    if session is None or (session in _hot_sessions) is _thread.is_hot:
        return
    with database.cursor() as cursor:
        cursor.execute((_HOT if _thread.is_hot else _FREE).format(""))
    (_hot_sessions.add if _thread.is_hot else _hot_sessions.discard)(session)


def _connected(connection: Any, **_: Any) -> None:
    if connection.alias == DEFAULT_DB_ALIAS:
        _apply(connection)


connection_created.connect(_connected, dispatch_uid="msh.plans")
