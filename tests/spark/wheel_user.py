"""What a user of the wheels does: `python wheel_user.py FOLDER OPTIONS TPA_ID PAGE`. The example
of PAGE writes, then messages are read, by a batch and by a stream, and written by a stream."""

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession


def main(folder: Path, options: dict[str, str], tpa_id: str, page: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    orders = spark.createDataFrame(
        [(n, tpa_id, f"<Order no='{n}'/>") for n in (3, 1, 2)],
        "order_no long, tpa_id string, payload string",
    ).selectExpr("*", "'Orders' AS service_interface", "'New' AS action")
    exec(_example(page, options, folder), {"spark": spark, "orders": orders})

    statuses = spark.read.format("ebxml").options(**options, feed="outbound").load()
    sent = [row.order_no for row in statuses.selectExpr("conversation_id AS order_no").collect()]

    query = (
        spark.readStream.format("ebxml")
        .options(**options)
        .load()
        .writeStream.format("json")
        .option("checkpointLocation", str(folder / "read"))
        .option("path", str(folder / "received"))
    )
    query.trigger(availableNow=True).start().awaitTermination()

    orders.write.json(str(folder / "orders"))
    stream = (
        spark.readStream.schema(orders.schema)
        .json(str(folder / "orders"))
        .writeStream.format("ebxml")
        .options(**options, keyColumns="order_no", jobId="stream")
        .option("metricsPath", str(folder / "metrics"))
        .option("checkpointLocation", str(folder / "written"))
    )
    stream.trigger(availableNow=True).start().awaitTermination()

    received = spark.read.format("ebxml").options(**options).load()
    (metrics,) = spark.read.json(str(folder / "metrics")).collect()
    counts = {
        "spark": spark.version,
        "django": find_spec("django") is not None,
        "sent": len(sent),
        "received": received.count(),
        "streamed": sum(1 for file in (folder / "received").glob("*.json") for _ in file.open()),
        "metrics": metrics.asDict(recursive=True),
    }
    (folder / "counts.json").write_text(json.dumps(counts))
    spark.stop()


def _example(page: Path, options: dict[str, str], folder: Path) -> str:
    section = page.read_text().partition("\n## Writing\n")[2]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found
    return (
        found[1]
        .replace("https://msh.example", options["url"])
        .replace("/run/secrets/msh", options["tokenFile"])
        .replace("/data/rejected", str(folder / "rejected"))
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
