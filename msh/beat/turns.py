"""Several beats, each on a machine of its own, queue a run of the schedule once: the one that
begins it notes that in Redis, whose clock counts, not theirs. Without Redis nothing is queued
anyway, and a Redis that has lost its notes costs at most one more run."""

import secrets
from enum import Enum
from functools import cache

import redis
from django.conf import settings

from msh.connections import redis_client

_BEGINS = 10.0
"""Seconds that a beat has from its note until the run is queued. One that dies in between leaves
the run to another."""


class Turn(Enum):
    OURS = "ours"
    BEGUN = "begun"  # by another beat, which may still die before it is queued
    QUEUED = "queued"  # by another beat


class Turns:
    """`run` names an entry of the schedule together with its times: after a change of its times
    nothing of before is in the way. Every method raises RedisError without Redis."""

    def __init__(self) -> None:
        self._begun = f"begun {secrets.token_hex(8)}".encode()
        self._queued = self._begun.replace(b"begun", b"queued")

    def take(self, run: str) -> Turn:
        """Nobody else begins the run while it is ours."""
        key = _key(run)
        if _client().set(key, self._begun, nx=True, px=int(_BEGINS * 1000)):
            return Turn.OURS
        noted: bytes | None = _client().get(key)  # type: ignore[assignment]
        if noted is None or noted in {self._begun, self._queued}:
            return Turn.OURS  # our clock may have been set: a beat alone never waits for itself
        return Turn.BEGUN if noted.startswith(b"begun") else Turn.QUEUED

    def keep(self, run: str, seconds: float) -> None:
        """The run is queued, and no other beat queues it for so long."""
        _client().set(_key(run), self._queued, px=max(1, int(seconds * 1000)))

    def seconds_left(self, run: str) -> float:
        """Until another beat may queue the run."""
        return max(0.0, _client().pttl(_key(run)) / 1000)


def _key(run: str) -> str:
    return f"msh:turn:{run}"


@cache
def _client() -> "redis.Redis":
    return redis_client(settings.REDIS_URL, socket_timeout=0.1, socket_connect_timeout=0.1)
