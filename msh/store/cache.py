"""A cache of rows that this process has read or written. A cached row counts only together with a
statement that finds it unchanged."""

from typing import Any, TypeVar

from django.db.backends.signals import connection_created

ENTRIES = 10_000
"""The largest number of entries of one kind."""

K = TypeVar("K")
V = TypeVar("V")


class Cache(dict[K, V]):
    """Any thread may read and write it: an entry is a whole. `share`: of entries that take more
    room, only this part of ENTRIES."""

    def __init__(self, share: float = 1.0) -> None:
        super().__init__()
        self._share = share
        _all.append(self)

    def put(self, key: K, value: V) -> None:
        if len(self) >= ENTRIES * self._share and key not in self:
            self.clear()
        self[key] = value


_all: list[Cache[Any, Any]] = []


def _clear(**_: object) -> None:
    """Clear the cache when a session is new: the database may have been restored, and would then
    use the numbers of cached transactions once more."""
    for one in _all:
        one.clear()


connection_created.connect(_clear, dispatch_uid="msh.store.cache")
