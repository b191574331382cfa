"""`/health/live` and `/health/ready`, for whoever starts, balances or watches this process.

Ready = messages can be taken: the database answers and its migrations are applied. The rest is
reported and never refused over: with the broker or the worker down, accepting goes on.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse

_SWEPT = "msh:swept"
_BEATEN = "msh:beaten"
_OVERDUE = 5.0  # seconds without what happens every second


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


def note_beat() -> None:
    """Say that beat has just sent a task."""
    with suppress(redis.RedisError):
        _redis().set(_BEATEN, time.time())


@dataclass(frozen=True, slots=True)
class Process:
    """Whether a process shows signs of life, and the same in a sentence."""

    name: str
    alive: bool
    words: str


def processes() -> list[Process]:
    """Beat and worker, by what they did last. Without the broker nobody knows."""
    try:
        beaten, swept = _redis().mget(_BEATEN, _SWEPT)
    except redis.RedisError as error:
        unknown = f"unknown: Redis does not answer ({type(error).__name__})"
        return [Process(name, alive=False, words=unknown) for name in ("beat", "worker")]
    return [
        _process("beat", beaten, "sent its last task", "nothing falls due while it is down"),
        _process("worker", swept, "did its last task", "nothing is sent or delivered without it"),
    ]


def _process(name: str, last: bytes | str | None, did: str, then: str) -> Process:
    if last is None:
        return Process(name, alive=False, words=f"has never run: {then}")
    ago = max(time.time() - float(last), 0.0)
    alive = ago <= _OVERDUE
    words = f"{did} {ago:.0f} s ago"
    return Process(name, alive, words if alive else f"{words}: {then}")


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
    late = swept is None or time.time() - float(swept) > _OVERDUE
    return {"broker": "ok", "sweep": "late" if late else "ok"}


@cache
def _redis() -> "redis.Redis":
    return redis.Redis.from_url(
        settings.CELERY_BROKER_URL, socket_timeout=0.1, socket_connect_timeout=0.1, retry=None
    )
