"""Wake-ups: "poll now", and no more. Losing every one costs at most a sweep's delay.

A worker that is awake listens on a Redis list; else a Celery task is queued. Both are coalesced:
one waiting wake-up of a kind is as good as many. A wake-up may name what was just stored, so that
the worker reads these rows and does not search; the rows alone say what there is to do. A wake-up
is tried once and never makes a committed answer an error.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from functools import cache
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import NamedTuple

import redis
from django.conf import settings
from redis.commands.core import Script

from msh.celery import app
from msh.connections import redis_client
from msh.flows.names import EVERYTHING, NOTHING, Names, Promise
from msh.flows.script_channel import ScriptChannel
from msh.store.flights.flights import Flights
from msh.store.sending.links import OutboundLinks

logger = logging.getLogger(__name__)

TRY_FOR = 0.1  # seconds a wake-up may take
PACE = 0.002  # seconds between two wake-ups of a process: what is asked for meanwhile is one
LONGEST = 5_000
"""Names that wait for a worker, in a few hundred KB. Above that, one for everything replaces those
that come: what is claimed or promised then waits until its second is over."""
REST = 1.0  # seconds without wake-ups after one has failed: the sweep polls every second


class WakeUp(StrEnum):
    """What is to be polled: copies and signals; messages; events to notify of."""

    TRANSMIT = "msh.tasks.transmit"
    FORWARD = "msh.tasks.forward"
    DELIVER = "msh.tasks.deliver"
    NOTIFY = "msh.tasks.notify"


# The queue, then three keys a kind, and a token each. Awake: the token is put into the list; one
# for everything at its end is enough, and replaces names that nobody takes. Asleep: one queued task
# is enough, and has a flag until it begins; it takes the names from the list. The flag of a task
# that was lost does not count once the queue is empty, so no flag has to expire. The list expires
# when nothing has been put into it for a while. Answers with the kinds, by place, that need a task.
_SCRIPT = f"""
local tasks = {{}}
local empty
for i = 2, #KEYS, 3 do
    local awake = redis.call('EXISTS', KEYS[i]) == 1
    local token = ARGV[(i + 1) / 3]
    if awake or token ~= '*' then
        local length = redis.call('LLEN', KEYS[i + 1])
        if length >= {LONGEST} then
            token = '*'
        end
        if token ~= '*' or length == 0 or redis.call('LINDEX', KEYS[i + 1], -1) ~= '*' then
            redis.call('RPUSH', KEYS[i + 1], token)
        end
        redis.call('EXPIRE', KEYS[i + 1], 5)
    end
    if not awake then
        empty = empty or redis.call('LLEN', KEYS[1])
        if redis.call('SET', KEYS[i + 2], '1', 'NX') or empty == 0 then
            table.insert(tasks, (i - 2) / 3)
        end
    end
end
return tasks
"""
_MAY_QUEUE = """
local empty = redis.call('LLEN', KEYS[1]) == 0
return (redis.call('SET', KEYS[2], '1', 'NX') or empty) and 1 or 0
"""


class Keys(NamedTuple):
    """The names in Redis of one kind of wake-up."""

    awake: str
    tokens: str
    queued: str


@cache
def keys_of(kind: WakeUp) -> Keys:
    return Keys(f"{kind}:awake", f"{kind}:tokens", _queued(kind))


def _queued(task: str) -> str:
    return f"{task}:queued"


@cache  # a worker's has connections: each of its tasks begins with `note_begin`
def shared_client() -> redis.Redis:
    return redis_client(settings.REDIS_URL, socket_timeout=TRY_FOR, socket_connect_timeout=TRY_FOR)


def wake_up_for(links: OutboundLinks, promised: Iterable[Promise] = ()) -> None:
    """After the commit of what changed these links; `promised` copies are named by themselves."""
    kinds = [WakeUp.FORWARD] if links.forwards else []
    if links.has_signals:
        kinds.append(WakeUp.TRANSMIT)
    if links.notifies and settings.MSH_FROM_PARTY_HANDLER:  # else nobody is notified
        kinds.append(WakeUp.NOTIFY)
    copies = frozenset(promised)
    links_alone = links.transmits - {one.partner_id for one in copies}
    wake_up(*kinds, links=links_alone, promised=copies)


def wake_up_for_flights(flights: Flights) -> None:
    kinds = [WakeUp.NOTIFY] if flights.notifies and settings.MSH_FROM_PARTY_HANDLER else []
    wake_up(*kinds, flights=flights.transmits)


def wake_up(
    *kinds: WakeUp,
    links: Iterable[int] = (),
    signals: Iterable[int] = (),
    flights: Iterable[int] = (),
    promised: Iterable[Promise] = (),
) -> None:
    """Ask for a poll of each of `kinds`; and that what is to be sent on the `links` to these
    partners, these claimed `signals`, the `flights` to these partners, and these `promised` copies
    are transmitted. Never raises, never waits."""
    asked = dict.fromkeys(kinds, EVERYTHING)
    if names := Names(
        links=frozenset(links),
        signals=frozenset(signals),
        flights=frozenset(flights),
        promised=frozenset(promised),
    ):
        asked[WakeUp.TRANSMIT] = asked.get(WakeUp.TRANSMIT, NOTHING) | names
    if asked:
        try:
            _messenger().send(asked)
        except Exception as error:  # noqa: BLE001  as if its thread cannot start
            _note_failure(asked, error)


class _Messenger:
    """Sends the wake-ups of this process: what many ask for at once is asked for once. The thread
    that asks writes to Redis itself if nothing is under way, so that the worker does not wait until
    another thread of this process runs. A thread of ours reads the answer, and sends the rest."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[Asked | None] = SimpleQueue()  # {}: the end. None: an answer comes
        self._lock = threading.Lock()  # for what follows
        self._channel = ScriptChannel(shared_client, _SCRIPT)
        self._sent: Asked | None = None  # has no answer yet
        self._published_at = 0.0
        self._thread = threading.Thread(target=self._run, name="msh-wake-ups", daemon=True)
        self._thread.start()
        atexit.register(self._finish)

    def send(self, asked: "Asked") -> None:
        self._asked.put(None if self._send_at_once(asked) else asked)

    def _send_at_once(self, asked: "Asked") -> bool:
        """False, with nothing done, unless that is possible without waiting."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            not_before = max(self._published_at + PACE, _rest.until)
            is_free = self._sent is None and self._asked.empty()
            if not is_free or time.monotonic() < not_before or not self._channel.is_open():
                return False
            self._write(asked)
        except Exception:  # noqa: BLE001  it is tried once more, on a new connection
            return False
        finally:
            self._lock.release()
        return True

    def _run(self) -> None:
        ending = False
        while not ending:
            try:
                gathered = self._gathered()
                ending = {} in gathered
                self.publish(_joined(gathered))
            except Exception as error:  # noqa: BLE001  as for lack of memory
                _note_failure((), error)

    def _gathered(self) -> "list[Asked | None]":
        asked = [self._asked.get()]
        if asked[0] is not None and (pause := self._published_at + PACE - time.monotonic()) > 0:
            time.sleep(pause)
        with suppress(Empty):
            while asked[0] is not None:
                asked.append(self._asked.get_nowait())
        return asked

    def publish(self, asked: "Asked") -> None:
        """Send it, and read all answers. May wait for Redis."""
        with self._lock:
            self._read()
            if not asked or are_resting():
                return
            try:
                self._write(asked)
            except Exception as error:  # noqa: BLE001
                _note_failure(asked, error)
            else:
                self._read()

    def _write(self, asked: "Asked") -> None:
        keys = [key for kind in asked for key in keys_of(kind)]
        tokens = [names.token() for names in asked.values()]
        self._channel.write([app.conf.task_default_queue, *keys], tokens)
        self._sent, self._published_at = asked, time.monotonic()

    def _read(self) -> None:
        """The answer to what was sent: which of it needs a task."""
        if self._sent is None:
            return
        kinds, self._sent = list(self._sent), None
        try:
            for place in self._channel.read():
                queue_task(kinds[place])
        except Exception as error:  # noqa: BLE001
            _note_failure(kinds, error)

    def _finish(self) -> None:
        """A process that submits and ends has its wake-up sent first."""
        self._asked.put({})
        self._thread.join(2 * TRY_FOR)


Asked = dict[WakeUp, Names]


def _joined(gathered: "Iterable[Asked | None]") -> Asked:
    joined: Asked = {}
    for one in gathered:
        for kind, names in (one or {}).items():
            joined[kind] = joined.get(kind, NOTHING) | names
    return joined


@cache  # one for a process: a thread does not survive a fork
def _messenger_of(pid: int) -> _Messenger:
    return _Messenger()


def _messenger() -> _Messenger:
    return _messenger_of(os.getpid())


def _note_failure(kinds: Iterable[WakeUp], error: Exception) -> None:
    """Whatever it is, the answer to a partner or an application stands: the sweep polls."""
    _rest.until = time.monotonic() + REST
    logger.warning("wake-up %s failed, the next sweep finds the work: %s", list(kinds), error)


_rest = SimpleNamespace(until=0.0)  # on the clock of `time.monotonic`


def are_resting() -> bool:
    """Whether no wake-up goes out now, because one has just failed."""
    return bool(time.monotonic() < _rest.until)


@cache
def _script(text: str) -> Script:
    return shared_client().register_script(text)


def queue_task(kind: WakeUp) -> None:
    app.send_task(kind.value, ignore_result=True, retry=False)


def may_queue(task: str, queue: str | None = None) -> bool:
    """Whether no task of this name waits already, in `queue` or the usual one; whoever is told so
    queues one. While no worker runs the queue does not grow. Raises RedisError without Redis."""
    if are_resting():
        raise redis.ConnectionError("Redis does not answer")
    keys = [queue or app.conf.task_default_queue, _queued(task)]
    try:
        return bool(_script(_MAY_QUEUE)(keys=keys))
    except redis.RedisError:
        _rest.until = time.monotonic() + REST
        raise


def note_begin(task: str) -> None:
    """Clear the flag of the queued task: before the poll, so that no later wake-up is lost."""
    with suppress(redis.RedisError):
        shared_client().delete(_queued(task))


def take_names(kind: WakeUp) -> Names:
    """What wake-ups have named while nobody listened; it is this caller's to do."""
    names = NOTHING
    with suppress(redis.RedisError), shared_client().pipeline() as pipe:
        pipe.lrange(keys_of(kind).tokens, 0, -1)
        pipe.delete(keys_of(kind).tokens)
        for token in pipe.execute()[0]:
            names |= Names.of_token(token)
    return names
