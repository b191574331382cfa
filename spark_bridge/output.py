"""The folder of a job's Parquet. Each run writes into a folder of its own, which counts once the
journal has its last entry: a run that was killed, or is not done yet, is never taken for a whole
one. Nothing is renamed, for on an object store a rename of a folder is many steps.

By Spark alone: on every file system where Spark writes, over Spark Connect too.
"""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from spark_bridge.failures import JobFailed

ABANDONED_AFTER = 86_400.0
"""Seconds: what a run has left that began so long ago, and did not finish, the next one removes."""
_JOURNAL = "_journal"  # Spark reads no folder of such a name, unless it is asked for by that name
_COLUMNS = "run string, kind string, previous string, rows long, found string"
_BEGAN, _FINISHED, _REMOVED = "began", "finished", "removed"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the journal, each in a file of its own."""

    run: str
    kind: str
    previous: str = ""
    """The run that this one goes on from."""
    rows: int = 0
    found: str = "{}"
    """JSON: what the next run has to know."""
    written_at: float = 0.0
    """Seconds since 1970, by the file system."""


class Output:
    """The folder as it is when the run begins, and the run's own folder in it."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._spark = spark
        self._location = location.rstrip("/")
        self._run = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
        self._finished = finished(self._entries())

    @property
    def folder(self) -> str:
        """Where this run writes."""
        return self._folder(self._run)

    @property
    def found(self) -> Mapping[str, Any]:
        """What the last run has left for this one; empty, if this is the first."""
        found: Mapping[str, Any] = json.loads(self._finished[-1].found) if self._finished else {}
        return found

    def begin(self) -> None:
        """Remove what killed runs have left, and note that this one will write."""
        entries = self._entries()
        ended = {entry.run for entry in entries if entry.kind != _BEGAN}
        for entry in entries:
            if entry.run not in ended and entry.written_at < time.time() - ABANDONED_AFTER:
                self._remove(entry.run)
        self._write(Entry(self._run, _BEGAN))

    def finish(self, rows: int, found: Mapping[str, Any]) -> None:
        """From here on the run counts. Raises JobFailed if another one that had begun from the same
        place was faster: what this one has written would be there twice."""
        if finished(self._entries()) == self._finished:
            previous = self._finished[-1].run if self._finished else ""
            self._write(Entry(self._run, _FINISHED, previous, rows, json.dumps(found)))
            self._finished = finished(self._entries())
            if any(entry.run == self._run for entry in self._finished):
                return
        self._remove(self._run)
        raise JobFailed(
            f"{self._location}: another run has finished meanwhile, and this one would repeat its"
            " rows, so it does not count. Run it again, one at a time."
        )

    def drop(self) -> None:
        """The run has nothing to say."""
        self._remove(self._run)

    def rows(self, schema: StructType | str | None = None) -> DataFrame | None:
        """Those of all runs that count, with column `run`. None, if there are none."""
        folders = [self._folder(entry.run) for entry in self._finished if entry.rows]
        if not folders:
            return None
        reader = self._spark.read.option("basePath", self._location)
        return (reader.schema(schema) if schema else reader).parquet(*folders)

    def _entries(self) -> list[Entry]:
        written_at = f.unix_micros("_metadata.file_modification_time") / 1_000_000
        try:
            files = self._spark.read.schema(_COLUMNS).json(f"{self._location}/{_JOURNAL}/*")
            rows = files.select("*", written_at.alias("written_at")).collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return []
        return [Entry(**row.asDict()) for row in rows]

    def _write(self, entry: Entry) -> None:
        columns = (f.lit(getattr(entry, name)).alias(name) for name in _names())
        line = self._spark.range(0, 1, 1, 1).select(*columns)
        # What is said twice is said once.
        line.write.mode("ignore").json(f"{self._location}/{_JOURNAL}/{entry.run}-{entry.kind}")

    def _remove(self, run: str) -> None:
        """An overwrite removes all that is in a folder; of no rows in parts, it leaves no file."""
        nothing = self._spark.range(0).select("id", f.col("id").alias("part"))
        nothing.write.mode("overwrite").partitionBy("part").parquet(self._folder(run))
        self._write(Entry(run, _REMOVED))

    def _folder(self, run: str) -> str:
        return f"{self._location}/run={run}"


def finished(entries: list[Entry]) -> list[Entry]:
    """The runs that count, in their order: each goes on from the one before it. Of two that began
    from the same one, the first that was written."""
    removed = {entry.run for entry in entries if entry.kind == _REMOVED}
    chain: list[Entry] = []
    for entry in sorted(entries, key=lambda entry: (entry.written_at, entry.run)):
        follows = entry.previous == (chain[-1].run if chain else "")
        if entry.kind == _FINISHED and follows and entry.run not in removed:
            chain.append(entry)
    return chain


def read_runs(spark: SparkSession, location: str) -> DataFrame:
    """The rows of a folder of extract or archive, with column `run`: those of runs that have
    finished. Raises JobFailed if there are none."""
    rows = Output(spark, location).rows()
    if rows is None:
        raise JobFailed(f"{location}: no run has finished there with a row.")
    return rows


def _names() -> list[str]:
    return [column.partition(" ")[0] for column in _COLUMNS.split(", ")]
