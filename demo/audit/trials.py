"""What can befall a pipeline: a refused row of an order, a killed driver of streams, queries at
once, and retention that is faster than a reader."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.dataset as ds

from demo.machines import Machine
from demo.watch import connections

from .jobs import Jobs
from .killer import Killer
from .options import Options

BATCH = ("--option", "batchSize=100")
_STORED = "SELECT count(*) FROM msh_outboundmessage"
_WAITING = "SELECT count(*) FROM msh_inboundmessage WHERE feed_position > %s"
_AGE = """
WITH aged AS (
    SELECT id FROM msh_inboundmessage WHERE feed_position > %s ORDER BY feed_position LIMIT %s)
UPDATE msh_inboundmessage message
SET received_at = received_at - interval '9 years', delivered_at = delivered_at - interval '9 years'
FROM aged WHERE message.id = aged.id
"""


@dataclass(frozen=True, slots=True)
class Trials:
    options: Options
    jobs: Jobs
    sender: Machine
    receiver: Machine

    def source(self, wave: str = "*", mapping: str = "mapping") -> tuple[str, ...]:
        orders, file = f"{self._orders}/{wave}", f"{self.jobs.folder}/{mapping}.toml"
        return "--source", orders, "--format", "parquet", "--mapping", file

    async def refused_row(self) -> dict[str, Any]:
        """One row is refused, and those behind it are not sent; then it is corrected."""
        words = (*self.jobs.server(self.sender), *BATCH)
        rejected = ("--rejected", str(self.jobs.folder / "rejected"))
        before = self._stored()
        broken = await self.jobs.job(
            *("load", *words, *self.source("ordered", "broken"), *rejected), step="load_refused"
        )
        stored = self._stored() - before
        repaired = await self.jobs.job(
            *("load", *words, *self.source("ordered")), step="load_corrected"
        )
        return {"refused": broken, "stored": stored, "corrected": repaired}

    async def streams(self) -> dict[str, Any]:
        """Two queries send the same orders at the same time, while another reads what arrives. The
        driver is killed, and started again."""
        wave = self.options.waves["stream"]
        committed = self._folder("feed", "checkpoint") / "commits"
        with connections([self.sender]) as opened:
            killer = Killer(
                *(opened[self.sender.name], len(wave), 1),
                drivers=True,
                ready=lambda: committed.exists() and any(committed.glob("[0-9]*")),
            )
            await self._run("streams", self._queries(ends=False), killer)
        # A reader that was stopped now, and is started when retention was faster.
        shutil.copytree(self._folder("feed", "checkpoint"), self._folder("late", "checkpoint"))
        failed = await self._run("streams_restarted", self._queries(ends=True))
        return {
            "driver_killed_when_so_many_were_in": killer.killed,
            "failed": failed,
            **{name: self._counted(name) for name in ("sink", "micro_batches")},
        }

    async def read_all(self) -> dict[str, Any]:
        """By two queries at once with `availableNow`: one goes on, one begins."""
        failed = await self._run("streams_read", {n: self._feed(n) for n in ("feed", "fresh")})
        sizes = {name: self._sizes(name) for name in ("feed", "fresh")}
        return {"failed": failed, "micro_batches": sizes}

    async def retention(self) -> dict[str, Any]:
        """It removes the first half of what a query has still to read."""
        position = self._position("late")
        with connections([self.receiver]) as opened:
            database = opened[self.receiver.name]
            unread = _count(database, _WAITING, position)
            database.execute(_AGE, [position, unread // 2])
            await self.receiver.manage("prune")
            left = _count(database, _WAITING, position)
        failed = await self._run("stream_behind_retention", {"late": self._feed("late")})
        before = sum(self._sizes("late"))
        going_on = {"late": self._feed("late", failOnDataLoss="false")}
        failed_after = await self._run("stream_goes_on", going_on)
        return {
            "unread": unread,
            "left": left,
            "failed": failed["late"],
            "read_before_it_failed": before,
            "failed_without_failOnDataLoss": failed_after["late"],
            "read": sum(self._sizes("late")),
        }

    def _queries(self, *, ends: bool) -> dict[str, Any]:
        given = self.jobs.options(self.sender)
        given |= {"idColumn": "order_id", "orderColumn": "order_no", "batchSize": "20"}
        metrics = {"metricsPath": str(self._folder("sink", "output"))}
        return {
            "feed": self._feed("feed") | {"ends": ends},
            "sink": self._sends("sink", given | metrics, ends=ends),
            "micro_batches": self._sends("micro_batches", given, ends=ends),
        }

    def _sends(self, kind: str, options: dict[str, str], *, ends: bool) -> dict[str, Any]:
        source = {"source": f"{self._orders}/stream", "options": options}
        return self._query(kind) | source | {"kind": kind, "ends": ends}

    def _feed(self, name: str, **options: str) -> dict[str, Any]:
        limit = {"maxMessagesPerTrigger": str(self.options.per_trigger)}
        given = self.jobs.options(self.receiver) | limit | options
        return self._query(name) | {"kind": "feed", "ends": True, "options": given}

    def _query(self, name: str) -> dict[str, str]:
        return {what: str(self._folder(name, what)) for what in ("checkpoint", "output")}

    async def _run(
        self, step: str, queries: dict[str, Any], killer: Killer | None = None
    ) -> dict[str, str]:
        """What each query failed with; nothing of a driver that was killed."""
        plan = self.jobs.folder / f"{step}.plan"
        plan.write_text(json.dumps(queries))
        await self.jobs.python(step, "demo.audit.streams", str(plan), killer=killer)
        failed = plan.with_suffix(".failed")
        found: dict[str, str] = json.loads(failed.read_text()) if failed.exists() else {}
        return found

    def _counted(self, name: str) -> dict[str, int]:
        """What the micro-batches of a query counted, together."""
        counts = [json.loads(f.read_text()) for f in self.output(name).glob("*.json")]
        return {
            what: sum(each[what] for each in counts) for what in ("accepted", "known", "rejected")
        }

    def _sizes(self, name: str) -> list[int]:
        """Of the micro-batches that a query has kept."""
        return [
            ds.dataset(batch, format="parquet").count_rows()
            for batch in sorted(self.output(name).glob("batch=*"))
        ]

    def _position(self, name: str) -> int:
        """Up to which a query has read, by its checkpoint."""
        checkpoint = self._folder(name, "checkpoint")
        done = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
        last = (checkpoint / "offsets" / str(done)).read_text().splitlines()[-1]
        return int(json.loads(last)["position"])

    def output(self, name: str) -> Path:
        """Of a query that reads."""
        return self._folder(name, "output")

    def _folder(self, name: str, what: str) -> Path:
        return self.jobs.folder / f"{name}.{what}"

    @property
    def _orders(self) -> Path:
        return self.jobs.folder / "orders"

    def _stored(self) -> int:
        with connections([self.sender]) as opened:
            return _count(opened[self.sender.name], _STORED)


def _count(connection: psycopg.Connection, statement: str, *values: int) -> int:
    row = connection.execute(statement.encode(), values).fetchone()
    assert row is not None
    return int(row[0])
