"""Queries of Spark that end, or fail with what they were doing."""

import pytest
from pyspark.sql.streaming.query import StreamingQuery

PATIENCE = 300  # seconds: on a busy machine each micro-batch starts processes for a long time


def finish(query: StreamingQuery) -> StreamingQuery:
    """Wait until a query that ends by itself has ended. `awaitTermination` alone waits for ever.
    Raises what the query raised."""
    if not query.awaitTermination(PATIENCE):
        pytest.fail(f"the query goes on: {query.status}, last: {query.lastProgress}")
    return query
