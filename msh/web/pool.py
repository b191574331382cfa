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


class Pool:
    """Used by the event loop only; `work` runs in a thread, `done` on the loop with its result.

    No sender has more than half of the threads, and those who are not known together no more than
    three quarters. Who waits is served in turn, one request of each sender, known and unknown ones
    alternately. `work` must not raise.
    """

    def __init__(self, threads: int, loop: asyncio.AbstractEventLoop) -> None:
        self._threads = threads
        self._share = max(1, threads // 2)
        self._unknown_share = max(1, threads * 3 // 4)
        self._loop = loop
        self._running: Counter[Sender] = Counter()
        self._all = 0
        self._unknown = 0
        self._waiting: dict[bool, dict[Sender, deque[_Job]]] = {True: {}, False: {}}
        self._queued = 0
        self._known_first = True
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        for number in range(threads):
            Thread(target=self._serve, name=f"web-{number}", daemon=True).start()

    @property
    def busy(self) -> int:
        return self._all + self._queued

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
        if self._all >= self._threads or self._running[sender] >= self._share:
            return False
        return sender.known or self._unknown < self._unknown_share

    def _run(self, job: _Job) -> None:
        sender = job[0]
        self._running[sender] += 1
        self._all += 1
        self._unknown += not sender.known
        self._jobs.put(job)

    def close(self) -> None:
        for _ in range(self._threads):
            self._jobs.put(None)

    def _serve(self) -> None:
        while job := self._jobs.get():
            result = job[1]()
            if self._loop.is_closed():
                return
            self._loop.call_soon_threadsafe(self._end, job, result)

    def _end(self, job: _Job, result: object) -> None:
        sender = job[0]
        self._running[sender] -= 1
        if not self._running[sender]:
            del self._running[sender]
        self._all -= 1
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
