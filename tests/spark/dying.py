"""Format `ebxml-dying`: the bridge, with tasks that are killed when half of their rows are sent.

Executors import this: nothing of Django here.
"""

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from spark_bridge import EbxmlDataSource
from spark_bridge.message import Layout
from spark_bridge.options import write_options
from spark_bridge.writer import BatchWriter, Written

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class DyingDataSource(EbxmlDataSource):
    @classmethod
    def name(cls) -> str:
        return "ebxml-dying"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        options = write_options(self.options, stream=False)
        return DyingWriter(options, Layout(schema, options.ids))


class DyingWriter(BatchWriter):
    def write(self, iterator: "Iterator[RecordBatch]") -> Written:
        return super().write(_rows(iterator))


def _rows(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
    """The first attempt's end in the middle; those of the next come in another order."""
    context = TaskContext.get()
    assert context is not None
    rows = pa.Table.from_batches(batches)
    if context.attemptNumber() > 0:
        yield from rows.take(list(reversed(range(rows.num_rows)))).to_batches()
        return
    yield from rows.slice(0, rows.num_rows // 2).to_batches()
    os.kill(os.getpid(), signal.SIGKILL)
