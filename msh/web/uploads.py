"""Limits of the number of bodies under way: for each sender, for all unknown senders, and in
total."""

from collections import Counter, deque
from collections.abc import Callable

from .limits import Limits
from .senders import Sender

Begin = Callable[[], None]


class Uploads:
    """Used by the event loop only. Who finds no place waits for one, the senders in turn."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._under_way: Counter[Sender] = Counter()
        self._all = 0
        self._unknown = 0
        self._waiting: dict[Sender, deque[Begin]] = {}

    def start(self, sender: Sender, begin: Begin) -> None:
        """Call `begin`: now, or as soon as there is a place for this sender."""
        if sender not in self._waiting and self._has_place(sender):
            self._take(sender)
            begin()
        else:
            self._waiting.setdefault(sender, deque()).append(begin)

    def forget(self, sender: Sender, begin: Begin) -> None:
        queue = self._waiting.get(sender)
        if queue is not None and begin in queue:
            queue.remove(begin)
            if not queue:
                del self._waiting[sender]

    def end(self, sender: Sender) -> None:
        """A body that was started has come, or never will."""
        self._under_way[sender] -= 1
        if not self._under_way[sender]:
            del self._under_way[sender]
        self._all -= 1
        self._unknown -= not sender.known
        self._start_next(sender)

    def _start_next(self, ended: Sender) -> None:
        candidates = [ended] if ended in self._waiting else []
        for sender in (*candidates, *self._waiting):
            if self._has_place(sender):
                queue = self._waiting.pop(sender)
                begin = queue.popleft()
                if queue:
                    self._waiting[sender] = queue  # behind all others
                self._take(sender)
                begin()
                return

    def _has_place(self, sender: Sender) -> bool:
        limits = self._limits
        if self._all >= limits.uploads:
            return False
        if sender.known:
            return self._under_way[sender] < limits.known
        return self._unknown < limits.uploads // 2 and self._under_way[sender] < limits.unknown

    def _take(self, sender: Sender) -> None:
        self._under_way[sender] += 1
        self._all += 1
        self._unknown += not sender.known
