"""A driver of its own: `python -m tests.spark.streaming_driver FOLDER OPTIONS`. It writes what is
dropped into FOLDER/incoming until it is killed. Nothing of Django here."""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_bridge.session import open_session

SCHEMA = "order_no long, tpa_id string, service_interface string, action string, payload string"


def stream(spark: SparkSession, folder: Path, options: dict[str, str]) -> DataStreamWriter:
    """The query, a file a micro-batch, with its checkpoint in the folder."""
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    orders: DataFrame = files.json(str(folder / "incoming"))
    return (
        orders.withColumn("label", col("order_no").cast("string"))
        .writeStream.format("ebxml")
        .options(**options, keyColumns="tpa_id,order_no", jobId="stream", batchSize="10")
        .option("checkpointLocation", str(folder / "checkpoint"))
    )


if __name__ == "__main__":
    session = open_session("streaming driver")
    stream(session, Path(sys.argv[1]), json.loads(sys.argv[2])).start().awaitTermination()
