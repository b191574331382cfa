"""Kills processes of Spark while it loads: each time, so many messages more are in the MSH."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from .spark_processes import descendants, tasks_of

LOOK_EVERY = 0.02
# Of the last one: a count of all would slow down what is measured.
_COUNT = "SELECT coalesce(max(id), 0) FROM msh_outboundmessage"


@dataclass(slots=True)
class Killer:
    connection: psycopg.Connection
    """To the database of the MSH that is loaded."""
    rows: int
    """That are loaded meanwhile."""
    kills: int
    """At most so many, evenly spread. Spark allows 3 deaths of a task."""
    drivers: bool = False
    """The driver is killed, with its JVM and all its workers; otherwise the tasks."""
    ready: Callable[[], bool] = lambda: True
    """Whether there is already something to be interrupted."""
    killed: list[int] = field(default_factory=list)
    """How many of the rows were in, at each kill."""

    async def work(self, driver: int) -> None:
        before = self._in()
        while len(self.killed) < self.kills:
            await asyncio.sleep(LOOK_EVERY)
            loaded = self._in() - before
            due = loaded * (self.kills + 1) > self.rows * (len(self.killed) + 1)
            if due and self.ready():
                self._strike(driver, loaded)

    def _in(self) -> int:
        row = self.connection.execute(_COUNT).fetchone()
        return row[0] if row else 0

    def _strike(self, driver: int, loaded: int) -> None:
        pids = [*descendants(driver), driver] if self.drivers else list(tasks_of(driver))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if pids:
            self.killed.append(loaded)
