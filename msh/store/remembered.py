"""What a process has read or written last, and asks for again only if it has to. It counts only
together with a statement that finds it unchanged."""

from typing import Any, TypeVar

from django.db.backends.signals import connection_created

REMEMBERED = 10_000
"""Entries of one kind, at most."""

K = TypeVar("K")
V = TypeVar("V")


class Remembered(dict[K, V]):
    """Any thread may read and write it: an entry is a whole. `share`: of entries that take more
    room, only this part of REMEMBERED."""

    def __init__(self, share: float = 1.0) -> None:
        super().__init__()
        self._share = share
        _all.append(self)

    def remember(self, key: K, value: V) -> None:
        if len(self) >= REMEMBERED * self._share and key not in self:
            self.clear()
        self[key] = value


_all: list[Remembered[Any, Any]] = []


def _forget(**_: object) -> None:
    """With a new session: the database may have been restored, and would give the numbers of the
    transactions that are remembered once more."""
    for one in _all:
        one.clear()


connection_created.connect(_forget, dispatch_uid="msh.store.remembered")
