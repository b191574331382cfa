"""Wake-ups: "poll now", and no more. Losing every one costs at most a sweep's delay.

A worker that is awake listens on a Redis list; else a Celery task is queued. Both are coalesced:
one waiting wake-up of a kind is as good as many. A wake-up is tried once and never makes a
committed answer an error.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cache
from queue import Empty, SimpleQueue
from typing import NamedTuple, Self

import redis
from django.conf import settings
from redis.commands.core import Script

from msh.celery import app
from msh.connections import redis_client
from msh.store.sending.links import OutboundLinks

logger = logging.getLogger(__name__)

TRY_FOR = 0.1  # seconds a wake-up may take
PACE = 0.01  # seconds between two wake-ups of a process: what is asked for meanwhile is one
REST = 1.0  # seconds without wake-ups after one has failed: the sweep polls every second


class WakeUp(StrEnum):
    """What is to be polled: copies and signals to transmit, messages to deliver or to forward,
    events to notify of."""

    TRANSMIT = "msh.tasks.transmit"
    FORWARD = "msh.tasks.forward"
    DELIVER = "msh.tasks.deliver"
    NOTIFY = "msh.tasks.notify"


# The queue, then three keys a kind. Awake: one token in the list is enough. Asleep: one queued task
# is enough, and has a flag until it begins. The flag of a task that was lost does not count once
# the queue is empty, so no flag has to expire. Answers with the kinds, by place, that need a task.
_SCRIPT = """
local tasks = {}
local empty = redis.call('LLEN', KEYS[1]) == 0
for i = 2, #KEYS, 3 do
    if redis.call('EXISTS', KEYS[i]) == 1 then
        if redis.call('LLEN', KEYS[i + 1]) == 0 then
            redis.call('RPUSH', KEYS[i + 1], '1')
            redis.call('EXPIRE', KEYS[i + 1], 5)
        end
    elseif redis.call('SET', KEYS[i + 2], '1', 'NX') or empty then
        table.insert(tasks, (i - 2) / 3)
    end
end
return tasks
"""
_MAY_QUEUE = """
local empty = redis.call('LLEN', KEYS[1]) == 0
return (redis.call('SET', KEYS[2], '1', 'NX') or empty) and 1 or 0
"""


class _Keys(NamedTuple):
    """The names in Redis of one kind of wake-up."""

    awake: str
    tokens: str
    queued: str


@cache
def _keys(kind: WakeUp) -> _Keys:
    return _Keys(f"{kind}:awake", f"{kind}:tokens", _queued(kind))


def _queued(task: str) -> str:
    return f"{task}:queued"


@cache
def _client() -> redis.Redis:
    return redis_client(settings.REDIS_URL, socket_timeout=TRY_FOR, socket_connect_timeout=TRY_FOR)


def _listening_client() -> redis.Redis:
    return redis_client(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=TRY_FOR)


def wake_ups_of(links: OutboundLinks) -> list[WakeUp]:
    notifies = links.notifies and bool(settings.MSH_FROM_PARTY_HANDLER)  # else nobody is notified
    wanted = {
        WakeUp.TRANSMIT: links.transmits,
        WakeUp.FORWARD: links.forwards,
        WakeUp.NOTIFY: notifies,
    }
    return [kind for kind, wants in wanted.items() if wants]


def wake_up(*kinds: WakeUp) -> None:
    """Ask for a poll of each of `kinds`. Never raises, never waits."""
    if kinds:
        _messenger().send(kinds)


class _Messenger:
    """A thread of this process that sends wake-ups: what many ask for at once is asked for once."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[WakeUp, ...]] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="msh-wake-ups", daemon=True)
        self._thread.start()
        atexit.register(self._finish)

    def send(self, kinds: tuple[WakeUp, ...]) -> None:
        self._asked.put(kinds)

    def _run(self) -> None:
        ending = False
        while not ending:
            asked = self._gathered()
            ending = () in asked
            if kinds := list(dict.fromkeys(kind for kinds in asked for kind in kinds)):
                _publish(kinds)
                time.sleep(PACE)

    def _gathered(self) -> list[tuple[WakeUp, ...]]:
        asked = [self._asked.get()]
        with suppress(Empty):
            while True:
                asked.append(self._asked.get_nowait())
        return asked

    def _finish(self) -> None:
        """A process that submits and ends has its wake-up sent first."""
        self._asked.put(())
        self._thread.join(2 * TRY_FOR)


@cache
def _messenger_of(pid: int) -> _Messenger:
    return _Messenger()


def _messenger() -> _Messenger:
    """One for a process: a thread does not survive a fork."""
    return _messenger_of(os.getpid())


def _publish(kinds: Sequence[WakeUp]) -> None:
    if time.monotonic() < _rest.until:
        return
    try:
        keys = [key for kind in kinds for key in _keys(kind)]
        for place in _script(_SCRIPT)(keys=[app.conf.task_default_queue, *keys]):
            _queue_task(kinds[place])
    except Exception as error:  # noqa: BLE001  whatever it is, the answer stands: the sweep polls
        _rest.until = time.monotonic() + REST
        logger.warning("wake-up %s failed, the next sweep finds the work: %s", kinds, error)


class _Rest:
    """Until when wake-ups rest, on the clock of `time.monotonic`."""

    until = 0.0


_rest = _Rest()


@cache
def _script(text: str) -> Script:
    return _client().register_script(text)


def _queue_task(kind: WakeUp) -> None:
    app.send_task(kind.value, ignore_result=True, retry=False)


def may_queue(task: str, queue: str | None = None) -> bool:
    """Whether no task of this name waits already, in `queue` or the usual one; whoever is told so
    queues one. While no worker runs the queue does not grow. Raises RedisError without Redis."""
    if time.monotonic() < _rest.until:
        raise redis.ConnectionError("Redis does not answer")
    try:
        keys = [queue or app.conf.task_default_queue, _queued(task)]
        return bool(_script(_MAY_QUEUE)(keys=keys))
    except redis.RedisError:
        _rest.until = time.monotonic() + REST
        raise


def note_begin(task: str) -> None:
    """Clear the flag of the queued task: before the poll, so that no later wake-up is lost."""
    with suppress(redis.RedisError):
        _client().delete(_queued(task))


class WakeUpListener:
    """Listens in a thread while a worker is awake. Without Redis: the sweep polls."""

    AWAKE_FOR = 3  # seconds for which wake-ups trust that somebody listens
    LISTEN_FOR = 0.5  # seconds of one listening

    def __init__(self, kind: WakeUp, heard: Callable[[], None]) -> None:
        self._kind = kind
        self._keys = _keys(kind)
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
            said_at = 0.0
            while self._open:
                if time.monotonic() - said_at > self.LISTEN_FOR:
                    client.set(self._keys.awake, "1", ex=self.AWAKE_FOR)
                    said_at = time.monotonic()
                # The token is taken before the poll it asks for.
                if client.blpop([self._keys.tokens], timeout=self.LISTEN_FOR):
                    self._heard()
            client.delete(self._keys.awake)
            if client.delete(self._keys.tokens):  # in the last moment: somebody must look
                _queue_task(self._kind)
