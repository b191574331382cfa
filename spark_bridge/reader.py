"""The inbound feed and the outbound statuses as rows: batch and stream."""

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise, takewhile
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_bridge.client import Client
from spark_bridge.options import ReadOptions

MARK_EVERY = 1000
"""Messages: the most that a page of the feed holds."""
_HEADER = (
    StructField("message_id", StringType(), nullable=False),
    StructField("partner", StringType(), nullable=False),
    StructField("tpa_id", StringType()),
    StructField("state", StringType(), nullable=False),
    StructField("semantics", StringType()),
    StructField("service_interface", StringType()),
    StructField("action", StringType()),
    StructField("conversation_id", StringType()),
    StructField("ref_to_message_id", StringType()),
    StructField("sequence_number", LongType()),
    StructField("epoch", IntegerType()),
    StructField("order_number", LongType()),
    StructField("from_role", StringType()),
    StructField("to_role", StringType()),
    StructField("service_type", StringType()),
    StructField("size", LongType()),
)
_PAYLOAD = StructType(
    [
        StructField("number", IntegerType()),
        StructField("content_type", StringType()),
        StructField("label", StringType()),
        StructField("description", StringType()),
        StructField("size", LongType()),
        StructField("content", BinaryType()),
    ]
)
INBOUND = StructType(
    [
        StructField("position", LongType(), nullable=False),
        StructField("id", LongType(), nullable=False),
        *_HEADER,
        StructField("received_at", TimestampType()),
        StructField("payloads", ArrayType(_PAYLOAD)),
    ]
)
"""`GET inbound`. Sizes in bytes; `content` is null with option payloads false."""
OUTBOUND = StructType(
    [
        StructField("id", LongType(), nullable=False),
        *_HEADER,
        StructField("submitted_at", TimestampType()),
        StructField("ended_at", TimestampType()),
        StructField("attempts", IntegerType()),
    ]
)
"""`GET messages`."""


@dataclass(frozen=True)
class Stretch(InputPartition):
    """A stretch of the feed: behind `after`, up to `until`."""

    after: int
    until: int


class FeedReader(DataSourceReader):
    """The feed as it is when the job starts, in `numPartitions` stretches."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[Stretch]:
        with Client(self._options.server) as client:
            marks = list(_marks(client, self._options.position))
        step = -(-len(marks) // self._options.partitions) or 1
        # Never none: Spark would make up a partition of its own.
        ends = [*marks[step - 1 : -1 : step], marks[-1] if marks else self._options.position]
        return [Stretch(*each) for each in pairwise([self._options.position, *ends])]

    def read(self, partition: Stretch) -> Iterator[pyarrow.RecordBatch]:  # type: ignore[override]
        return _read_stretch(self._options, partition)


class FeedStreamReader(DataSourceStreamReader):
    """The feed from option startingPosition, or where the checkpoint says, and on."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def initialOffset(self) -> dict[str, int]:
        return {"position": self._options.position}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.per_trigger)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """As far as `limit` allows; availableNow sets none."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with Client(self._options.server) as client:
            marks = [start["position"], *_marks(client, start["position"], most)]
        return {"position": marks[-1]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Stretch]:
        if start == end:
            return []
        with Client(self._options.server) as client:
            behind_start = _marks(client, start["position"])
            marks = list(takewhile(lambda mark: mark < end["position"], behind_start))
        stretches = pairwise([start["position"], *marks, end["position"]])
        return [Stretch(after, until) for after, until in stretches]

    def read(self, partition: Stretch) -> Iterator[pyarrow.RecordBatch]:  # type: ignore[override]
        return _read_stretch(self._options, partition)


class StatusReader(DataSourceReader):
    """What became of the messages that were sent, by the filters of the options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        with Client(self._options.server) as client:
            after: object = None
            while True:
                page = client.get(
                    "messages",
                    after=after,
                    limit=self._options.page_size,
                    order="id",
                    **dict(self._options.filters),
                )
                if page["results"]:
                    yield _record_batch(page["results"], OUTBOUND)
                after = page["next"]
                if after is None:
                    return


def _marks(client: Client, after: int, most: int | None = None) -> Iterator[int]:
    """Positions in the feed behind `after`, up to 1,000 messages between two of them; the last is
    of the last message there is, or of the `most`th. A page that is not full ends it: without
    content only the end of the feed makes one, and a reader that went on would follow what comes
    in meanwhile."""
    while most is None or most > 0:
        limit = MARK_EVERY if most is None else min(MARK_EVERY, most)
        page = client.get("inbound", after=after, limit=limit, payloads="false")
        if page["results"]:
            after = page["next"]
            yield after
        if len(page["results"]) < limit:
            return
        most = None if most is None else most - limit


def _read_stretch(options: ReadOptions, stretch: Stretch) -> Iterator[pyarrow.RecordBatch]:
    payloads = "true" if options.payloads else "false"
    after = stretch.after
    with Client(options.server) as client:
        while after < stretch.until:
            page = client.get("inbound", after=after, limit=options.page_size, payloads=payloads)
            rows = [row for row in page["results"] if row["position"] <= stretch.until]
            if not rows:  # pruned since the stretches were made
                return
            yield _record_batch(rows, INBOUND)
            after = page["next"]


def _record_batch(rows: list[dict[str, Any]], schema: StructType) -> pyarrow.RecordBatch:
    arrow = to_arrow_schema(schema, timezone="UTC")
    return pyarrow.RecordBatch.from_pylist([_values(row) for row in rows], schema=arrow)


def _values(row: dict[str, Any]) -> dict[str, Any]:
    """JSON's texts as times and bytes."""
    changed: dict[str, Any] = {
        name: datetime.fromisoformat(row[name])
        for name in ("received_at", "submitted_at", "ended_at")
        if row.get(name)
    }
    if "payloads" in row:
        changed["payloads"] = [_payload(payload) for payload in row["payloads"]]
    return row | changed


def _payload(payload: dict[str, Any]) -> dict[str, Any]:
    content = payload.get("content_base64")
    return payload | {"content": None if content is None else base64.b64decode(content)}
