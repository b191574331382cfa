"""Where Spark looks for format `ebxml`: it imports each package whose name begins with `pyspark_`,
so an installed wheel needs no `spark.dataSource.register`."""

from spark_bridge import EbxmlDataSource as DefaultSource

__all__ = ["DefaultSource"]
