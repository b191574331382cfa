"""The awake loop of what goes to our applications: look, hand over, record, until all is quiet.

One thread looks and records, in short transactions. POSTs are carried by the carrier's thread;
functions of the application run in a few threads of their own, so that a slow one stops neither
the rest nor what partners are sent. Nothing in memory is needed: what dies with the process is a
transaction that rolls back, or a lease that passes.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any

from django.db import DatabaseError, connection

from msh.flows.nudge import Ear, Nudge, answered
from msh.transport.carrier import Carrier, Finished

logger = logging.getLogger(__name__)

QUIET = 1.0
"""Seconds without anything to do after which the loop ends."""
PAUSE = 0.25
"""Seconds between looks while awake, if nobody nudges."""
ROUND = 0.02
"""Seconds between looks at least: what comes meanwhile is found by one."""
WIND_UP = 5.0
"""Seconds that an ending worker waits for what is under way."""
POSTS_PER_CONSUMER = 8

_NUDGED = object()


class Dispatch(ABC):
    """One of a kind for a worker process. `run` is entered by one thread; others wake it."""

    kind: Nudge
    threads: int
    """Functions of the application that run at once."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Any] = SimpleQueue()
        self.carrier = Carrier(self._events, at_once_per_partner=POSTS_PER_CONSUMER)
        self._pool = ThreadPoolExecutor(self.threads, f"msh-{self.kind.name.lower()}")
        self._running = threading.Lock()
        self._stopping = threading.Event()
        self._calls: set[Any] = set()
        self._unrecorded: list[Finished] = []

    @abstractmethod
    def look(self) -> bool:
        """Find what is due and hand it over. True if there was something."""

    @abstractmethod
    def record(self, ended: list[Finished]) -> None:
        """Write how POSTs ended. A DatabaseError has them written later."""

    def run(self) -> None:
        """Hand over until nothing was to be done for QUIET seconds. Returns at once if it runs."""
        if not self._running.acquire(blocking=False):
            self._events.put(_NUDGED)
            return
        try:
            answered(self.kind)  # before the look that it asked for
            if self._look() or self.is_busy() or not self._events.empty():
                self._stay_awake()
        finally:
            self._running.release()

    def stop(self) -> None:
        """The worker is ending: finish this round and return."""
        self._stopping.set()
        self._events.put(_NUDGED)

    def call(self, key: Any, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function in one of our threads; `key` is in `calls` until it has ended."""
        self._calls.add(key)
        future = self._pool.submit(_call, function, *arguments)
        future.add_done_callback(lambda done: self._events.put((key, done)))

    @property
    def calls(self) -> set[Any]:
        """Keys of the calls under way."""
        return self._calls

    @property
    def free_threads(self) -> int:
        return self.threads - len(self._calls)

    def is_busy(self) -> bool:
        return bool(self._calls or self.carrier.under_way())

    def _stay_awake(self) -> None:
        with Ear(self.kind, lambda: self._events.put(_NUDGED)):
            busy_at = looked_at = time.monotonic()
            while not self._stopping.is_set():
                self._stopping.wait(looked_at + ROUND - time.monotonic())
                happened = self._take_events()
                if happened or time.monotonic() - looked_at > PAUSE:
                    looked_at = time.monotonic()
                    happened = self._look() or happened
                if happened or self.is_busy():
                    busy_at = time.monotonic()
                elif time.monotonic() - busy_at > QUIET:
                    return
            self._wind_up()

    def _wind_up(self) -> None:
        end = time.monotonic() + WIND_UP
        while self.is_busy() and time.monotonic() < end:
            self._take_events()

    def _take_events(self) -> bool:
        """Wait a moment for something to happen, and take all that has."""
        happened = False
        try:
            event = self._events.get(timeout=PAUSE)
            while True:
                happened = True
                self._take(event)
                event = self._events.get_nowait()
        except Empty:
            self._record()
            return happened

    def _take(self, event: Any) -> None:
        if isinstance(event, Finished):
            self._unrecorded.append(event)
        elif event is not _NUDGED:
            key, future = event
            self._calls.discard(key)
            _report(future)

    def _look(self) -> bool:
        return not self._stopping.is_set() and self.look()

    def _record(self) -> None:
        ended, self._unrecorded = self._unrecorded, []
        if ended:
            try:
                self.record(ended)
            except DatabaseError as error:
                logger.warning("outcomes of %d POSTs not written yet: %s", len(ended), error)
                self._unrecorded = ended


def allow_idle(time_allowed: timedelta) -> None:
    """Until its end, the transaction may go so long without a word to the database: a function of
    the application works in it."""
    milliseconds = int(time_allowed.total_seconds() * 1000)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT set_config('idle_in_transaction_session_timeout', %s, true)",
            [f"{milliseconds}ms"],
        )


def _call(function: Callable[..., object], *arguments: Any) -> None:
    connection.close_if_unusable_or_obsolete()
    function(*arguments)


def _report(future: "Future[None]") -> None:
    error = future.exception()
    if isinstance(error, DatabaseError):
        logger.warning("a hand-over waits for the database: %s", error)
    elif error is not None:
        logger.error("a hand-over failed unexpectedly", exc_info=error)
