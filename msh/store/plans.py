"""How PostgreSQL plans what a thread asks: for the hot path, or freely.

A statement of the hot path is planned once in a session and run often, also when it was planned
while its table was empty, so that reading all of it looked cheap. Pages, reports and functions of
the application are the planner's own affair.

The settings are those of the session, so they cost a round trip when a thread changes its mind, or
has a new connection, and none otherwise.
"""

import threading
from contextlib import suppress
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections
from django.db.backends.signals import connection_created

_HOT = "SET {0}enable_seqscan = off; SET {0}plan_cache_mode = force_generic_plan"
_FREE = "SET {0}enable_seqscan TO DEFAULT; SET {0}plan_cache_mode TO DEFAULT"
PLAN_FREELY_LOCALLY = _FREE.format("LOCAL ")
"""For the rest of the transaction, or until the savepoint is rolled back."""
_PLAN_FOR_HOT_PATH_LOCALLY = _HOT.format("LOCAL ")


_READ = f"{_FREE}; SET statement_timeout = {{1}}"
_ENDLESS = "; SET statement_timeout TO DEFAULT"


class _Plan(Enum):
    FREE = "free"
    HOT = "hot"
    READ = "read"
    """Free, and each statement has MSH_READ_TIMEOUT seconds."""


class _Thread(threading.local):
    plan = _Plan.FREE


_thread = _Thread()
_sessions: WeakKeyDictionary[Any, _Plan] = WeakKeyDictionary()
"""Sessions whose settings differ from those with which every session begins."""


def plan_for_hot_path() -> None:
    """Until `plan_freely`, on each connection of this thread. No effect in a transaction, with
    which it would end."""
    _plan(_Plan.HOT)


def plan_freely() -> None:
    _plan(_Plan.FREE)


def plan_to_read() -> None:
    """Freely, and a statement that takes too long is ended: somebody waits for a page."""
    _plan(_Plan.READ)


def local_plans() -> str:
    return _PLAN_FOR_HOT_PATH_LOCALLY if _thread.plan is _Plan.HOT else PLAN_FREELY_LOCALLY


def _plan(plan: _Plan) -> None:
    database = connections[DEFAULT_DB_ALIAS]
    if database.in_atomic_block:
        return
    _thread.plan = plan
    with suppress(DatabaseError):  # a dead connection: whoever uses it next finds out
        _apply(database)


def _apply(database: Any) -> None:
    session = database.connection
    if session is None:
        return
    was, plan = _sessions.get(session, _Plan.FREE), _thread.plan
    if was is plan:
        return
    limit = int(settings.MSH_READ_TIMEOUT * 1000)
    wanted = {_Plan.HOT: _HOT, _Plan.FREE: _FREE, _Plan.READ: _READ}[plan].format("", limit)
    with database.cursor() as cursor:
        cursor.execute(wanted + (_ENDLESS if was is _Plan.READ else ""))
    _sessions[session] = plan


def _apply_to_new(connection: Any, **_: Any) -> None:
    if connection.alias == DEFAULT_DB_ALIAS:
        _apply(connection)


connection_created.connect(_apply_to_new, dispatch_uid="msh.plans")
