"""The events that a worker loop waits for: those that threads put, and wake-ups from Redis."""

import os
import select
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol


class Wakes(Protocol):
    """The source of wake-ups."""

    def fileno(self) -> int:
        """Readable when something has come; -1 while nothing can come."""


class Events:
    """Put by any thread, taken by one. It is the thread of the loop itself that waits, for its own
    threads and for Redis alike: a thread that only passes something on costs a switch of threads
    for each message."""

    def __init__(self, is_urgent: Callable[[Any], bool] = lambda _: True) -> None:
        self._is_urgent = is_urgent
        self._put: deque[Any] = deque()
        self._pipe: tuple[int, int] | None = None
        self._is_woken = False

    def put(self, event: object) -> None:
        """Put an event. One that is not urgent does not end the waiting: it is taken afterwards."""
        self._put.append(event)
        if not self._is_urgent(event) or self._is_woken:
            return
        self._is_woken = True
        if self._pipe:
            with suppress(BlockingIOError):
                os.write(self._pipe[1], b"\0")

    def __len__(self) -> int:
        return len(self._put)

    def take(self, seconds: float, wakes: Wakes | None = None) -> list[Any]:
        """All that have been put; wait at most so many `seconds` if there are none, and no longer
        than until something urgent is put or something has come to `wakes`."""
        if self._pipe is None:
            self._pipe = os.pipe()
            for end in self._pipe:
                os.set_blocking(end, False)
                weakref.finalize(self, os.close, end)
        ready: set[int] = set()
        if not self._put:
            poll = select.poll()
            poll.register(self._pipe[0], select.POLLIN)
            if wakes and (other := wakes.fileno()) >= 0:
                poll.register(other, select.POLLIN)
            ready = {end for end, _ in poll.poll(max(0.0, seconds) * 1000)}
        # The byte of an event may come after the event has been taken.
        if self._is_woken or self._pipe[0] in ready:
            with suppress(BlockingIOError):
                os.read(self._pipe[0], 4096)
            self._is_woken = False  # before the events are taken: one that is put now wakes again
        return [self._put.popleft() for _ in range(len(self._put))]
