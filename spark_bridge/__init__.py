"""Spark and the MSH, over its REST API: pyspark and the standard library only."""
