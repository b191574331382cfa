"""What Spark 4.0 to 4.2 do not have yet, so that one source serves all of them."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql.pandas import types
from pyspark.sql.types import StructType

try:  # 4.1
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    from pyspark.sql.datasource import (  # type: ignore[assignment]
        DataSourceStreamWriter as DataSourceStreamArrowWriter,
    )

try:  # 4.2
    from pyspark.sql.streaming.datasource import (
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:

    class ReadLimit:  # type: ignore[no-redef]
        """Older Spark asks for the latest offset without a limit."""

    @dataclass(frozen=True)
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass


__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
]


def arrow_schema(schema: StructType) -> Any:
    """A pyarrow.Schema, its times in UTC."""
    try:
        return types.to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # before 4.3 there is no other zone
        return types.to_arrow_schema(schema)
