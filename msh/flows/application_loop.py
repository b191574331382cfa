"""The worker loop of what goes to our applications, by POST or by calling their functions."""

import logging
import time
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db import DatabaseError, connection

from msh.flows.application import reason_of, restore_connection
from msh.flows.hints import Hints
from msh.flows.worker_loop import WorkerLoop
from msh.protocol.attempt import AttemptResult
from msh.store import capacity, plans
from msh.transport.carrier import Finished

logger = logging.getLogger(__name__)

POSTS_PER_CONSUMER = 8
"""POSTs at once to one consumer: a slow one leaves the other slots of the carrier free."""
RETRY_IN = 1.0
"""Seconds after which an outcome that the store did not take is written again."""
RECORD_TRIES = 5
"""Failures to write an outcome, for a reason of its own, after which it is given up."""


@dataclass(slots=True, eq=False)
class _Outcome:
    """How a POST ended, until it is written. Without the job: its body is not kept."""

    key: Any
    result: AttemptResult
    failures: int = 0
    error: str = ""
    due: float = 0.0


class ApplicationLoop(WorkerLoop):
    """Functions of the application run in a few threads of their own, so that a slow one stops
    neither the rest nor what partners are sent.

    How a POST ended is kept in memory until it is written, each outcome by itself: one that cannot
    be written delays no other, and the loop does not end before it is done with all of them.
    """

    posts_per_partner = POSTS_PER_CONSUMER
    threads: ClassVar[int]
    """Functions of the application that run at once."""

    def __init__(self) -> None:
        super().__init__()
        self._pool = ThreadPoolExecutor(self.threads, f"msh-{self.kind.name.lower()}")
        self._calls: set[Any] = set()
        self._unrecorded: list[_Outcome] = []

    @abstractmethod
    def poll(self) -> bool:
        """Find what is due and hand it over. True if there was something."""

    @abstractmethod
    def record(self, key: Any, result: AttemptResult) -> None:
        """Write how the POST of this job key ended. A DatabaseError of the store has it written
        later, anything else a few times more; then it is given up."""

    @abstractmethod
    def give_up(self, key: Any, error: str) -> None:
        """Write that the outcome could not be written, because of `error`."""

    def release(self, key: Any) -> None:
        """The outcome is written, or given up."""

    def take(self, event: Any) -> bool:
        if isinstance(event, Finished):
            self.finish(event.job.key, event.outcome)
            return True
        key, future = event
        self._calls.discard(key)
        if error := future.exception():
            self.rest(key)
            _report(error)
        return True

    def round(self, hints: Hints) -> bool:
        recorded = self.record_ended()
        return (hints.all and self._try_poll()) or recorded

    def is_busy(self) -> bool:
        return bool(self._calls or self._unrecorded) or super().is_busy()

    def finish(self, key: object, result: AttemptResult) -> None:
        self._unrecorded.append(_Outcome(key, result))

    def call(self, key: object, function: Callable[..., object], *arguments: object) -> None:
        """Run a function in one of our threads; `key` is in `calls` until it has ended."""
        future: Future[object] = Future()
        try:
            self._pool.submit(_call, future, function, *arguments)
        except RuntimeError:  # no thread could start, and the pool has queued the call all the same
            if future.cancel():
                raise
        self._calls.add(key)
        future.add_done_callback(lambda done: self._events.put((key, done)))

    @property
    def calls(self) -> set[Any]:
        return self._calls

    @property
    def free_threads(self) -> int:
        return self.threads - len(self._calls)

    def record_ended(self) -> bool:
        """Write how POSTs ended. What cannot be written now stays. True if one was written."""
        recorded = False
        now = time.monotonic()
        for outcome in [one for one in self._unrecorded if one.due <= now]:
            error = self._write(outcome)
            if error is None:
                recorded = True
                self._unrecorded.remove(outcome)
                self.release(outcome.key)
                continue
            outcome.due = time.monotonic() + RETRY_IN
            restore_connection()
            if capacity.is_gone(error):
                logger.warning("outcomes not written yet: %d; %s", len(self._unrecorded), error)
                break
        return recorded

    def _try_poll(self) -> bool:
        try:
            return self.poll()
        except DatabaseError as error:
            logger.warning("a poll is waiting for the database: %s", error)
        except Exception:
            logger.exception("a poll failed unexpectedly")
        restore_connection()
        return False

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


def _call(future: Future[object], function: Callable[..., object], *arguments: object) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        connection.close_if_unusable_or_obsolete()
        plans.plan_for_hot_path()
        future.set_result(function(*arguments))
    except BaseException as error:  # noqa: BLE001  looked at by `take`
        future.set_exception(error)


def _report(error: BaseException) -> None:
    if isinstance(error, DatabaseError):
        logger.warning("a delivery is waiting for the database: %s", error)
    else:
        logger.error("a delivery failed unexpectedly", exc_info=error)
