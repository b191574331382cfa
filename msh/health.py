"""`/health/live` and `/health/ready`, for whoever starts, balances or watches this process.

Ready = messages can be taken: the database answers and its migrations are applied. The rest is
reported and never refused over: with the broker or the worker down, accepting goes on.
"""

import time
from contextlib import suppress
from functools import cache

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse

_SWEPT = "msh:swept"
_SWEEP_OVERDUE = 5.0  # seconds without a sweep, which is due every second


def live(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"live": True})


def ready(request: HttpRequest) -> HttpResponse:
    database = _database_state()
    report = {"ready": database == "ok", "database": database, **_nudge_states()}
    return JsonResponse(report, status=200 if report["ready"] else 503)


def note_sweep() -> None:
    """Say that a worker has just done a task."""
    with suppress(redis.RedisError):
        _redis().set(_SWEPT, time.time())


def _database_state() -> str:
    try:
        return _migration_state()
    except DatabaseError:
        return "unreachable"


_migrated = False


def _migration_state() -> str:
    """Asked in full until it was once true: migrations are not taken back under a running web."""
    global _migrated
    if _migrated:
        connection.ensure_connection()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return "ok"
    executor = MigrationExecutor(connection)
    _migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return "ok" if _migrated else "migrations missing"


def _nudge_states() -> dict[str, str]:
    try:
        swept = _redis().get(_SWEPT)
    except redis.RedisError:
        return {"broker": "unreachable", "sweep": "unknown"}
    late = swept is None or time.time() - float(swept) > _SWEEP_OVERDUE
    return {"broker": "ok", "sweep": "late" if late else "ok"}


@cache
def _redis() -> "redis.Redis":
    return redis.Redis.from_url(
        settings.CELERY_BROKER_URL, socket_timeout=0.1, socket_connect_timeout=0.1, retry=None
    )
