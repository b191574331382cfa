"""The bridge in formats of its own, with tasks that something befalls.

Executors import this: nothing of Django here.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from spark_bridge import EbxmlDataSource
from spark_bridge.message import Layout
from spark_bridge.options import write_options
from spark_bridge.writer import BatchWriter, StreamWriter, Written

if TYPE_CHECKING:
    from pyarrow import RecordBatch

STANDS_FOR = 600  # seconds, or until it is killed


class _Disturbed(EbxmlDataSource):
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        options = write_options(self.options, stream=False)
        made = _DisturbedWriter(options, Layout(schema, options.ids))
        made.befalls = self.befalls
        return made

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        options = write_options(self.options, stream=True)
        made = _DisturbedStreamWriter(options, Layout(schema, options.ids))
        made.befalls = self.befalls
        return made

    @staticmethod
    def befalls(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
        """What the bridge gets of the rows that Spark gives it."""
        raise NotImplementedError


class _DisturbedWriter(BatchWriter):
    befalls: "Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]"

    def write(self, iterator: "Iterator[RecordBatch]") -> Written:
        return super().write(self.befalls(iterator))


class _DisturbedStreamWriter(StreamWriter):
    befalls: "Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]"

    def write(self, iterator: "Iterator[RecordBatch]") -> Written:
        return super().write(self.befalls(iterator))


class Dying(_Disturbed):
    """The first attempts are killed in the middle; the next get their rows in another order."""

    @classmethod
    def name(cls) -> str:
        return "ebxml-dying"

    @staticmethod
    def befalls(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
        rows = pa.Table.from_batches(batches)
        if _task().attemptNumber() > 0:
            yield from rows.take(list(reversed(range(rows.num_rows)))).to_batches()
            return
        yield from rows.slice(0, rows.num_rows // 2).to_batches()
        os.kill(os.getpid(), signal.SIGKILL)


class Losing(_Disturbed):
    """The first task deletes what the shuffle wrote, as if its machine were lost. It has read its
    own rows before; for those that come after it, Spark runs the stage again."""

    @classmethod
    def name(cls) -> str:
        return "ebxml-losing"

    @staticmethod
    def befalls(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
        for batch in batches:
            if _task().partitionId() == 0:
                for folder in os.environ["SPARK_LOCAL_DIRS"].split(","):
                    for file in Path(folder).rglob("shuffle_*"):
                        file.unlink(missing_ok=True)
            yield batch


class Standing(_Disturbed):
    """The first attempts come to a stand when half of their rows are sent."""

    @classmethod
    def name(cls) -> str:
        return "ebxml-standing"

    @staticmethod
    def befalls(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
        found = list(batches)
        if _task().attemptNumber() > 0 or not found:
            yield from found
            return
        rows = pa.Table.from_batches(found)
        yield from rows.slice(0, rows.num_rows // 2).to_batches()
        time.sleep(STANDS_FOR)


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
