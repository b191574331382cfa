"""The threads that answer requests, shared fairly between senders."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from .senders import Sender

QUEUE_LIMIT = 1000
"""Requests that wait for a thread, of all senders."""
SENDER_LIMIT = 100
"""Requests that wait for a thread, of one sender."""

T = TypeVar("T")
_Job = tuple[Sender, Callable[[], object], Callable[[Any], object]]
"""A sender, what a thread does, and what the loop does with its result."""
_Jobs = SimpleQueue[_Job | None]
"""The queue of one thread: its next job, or None to end it."""


class Pool:
    """Used by the event loop only; `work` runs in a thread, `done` on the loop with its result.

    No sender has more than half of the threads, and those who are not known together no more than
    three quarters. Waiting senders are served round robin, one request of each sender, known and
    unknown ones alternately. `work` must not raise.

    The thread that became idle last is the next to work: what it and its session with the database
    need is still in the caches of the processor.
    """

    def __init__(self, threads: int, loop: asyncio.AbstractEventLoop) -> None:
        self._share = max(1, threads // 2)
        self._unknown_share = max(1, threads * 3 // 4)
        self._loop = loop
        self._running: Counter[Sender] = Counter()
        self._unknown = 0
        self._waiting: dict[bool, dict[Sender, deque[_Job]]] = {True: {}, False: {}}
        self._queued = 0
        self._known_first = True
        self._threads: list[_Jobs] = [SimpleQueue() for _ in range(threads)]
        self._idle = self._threads.copy()
        for number, jobs in enumerate(self._threads):
            Thread(target=self._serve, args=(jobs,), name=f"web-{number}", daemon=True).start()

    @property
    def busy(self) -> int:
        return len(self._threads) - len(self._idle) + self._queued

    def submit(self, sender: Sender, work: Callable[[], T], done: Callable[[T], object]) -> bool:
        """False: too much is waiting, nothing is done."""
        job = sender, work, done
        if self._may_run(sender):
            self._run(job)
            return True
        waiting = self._waiting[sender.known]
        queue = waiting.get(sender)
        if self._queued >= QUEUE_LIMIT or (queue is not None and len(queue) >= SENDER_LIMIT):
            return False
        if queue is None:
            queue = waiting[sender] = deque()
        queue.append(job)
        self._queued += 1
        return True

    def _may_run(self, sender: Sender) -> bool:
        if not self._idle or self._running[sender] >= self._share:
            return False
        return sender.known or self._unknown < self._unknown_share

    def _run(self, job: _Job) -> None:
        sender = job[0]
        self._running[sender] += 1
        self._unknown += not sender.known
        self._idle.pop().put(job)

    def close(self) -> None:
        for jobs in self._threads:
            jobs.put(None)

    def _serve(self, jobs: _Jobs) -> None:
        while job := jobs.get():
            result = job[1]()
            if self._loop.is_closed():
                return
            self._loop.call_soon_threadsafe(self._end, jobs, job, result)

    def _end(self, jobs: _Jobs, job: _Job, result: object) -> None:
        self._idle.append(jobs)
        sender = job[0]
        self._running[sender] -= 1
        if not self._running[sender]:
            del self._running[sender]
        self._unknown -= not sender.known
        if self._queued:
            self._run_next()
        job[2](result)

    def _run_next(self) -> None:
        self._known_first = not self._known_first
        for known in (self._known_first, not self._known_first):
            waiting = self._waiting[known]
            for sender in waiting:
                if self._may_run(sender):
                    queue = waiting.pop(sender)
                    job = queue.popleft()
                    if queue:
                        waiting[sender] = queue  # behind all others
                    self._queued -= 1
                    self._run(job)
                    return
