"""The awake loop of what goes to our applications: look, hand over, record, until all is quiet.

One thread looks and records, in short transactions. POSTs are carried by the carrier's thread;
functions of the application run in a few threads of their own, so that a slow one stops neither
the rest nor what partners are sent. Nothing in memory is needed: what dies with the process is a
transaction that rolls back, or a lease that passes.

How a POST ended is kept in memory until it is written, each outcome by itself: one that cannot be
written delays no other, and the loop does not end before it is done with all of them.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from django.db import DatabaseError, connection

from msh.flows.application import reason_of, restore_connection
from msh.flows.wake_up import WakeUp, WakeUpListener
from msh.protocol.attempt import AttemptResult
from msh.store import capacity, plans
from msh.transport.carrier import Carrier, Finished

logger = logging.getLogger(__name__)

QUIET = 1.0
"""Seconds without anything to do after which the loop ends."""
PAUSE = 0.25
"""Seconds between polls while awake, without a wake-up."""
ROUND = 0.02
"""Seconds between looks at least: what comes meanwhile is found by one."""
WIND_UP = 5.0
"""Seconds that an ending worker waits for what is under way."""
POSTS_PER_CONSUMER = 8
RETRY_IN = 1.0
"""Seconds after which an outcome that the store did not take is written again."""
RECORD_TRIES = 5
"""Failures to write an outcome, for a reason of its own, after which it is given up."""
REST = 5.0
"""Seconds for which what failed unexpectedly is left alone."""

_WAKE_UP = object()


@dataclass(slots=True, eq=False)
class _Outcome:
    """How a POST ended, until it is written. Without the job: its body is not kept."""

    key: Any
    result: AttemptResult
    failures: int = 0
    error: str = ""
    due: float = 0.0


class WorkerLoop(ABC):
    """One of a kind for a worker process. `run` is entered by one thread; others wake it."""

    kind: WakeUp
    threads: int
    """Functions of the application that run at once."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Any] = SimpleQueue()
        self.carrier = Carrier(self._events, at_once_per_partner=POSTS_PER_CONSUMER)
        self._pool = ThreadPoolExecutor(self.threads, f"msh-{self.kind.name.lower()}")
        self._running = threading.Lock()
        self._stopping = threading.Event()
        self._calls: set[Any] = set()
        self._resting: dict[Any, float] = {}
        self._unrecorded: list[_Outcome] = []

    @abstractmethod
    def look(self) -> bool:
        """Find what is due and hand it over. True if there was something."""

    @abstractmethod
    def record(self, key: Any, result: AttemptResult) -> None:
        """Write how the POST of this job key ended. A DatabaseError of the store has it written
        later, anything else a few times more; then it is given up."""

    @abstractmethod
    def give_up(self, key: Any, error: str) -> None:
        """Write that the outcome could not be written, because of `error`."""

    def release(self, key: Any) -> None:  # noqa: B027  not every loop keeps something
        """The outcome is written, or given up."""

    def run(self) -> None:
        """Hand over until nothing was to be done for QUIET seconds. Returns at once if it runs."""
        if not self._running.acquire(blocking=False):
            self._events.put(_WAKE_UP)
            return
        try:
            self._take_events(0)
            if self._look() or self.is_busy() or not self._events.empty():
                self._stay_awake()
        finally:
            self._running.release()

    def stop(self) -> None:
        """The worker is ending: finish this round and return."""
        self._stopping.set()
        self._events.put(_WAKE_UP)

    def finish(self, key: Any, result: AttemptResult) -> None:
        """A POST has ended: write that in the next round."""
        self._unrecorded.append(_Outcome(key, result))

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
    def resting(self) -> set[Any]:
        """Keys of what has failed unexpectedly a moment ago."""
        now = time.monotonic()
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        return set(self._resting)

    def rest(self, key: Any, seconds: float = REST) -> None:
        """Leave this alone for a while."""
        self._resting[key] = time.monotonic() + seconds

    @property
    def free_threads(self) -> int:
        return self.threads - len(self._calls)

    def is_busy(self) -> bool:
        return bool(self._calls or self._unrecorded or self.carrier.under_way())

    def _stay_awake(self) -> None:
        with WakeUpListener(self.kind, lambda: self._events.put(_WAKE_UP)):
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

    def _take_events(self, wait: float = PAUSE) -> bool:
        """Wait a moment for something to happen, take all that has, and write how POSTs ended."""
        happened = False
        try:
            event = self._events.get(timeout=wait)
            while True:
                happened = True
                self._take(event)
                event = self._events.get_nowait()
        except Empty:
            self.record_ended()
            return happened

    def _take(self, event: Any) -> None:
        if isinstance(event, Finished):
            self.finish(event.job.key, event.outcome)
        elif event is not _WAKE_UP:
            key, future = event
            self._calls.discard(key)
            if error := future.exception():
                self.rest(key)
                _report(error)

    def _look(self) -> bool:
        """False also if the look failed: the sweep comes again."""
        if self._stopping.is_set():
            return False
        try:
            return self.look()
        except DatabaseError as error:
            logger.warning("a look waits for the database: %s", error)
        except Exception:
            logger.exception("a look failed unexpectedly")
        restore_connection()
        return False

    def record_ended(self) -> None:
        """Write how POSTs ended. What cannot be written now stays."""
        now = time.monotonic()
        for outcome in [one for one in self._unrecorded if one.due <= now]:
            error = self._write(outcome)
            if error is None:
                self._unrecorded.remove(outcome)
                self.release(outcome.key)
                continue
            outcome.due = time.monotonic() + RETRY_IN
            restore_connection()
            if capacity.is_gone(error):
                logger.warning("outcomes not written yet: %d; %s", len(self._unrecorded), error)
                return

    def _write(self, outcome: _Outcome) -> Exception | None:
        """None if there is nothing more to be done about it."""
        given_up = outcome.failures >= RECORD_TRIES
        try:
            if given_up:
                self.give_up(outcome.key, outcome.error)
            else:
                self.record(outcome.key, outcome.result)
        except Exception as error:
            if capacity.is_gone(error) or not capacity.is_lasting(error):
                return error
            logger.exception("the outcome of %s cannot be written", outcome.key)
            outcome.failures += 1
            outcome.error = reason_of(error)
            return None if given_up else error
        return None


def _call(function: Callable[..., object], *arguments: Any) -> None:
    connection.close_if_unusable_or_obsolete()
    plans.plan_for_hot_path()
    function(*arguments)


def _report(error: BaseException) -> None:
    if isinstance(error, DatabaseError):
        logger.warning("a hand-over waits for the database: %s", error)
    else:
        logger.error("a hand-over failed unexpectedly", exc_info=error)
