"""Spark and the MSH, over its REST API: pyspark and the standard library only.

    spark.dataSource.register(EbxmlDataSource)
    spark.read.format("ebxml").option("url", "https://msh.example").option("tokenFile", ...)

How to use it: docs/spark.md.
"""

from spark_bridge.order import ordered_by_pair
from spark_bridge.output import read_runs
from spark_bridge.source import EbxmlDataSource

__all__ = ["EbxmlDataSource", "ordered_by_pair", "read_runs"]
