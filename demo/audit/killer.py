"""Kills Spark's tasks while they load: each time, so many messages more are in the MSH."""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

LOOK_EVERY = 0.02
_COUNT = "SELECT count(*) FROM msh_outboundmessage"


@dataclass(slots=True)
class TaskKiller:
    """At most `kills` Python workers, so that no task can die as often as Spark allows (3)."""

    connection: psycopg.Connection
    """To the database of the MSH that is loaded."""
    rows: int
    kills: int
    killed: list[int] = field(default_factory=list)
    """How many messages were in, at each kill."""

    async def work(self, driver: int) -> None:
        while len(self.killed) < self.kills:
            await asyncio.sleep(LOOK_EVERY)
            row = self.connection.execute(_COUNT).fetchone()
            loaded = row[0] if row else 0
            if loaded * (self.kills + 1) > self.rows * (len(self.killed) + 1):
                self._strike(driver, loaded)

    def _strike(self, driver: int, loaded: int) -> None:
        workers = list(_workers(driver))
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        if workers:
            self.killed.append(loaded)


def _workers(driver: int) -> Iterator[int]:
    """Those that the daemon of PySpark has forked for the tasks of a driver."""
    for pid in _descendants(driver):
        if _is_daemon(pid):
            yield from (child for child in _children(pid) if _is_daemon(child))


def _is_daemon(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"pyspark.daemon" in words and b"pyspark.worker" in words


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _children(pid: int) -> list[int]:
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        texts = [(thread / "children").read_text() for thread in threads]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for text in texts for word in text.split()]
