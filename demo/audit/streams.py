"""A driver with queries that run at once: `python -m demo.audit.streams PLAN`.

PLAN is a file, an object of name → query. Each runs to its end, those of trigger `availableNow`, or
until the driver is killed. What they failed with is written beside PLAN.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_bridge import ordered_by_pair
from spark_bridge.session import open_session

ORDER = "order_no long, order_id string, tpa_id string, document binary"
MESSAGE = (
    *("order_no", "order_id", "order_id AS label", "tpa_id", "document AS payload"),
    *("'Purchasing' AS service_interface", "'NewOrder' AS action"),
)
WAITING = "Waiting for data to arrive"  # Spark's words


def main(plan: Path) -> None:
    spark = open_session("MSH audit: streams")
    queries: dict[str, dict[str, Any]] = json.loads(plan.read_text())
    writers = {name: _MADE[query["kind"]](spark, query) for name, query in queries.items()}
    running = {name: _begun(writer) for name, writer in writers.items()}
    failed: dict[str, str] = {}
    while len(failed) < len(running):
        for name, query in running.items():
            if name not in failed and (found := _failure(query, seconds=1)) is not None:
                failed[name] = found
    plan.with_suffix(".failed").write_text(json.dumps(failed))
    spark.stop()


def _begun(writer: DataStreamWriter) -> StreamingQuery:
    """The query, when its first micro-batch is done, or there is none yet.

    Spark gives the worker that plans a stream ten seconds to begin, which nothing sets: too short
    for a busy machine, and no failure. Queries that begin together would be late together.
    """
    while True:
        query = writer.start()
        while query.lastProgress is None and query.status["message"] != WAITING:
            if (failed := _failure(query, seconds=1)) is not None:
                break
        else:
            return query
        if "failed to connect back" not in failed:
            return query


def _failure(query: StreamingQuery, seconds: int) -> str | None:
    """What it failed with, empty if it has ended; None if it still runs after so long."""
    try:
        return "" if query.awaitTermination(timeout=seconds) else None
    except StreamingQueryException as failed:
        return str(failed)


def _sink(spark: SparkSession, query: dict[str, Any]) -> DataStreamWriter:
    """Each file is one sorted partition: in order without being sorted again."""
    writer = _orders(spark, query).writeStream.format("ebxml").options(**query["options"])
    return _trigger(writer.option("orderChecked", "false"), query)


def _micro_batches(spark: SparkSession, query: dict[str, Any]) -> DataStreamWriter:
    def send(batch: DataFrame, number: int) -> None:
        writer = ordered_by_pair(batch, "order_no", 2).write.format("ebxml").mode("append")
        summary = f"{query['output']}/{number}.json"
        writer.options(**query["options"]).option("summaryPath", summary).save()

    Path(query["output"]).mkdir(exist_ok=True)
    return _trigger(_orders(spark, query).writeStream.foreachBatch(send), query)


def _feed(spark: SparkSession, query: dict[str, Any]) -> DataStreamWriter:
    def keep(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(f"{query['output']}/batch={number}")

    feed = spark.readStream.format("ebxml").options(**query["options"]).load()
    return _trigger(feed.writeStream.foreachBatch(keep), query)


def _orders(spark: SparkSession, query: dict[str, Any]) -> DataFrame:
    files = spark.readStream.schema(ORDER).option("maxFilesPerTrigger", 1)
    return files.parquet(query["source"]).selectExpr(*MESSAGE)


def _trigger(writer: DataStreamWriter, query: dict[str, Any]) -> DataStreamWriter:
    writer = writer.option("checkpointLocation", query["checkpoint"])
    return writer.trigger(availableNow=True) if query["ends"] else writer


_MADE = {"sink": _sink, "micro_batches": _micro_batches, "feed": _feed}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
