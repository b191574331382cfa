"""Format `ebxml`, as Spark finds it."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from spark_bridge.message import Layout
from spark_bridge.options import OptionRefused, read_options, write_options
from spark_bridge.reader import INBOUND, OUTBOUND, FeedReader, FeedStreamReader, StatusReader
from spark_bridge.writer import BatchWriter, StreamWriter


class EbxmlDataSource(DataSource):
    """`spark.dataSource.register(EbxmlDataSource)`. Its options: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        return "ebxml"

    def schema(self) -> StructType:
        return OUTBOUND if self.options.get("feed") == "outbound" else INBOUND

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, stream=False)
        self._refuse_own_schema(schema)
        return StatusReader(options) if options.feed == "outbound" else FeedReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = read_options(self.options, stream=True)
        self._refuse_own_schema(schema)
        return FeedStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise OptionRefused("Mode overwrite: messages that were sent cannot be replaced.")
        options = write_options(self.options, stream=False)
        return BatchWriter(options, Layout(schema, options.ids, options.order_column))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        if overwrite:
            raise OptionRefused("Output mode complete: messages that were sent cannot be replaced.")
        options = write_options(self.options, stream=True)
        return StreamWriter(options, Layout(schema, options.ids, options.order_column))

    def _refuse_own_schema(self, schema: StructType) -> None:
        if schema != self.schema():
            raise OptionRefused("The schema of format ebxml is given: leave .schema() out, select.")
