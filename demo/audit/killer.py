"""Kills Spark's tasks while they load: each time, so many messages more are in the MSH."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from .spark_processes import tasks_of

LOOK_EVERY = 0.02
# Of the last one: a count of all would slow down what is measured.
_COUNT = "SELECT coalesce(max(id), 0) FROM msh_outboundmessage"


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
        workers = list(tasks_of(driver))
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if workers:
            self.killed.append(loaded)
