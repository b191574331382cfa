"""The source of the loads: documents multiplied to N orders, each with an id of its own.

They are in a folder for each wave.

A job of its own, `python -m demo.audit.rows DOCUMENTS OUTPUT ROWS PARTNERS`.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import Window
from pyspark.sql import functions as f

from spark_bridge.session import open_session

from .options import waves

FILES = 8
"""Of Parquet in each wave, with orders in no order; but a stream gets file after file, sorted."""


def main(documents: str, output: str, rows: int, partners: int) -> None:
    spark = open_session("MSH audit: rows")
    window = f.row_number().over(Window.orderBy("path"))
    files = spark.read.format("binaryFile").load(documents).select("content", window.alias("nth"))
    count = files.count()
    orders = spark.range(1, rows + 1).withColumnRenamed("id", "order_no")
    comment = f.concat(f.lit("\n<!-- order "), f.col("order_no").cast("string"), f.lit(" -->\n"))
    made = (
        orders.join(f.broadcast(files), f.expr(f"nth = order_no % {count} + 1"))
        .withColumn("order_id", f.format_string("order-%09d", "order_no"))
        .withColumn("tpa_id", f.format_string("tpa-pair-%d", f.expr(f"order_no % {partners} + 1")))
        .withColumn("document", f.concat("content", comment.cast("binary")))
        .select("order_no", "order_id", "tpa_id", "document")
    )
    for name, numbers in waves(rows).items():
        wave = made.where(f.col("order_no").between(numbers.start, numbers.stop - 1))
        if name == "stream":
            spread = wave.repartitionByRange(FILES, "order_no").sortWithinPartitions("order_no")
        else:
            spread = wave.repartition(FILES)
        spread.write.mode("overwrite").parquet(f"{output}/{name}")
    for age, file in enumerate(sorted(Path(output, "stream").glob("part-*"))):
        os.utime(file, (age, age))  # a stream takes the oldest first
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
