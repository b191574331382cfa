"""Wake-ups: "poll now", and no more. Losing every one costs at most the second until the next poll.

The loops of the workers take them from a Redis list for each kind. One that asks for everything is
as good as many. A wake-up may name what was just stored, so that the worker reads these rows and
does not search; the rows alone say what there is to do. A wake-up is tried once and never makes a
committed answer an error.
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

import redis
from django.conf import settings

from msh.connections import redis_client
from msh.flows.hints import EVERYTHING, NOTHING, Hints, Promise
from msh.flows.script_channel import ScriptChannel
from msh.store.flights.flights import Flights
from msh.store.sending.links import OutboundLinks

logger = logging.getLogger(__name__)

TRY_FOR = 0.1  # seconds a wake-up may take
PACE = 0.002  # seconds between two wake-ups of a process: what is asked for meanwhile is one
LONGEST = 5_000
"""Hints that wait for a worker, in a few hundred KB. Above that, one for everything replaces those
that come: what is claimed or promised then waits until its second is over."""
EXPIRE = 5  # seconds without a wake-up after which those that no worker has taken are forgotten
REST = 1.0  # seconds without wake-ups after one has failed: the loops poll every second


class WakeUp(StrEnum):
    """What is to be polled: copies and signals; messages to forward; messages to deliver; events to
    notify of. The task of each runs its loop (`msh/tasks.py`)."""

    TRANSMIT = "msh.tasks.transmit"
    FORWARD = "msh.tasks.forward"
    DELIVER = "msh.tasks.deliver"
    NOTIFY = "msh.tasks.notify"


# A list and a token each. One for everything at the end of a list is enough, and replaces hints
# that nobody takes.
_SCRIPT = f"""
for i = 1, #KEYS do
    local token = ARGV[i]
    if redis.call('LLEN', KEYS[i]) >= {LONGEST} then
        token = '*'
    end
    if token ~= '*' or redis.call('LINDEX', KEYS[i], -1) ~= '*' then
        redis.call('RPUSH', KEYS[i], token)
    end
    redis.call('EXPIRE', KEYS[i], {EXPIRE})
end
"""


def tokens_of(kind: WakeUp) -> str:
    """The list in Redis."""
    return f"{kind}:tokens"


@cache  # a loop that begins has a connection of it, so that its end needs no other
def shared_client() -> redis.Redis:
    return redis_client(settings.REDIS_URL, socket_timeout=TRY_FOR, socket_connect_timeout=TRY_FOR)


def wake_up_for(work: OutboundLinks | Flights, promised: Iterable[Promise] = ()) -> None:
    """After the commit of what this has written; `promised` copies are named by themselves."""
    kinds = []
    if work.notifies and settings.MSH_FROM_PARTY_HANDLER:  # else nobody is notified
        kinds.append(WakeUp.NOTIFY)
    if isinstance(work, Flights):
        wake_up(*kinds, flights=work.transmits)
        return
    if work.forwards:
        kinds.append(WakeUp.FORWARD)
    if work.has_signals:
        kinds.append(WakeUp.TRANSMIT)
    copies = frozenset(promised)
    links_alone = work.transmits - {one.partner_id for one in copies}
    wake_up(*kinds, links=links_alone, promised=copies)


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
    if hints := Hints(
        links=frozenset(links),
        signals=frozenset(signals),
        flights=frozenset(flights),
        promised=frozenset(promised),
    ):
        asked[WakeUp.TRANSMIT] = asked.get(WakeUp.TRANSMIT, NOTHING) | hints
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
        tokens = [hints.token() for hints in asked.values()]
        self._channel.write([tokens_of(kind) for kind in asked], tokens)
        self._sent, self._published_at = asked, time.monotonic()

    def _read(self) -> None:
        """The answer to what was sent."""
        if self._sent is None:
            return
        sent, self._sent = self._sent, None
        try:
            self._channel.read()
        except Exception as error:  # noqa: BLE001
            _note_failure(sent, error)

    def _finish(self) -> None:
        """A process that submits and ends has its wake-up sent first."""
        self._asked.put({})
        self._thread.join(2 * TRY_FOR)


Asked = dict[WakeUp, Hints]


def _joined(gathered: "Iterable[Asked | None]") -> Asked:
    joined: Asked = {}
    for one in gathered:
        for kind, hints in (one or {}).items():
            joined[kind] = joined.get(kind, NOTHING) | hints
    return joined


@cache  # one for a process: a thread does not survive a fork
def _messenger_of(pid: int) -> _Messenger:
    return _Messenger()


def _messenger() -> _Messenger:
    return _messenger_of(os.getpid())


def _note_failure(kinds: Iterable[WakeUp], error: Exception) -> None:
    """Whatever it is, the answer to a partner or an application stands: the loops poll."""
    _rest.until = time.monotonic() + REST
    logger.warning("wake-up %s failed, the next poll finds the work: %s", list(kinds), error)


_rest = SimpleNamespace(until=0.0)  # on the clock of `time.monotonic`


def are_resting() -> bool:
    """Whether no wake-up goes out now, because one has just failed."""
    return bool(time.monotonic() < _rest.until)
