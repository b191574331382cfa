"""Format `ebxml-losing`: the bridge, with a first task that deletes what the shuffle wrote, as if
its machine were lost: Spark makes it anew and runs the stage again.

Executors import this: nothing of Django here.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.types import StructType

from spark_bridge import EbxmlDataSource
from spark_bridge.message import Layout
from spark_bridge.options import write_options
from spark_bridge.writer import BatchWriter, Written

if TYPE_CHECKING:
    from pyarrow import RecordBatch


class LosingDataSource(EbxmlDataSource):
    @classmethod
    def name(cls) -> str:
        return "ebxml-losing"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        options = write_options(self.options, stream=False)
        return LosingWriter(options, Layout(schema, options.ids))


class LosingWriter(BatchWriter):
    def write(self, iterator: "Iterator[RecordBatch]") -> Written:
        return super().write(_losing(iterator))


def _losing(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
    """Those of the first task go on: they were read before."""
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        if context.partitionId() == 0:
            for folder in os.environ["SPARK_LOCAL_DIRS"].split(","):
                for file in Path(folder).rglob("shuffle_*"):
                    file.unlink(missing_ok=True)
        yield batch
