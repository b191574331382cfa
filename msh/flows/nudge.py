"""Nudges: "look now", and no more. Losing every one costs at most a sweep's delay (DESIGN 1).

A worker that is awake listens on a Redis list; else a Celery task is queued. Both are coalesced:
one waiting nudge of a kind is as good as many. A nudge is tried once and never makes a committed
answer an error.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import Self

import redis
from django.conf import settings

from msh.celery import app

logger = logging.getLogger(__name__)

TRY_FOR = 0.1  # seconds a nudge may take
REST = 1.0  # seconds without nudges after one has failed: the sweep looks every second anyway


class Nudge(StrEnum):
    """What is to be looked at: copies and signals to carry, messages to deliver, events to tell."""

    CARRY = "msh.tasks.carry"
    DELIVER = "msh.tasks.deliver"
    NOTIFY = "msh.tasks.notify"


# Awake: one token in the list is enough. Asleep: one queued task is enough, flagged for a second.
_SCRIPT = """
if redis.call('EXISTS', KEYS[1]) == 1 then
    if redis.call('LLEN', KEYS[2]) == 0 then redis.call('RPUSH', KEYS[2], '1') end
    redis.call('EXPIRE', KEYS[2], 5)
    return 0
end
if redis.call('SET', KEYS[3], '1', 'NX', 'PX', 1000) then return 1 end
return 0
"""


class _Keys:
    def __init__(self, kind: Nudge) -> None:
        self.awake, self.tokens, self.queued = (
            f"{kind}:{name}" for name in ("awake", "tokens", "queued")
        )


_rest_until = 0.0


@cache
def _client() -> "redis.Redis[bytes]":
    return redis.Redis.from_url(
        settings.CELERY_BROKER_URL,
        socket_timeout=TRY_FOR,
        socket_connect_timeout=TRY_FOR,
        retry=None,
    )


def _listening_client() -> "redis.Redis[bytes]":
    return redis.Redis.from_url(
        settings.CELERY_BROKER_URL, socket_timeout=2, socket_connect_timeout=TRY_FOR
    )


def nudge(kind: Nudge) -> None:
    """Ask for a look. Never raises, never waits longer than TRY_FOR seconds."""
    global _rest_until
    if time.monotonic() < _rest_until:
        return
    keys = _Keys(kind)
    try:
        if _client().eval(_SCRIPT, 3, keys.awake, keys.tokens, keys.queued):
            app.send_task(kind.value, expires=5, ignore_result=True, retry=False)
    except Exception as error:  # whatever it is, the answer stands: the sweep will look
        _rest_until = time.monotonic() + REST
        logger.warning("nudge %s failed, the sweep will do it: %s", kind, error)


def answered(kind: Nudge) -> None:
    """Clear the flag of the queued task. Call it before the look, so that no later nudge is lost."""
    with suppress(redis.RedisError):
        _client().delete(_Keys(kind).queued)


class Ear:
    """Listens in a thread while a worker is awake. Without Redis it is deaf: the sweep looks."""

    AWAKE_FOR = 3  # seconds for which nudges trust that somebody listens
    LISTEN_FOR = 0.5  # seconds of one listening

    def __init__(self, kind: Nudge, heard: Callable[[], None]) -> None:
        self._kind = kind
        self._keys = _Keys(kind)
        self._heard = heard
        self._open = True
        self._thread = threading.Thread(target=self._listen, name="msh-ear", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._thread.join()

    def _listen(self) -> None:
        with suppress(redis.RedisError), _listening_client() as client:
            while self._open:
                client.set(self._keys.awake, "1", ex=self.AWAKE_FOR)
                # The token is taken before the look it asks for.
                if client.blpop([self._keys.tokens], timeout=self.LISTEN_FOR):
                    self._heard()
            client.delete(self._keys.awake)
            if client.delete(self._keys.tokens):  # in the last moment: somebody must look
                app.send_task(self._kind.value, expires=5, ignore_result=True, retry=False)
