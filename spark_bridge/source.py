"""Format `ebxml`, as Spark finds it."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from spark_bridge.client import require_reachable
from spark_bridge.compat import DataSourceStreamArrowWriter
from spark_bridge.message import Layout
from spark_bridge.options import OptionRefused, WriteOptions, read_options, write_options
from spark_bridge.reader import FeedReader, FeedStreamReader, StatusReader
from spark_bridge.rows import EVENTS, INBOUND, OUTBOUND, PAYLOADS, require_columns
from spark_bridge.writer import BatchWriter, StreamWriter


class EbxmlDataSource(DataSource):
    """Found by itself where the wheel is installed; otherwise `spark.dataSource.register`. Its
    options: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "ebxml"

    def schema(self) -> StructType:
        match self.options.get("feed"):
            case "outbound":
                payloads = [PAYLOADS] if "payloads" in self.options else []
                return StructType([*OUTBOUND.fields, *payloads])
            case "events":
                return EVENTS
        return INBOUND

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, stream=False)
        require_columns(schema, self.schema())
        require_reachable(options.server, "read")
        kind = StatusReader if options.feed == "outbound" else FeedReader
        return kind(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = read_options(self.options, stream=True)
        require_columns(schema, self.schema())
        require_reachable(options.server, "read")
        return FeedStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise OptionRefused("Mode overwrite: messages that were sent cannot be replaced.")
        options = write_options(self.options, stream=False)
        layout = layout_of(options, schema)
        require_reachable(options.server, "send")
        return BatchWriter(options, layout)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:
            raise OptionRefused("Output mode complete: messages that were sent cannot be replaced.")
        options = write_options(self.options, stream=True)
        layout = layout_of(options, schema)
        # Spark makes a writer for each micro-batch: the tasks wait for an MSH that is away.
        require_reachable(options.server, "send", must_answer=False)
        return StreamWriter(options, layout)


def layout_of(options: WriteOptions, schema: StructType) -> Layout:
    """Raises ColumnsRefused."""
    ordered = options.order_column
    return Layout(schema, options.ids, ordered, order_checked=options.order_checked)
