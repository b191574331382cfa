"""`/health/live` and `/health/ready`, for whoever starts, balances or watches this process.

Ready = messages can be taken: the database answers, takes writes, and its migrations are applied.
The rest is reported and never refused over: with the broker or the worker down, accepting goes on,
and with the disk nearly full, who sends a message is told to send it later.

Strangers read this page: it says which part is in trouble and of which kind, and no name, address
or number of ours. Those are on the dashboard, in the incidents and in /metrics.
"""

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.metadata import PackageNotFoundError, version

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone

from msh.connections import redis_client
from msh.models import ApiToken, Incident
from msh.models.api_token import CLOSE
from msh.protocol.kinds import IncidentKind
from msh.store import capacity, server
from msh.store.clock import read_clock

PROCESSES = ("beat", "worker")
_SWEPT = "msh:swept"
_BEATEN = "msh:beaten"
CLOCKS_APART = timedelta(minutes=1)
"""A difference of clocks that no synchronised host reaches."""
ASKED_EVERY = 1.0  # seconds between two looks into the database, by each process
_OVERDUE = {"beat": 15.0, "worker": 5.0}
"""Seconds without a sign of life: beat looks at its schedule every five, a worker polls every one.
"""
_REMEMBERED = 86_400  # seconds
"""A sign of life lasts so long in Redis. What is left of that says how old it is by the clock of
Redis alone: the machines of worker and web need not agree on the time."""
SIGN_OF_WORKER = ("SET", _SWEPT, "1", "EX", str(_REMEMBERED))
"""The command that each loop of a worker sends to Redis while it polls."""


@cache
def msh_version() -> str:
    try:
        return version("msh")
    except PackageNotFoundError:  # run from a folder of sources
        return "unknown"


def live(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"live": True})


def ready(request: HttpRequest) -> HttpResponse:
    with _asking:
        states = _states_of_database()
    report = {"ready": states["database"] == "ok", **states, **_wake_up_states()}
    return JsonResponse(report, status=200 if report["ready"] else 503)


def note_beat() -> None:
    with suppress(redis.RedisError):
        _redis().set(_BEATEN, 1, ex=_REMEMBERED)


@dataclass(frozen=True, slots=True)
class Process:
    """Whether a process shows signs of life, and the same in a sentence. `known` False: Redis does
    not answer, which keeps the signs."""

    name: str
    alive: bool
    words: str
    known: bool = True


def processes() -> list[Process]:
    """Beat and worker, by what they did last. Without the broker nobody knows."""
    try:
        beaten, swept = _age(_BEATEN), _age(_SWEPT)
    except redis.RedisError as error:
        unknown = f"unknown: Redis does not answer ({type(error).__name__})"
        return [Process(name, alive=False, words=unknown, known=False) for name in PROCESSES]
    return [
        _process(
            "beat", beaten, "checked its schedule", "the schedule does not run while it is down"
        ),
        _process(
            "worker", swept, "looked for work", "nothing is sent or delivered while it is down"
        ),
    ]


def signs_of_life() -> dict[str, float] | None:
    """Seconds since beat and a worker last did something, a day at most. None: nobody knows."""
    try:
        ages = {"beat": _age(_BEATEN), "worker": _age(_SWEPT)}
    except redis.RedisError:
        return None
    return {name: _REMEMBERED if age is None else age for name, age in ages.items()}


def _age(sign: str) -> float | None:
    """Seconds since this sign of life, None without one in the last day."""
    left = _redis().pttl(sign) / 1000
    return None if not 0 <= left <= _REMEMBERED else _REMEMBERED - left


def _process(name: str, ago: float | None, did: str, then: str) -> Process:
    if ago is None:
        return Process(name, alive=False, words=f"has not run for a day: {then}")
    alive = ago <= _OVERDUE[name]
    words = f"{did} {ago:.0f} s ago"
    return Process(name, alive, words if alive else f"{words}: {then}")


_asking = threading.Lock()
_asked_at = 0.0
_states: dict[str, str] = {}


def _states_of_database() -> dict[str, str]:
    """Anybody may ask, as often as he likes: asked at most every ASKED_EVERY seconds."""
    global _asked_at, _states
    if not _asked_at or time.monotonic() - _asked_at >= ASKED_EVERY:
        database = _database_state()
        ok = database == "ok"
        _states = {
            "database": database,
            "disk": _disk_state() if ok else "unknown",
            "clock": _clock_state() if ok else "unknown",
            "retention": _retention_state() if ok else "unknown",
            "tokens": _token_state() if ok else "unknown",
            "snapshot": _snapshot_state() if ok else "unknown",
        }
        _asked_at = time.monotonic()
    return _states


def _disk_state() -> str:
    if capacity.is_disk_short():
        return "nearly full"
    try:
        return "ok" if capacity.shortage() is None else "MSH_STORE_LIMIT reached"
    except DatabaseError:
        return "unknown"


def _database_state() -> str:
    try:
        return _migration_state()
    except DatabaseError:
        return "unreachable"


_migrated = False


def _migration_state() -> str:
    """Asked in full until it was once true: migrations are not taken back under a running web."""
    global _migrated
    if not server.takes_writes():
        return "read-only"
    if _migrated:
        return "ok"
    executor = MigrationExecutor(connection)
    _migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return "ok" if _migrated else "migrations missing"


def _clock_state() -> str:
    """Times that are due are by the database's clock alone; what people read, logs and signed
    times are not."""
    try:
        apart = abs(read_clock() - timezone.now())
    except DatabaseError:
        return "unknown"
    return "differs from that of the database" if apart > CLOCKS_APART else "ok"


def _retention_state() -> str:
    """Return the state of the retention, as the last pruning found it."""
    try:
        kinds = [IncidentKind.RETENTION_TOO_SHORT, IncidentKind.CLOCK_DOUBTFUL]
        found = Incident.objects.filter(kind__in=kinds, resolved_at__isnull=True)
        open_kinds = set(found.values_list("kind", flat=True))
    except DatabaseError:
        return "unknown"
    if IncidentKind.CLOCK_DOUBTFUL in open_kinds:
        return "stopped: the clock jumped"
    return "too short" if open_kinds else "ok"


def _snapshot_state() -> str:
    """Whoever is let in may see who holds it: /metrics, the dashboard, `check --deploy`."""
    try:
        oldest = server.oldest_snapshot()
    except DatabaseError:
        return "unknown"
    return "held for too long" if oldest is not None and oldest.old else "ok"


def _token_state() -> str:
    """Return the state of the API's tokens: those that expire soon are named, so that applications
    get new ones in time."""
    try:
        soon = ApiToken.objects.expiring(timezone.now()).filter(expires__gt=timezone.now()).exists()
    except DatabaseError:
        return "unknown"
    return f"expiring within {CLOSE.days} days" if soon else "ok"


def _wake_up_states() -> dict[str, str]:
    try:
        swept = _age(_SWEPT)
    except redis.RedisError:
        return {"broker": "unreachable", "sweep": "unknown"}
    late = swept is None or swept > _OVERDUE["worker"]
    return {"broker": "ok", "sweep": "late" if late else "ok"}


@cache
def _redis() -> "redis.Redis":
    return redis_client(settings.REDIS_URL, socket_timeout=0.1, socket_connect_timeout=0.1)
