"""The source of the load: documents multiplied to N orders, each with an id of its own.

A job of its own, `python -m demo.audit.rows DOCUMENTS OUTPUT ROWS PARTNERS`.
"""

import sys

from pyspark.sql import Window
from pyspark.sql import functions as f

from spark_bridge.session import open_session

FILES = 16
"""Of Parquet, each a part of the orders that has nothing to do with their order."""


def main(documents: str, output: str, rows: int, partners: int) -> None:
    spark = open_session("MSH audit: rows")
    window = f.row_number().over(Window.orderBy("path"))
    files = spark.read.format("binaryFile").load(documents).select("content", window.alias("nth"))
    count = files.count()
    orders = spark.range(1, rows + 1).withColumnRenamed("id", "order_no")
    comment = f.concat(f.lit("\n<!-- order "), f.col("order_no").cast("string"), f.lit(" -->\n"))
    (
        orders.join(f.broadcast(files), f.expr(f"nth = order_no % {count} + 1"))
        .withColumn("order_id", f.format_string("order-%09d", "order_no"))
        .withColumn("tpa_id", f.format_string("tpa-pair-%d", f.expr(f"order_no % {partners} + 1")))
        .withColumn("document", f.concat("content", comment.cast("binary")))
        .select("order_no", "order_id", "tpa_id", "document")
        .repartition(FILES)
        .write.mode("overwrite")
        .parquet(output)
    )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
