"""The feeds of received messages and of events, and the outbound statuses, as rows: batch and
stream."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pyarrow
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_bridge.client import ApiRefused, Client
from spark_bridge.compat import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from spark_bridge.feed import FEWEST_MARKS, MARK_EVERY, Feed, Stretch, pages
from spark_bridge.options import ReadOptions
from spark_bridge.rows import PAYLOADS, Batches
from spark_bridge.selection import END, OF_FEED, Selection

BATCH_BYTES = 16 * 1024 * 1024
"""Of payloads that are asked for one by one: a batch that has so many is handed over."""


class FeedReader(DataSourceReader):
    """A feed as it is when the job starts, in `numPartitions` stretches."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._batches = Batches(schema)
        self._selection = Selection(OF_FEED[options.feed], options.filters)
        self.pushFilters = self._selection.push_filters  # type: ignore[method-assign]

    def partitions(self) -> Sequence[Stretch]:
        options = self._options
        with Feed(options, self._selection) as feed:
            start, last = feed.start_and_end()
            until = max(start, min(last, END if options.end is None else options.end))
            given = isinstance(options.start, int)
            found = feed.stretches(start, until, given=given, at_most=options.partitions)
        # Never none: Spark would make up a partition of its own.
        return found or [Stretch(start, start, 0, options.server)]

    def read(self, partition: Stretch) -> Iterator[pyarrow.RecordBatch]:  # type: ignore[override]
        return _read_stretch(self._options, self._selection, self._batches, partition)


class FeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A feed from where the options say, or where the checkpoint says, and on."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._batches = Batches(schema)
        self._selection = Selection(OF_FEED[options.feed], options.filters)
        self._end: int | None = None
        """Of a query that ends with what there was when it began."""

    def initialOffset(self) -> dict[str, int]:
        with self._feed() as feed:
            start, _ = feed.start_and_end()
        asked = {"position": start}
        return asked if isinstance(self._options.start, int) else asked | _NOT_GIVEN

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        with self._feed() as feed:
            self._end = feed.last()

    def latestOffset(
        self, start: dict[str, int] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, int]:
        """As far as `limit` allows, by one request. Before Spark 4.2 there are neither arguments
        nor limits."""
        with self._feed() as feed:
            if start is None or not isinstance(limit, ReadMaxRows):
                return _later(start, feed.last() if self._end is None else self._end)
            if self._end is not None and self._end <= start["position"]:
                return start
            marks = feed.marks(
                start["position"],
                self._end,
                given=_is_given(start),
                every=FEWEST_MARKS,
                most=limit.max_rows,
            )
        return _later(start, marks.until)

    def reportLatestOffset(self) -> dict[str, int]:
        """The last position that there is, for the progress of the query. A position is the
        microsecond at which it was given: what lies between two of them is a time, as a rule."""
        with self._feed() as feed:
            return {"position": feed.last()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Stretch]:
        if start["position"] == end["position"]:
            return []
        with self._feed() as feed:
            return feed.stretches(start["position"], end["position"], given=_is_given(start))

    def read(self, partition: Stretch) -> Iterator[pyarrow.RecordBatch]:  # type: ignore[override]
        return _read_stretch(self._options, self._selection, self._batches, partition)

    def _feed(self) -> Feed:
        return Feed(self._options, self._selection)


_NOT_GIVEN = {"given": 0}
"""Of an offset that is no position of a message."""


def _is_given(offset: dict[str, int]) -> bool:
    return offset.get("given", 1) == 1


def _later(start: dict[str, int] | None, position: int) -> dict[str, int]:
    """An offset that has not moved stays the same to the letter: by that Spark knows it."""
    moved = start is None or position > start["position"]
    return {"position": position} if moved else dict(start or {})


@dataclass(frozen=True)
class IdRange(InputPartition):
    """Messages with ids behind `after`, up to `until`."""

    after: int
    until: int


class StatusReader(DataSourceReader):
    """What became of the messages that were sent, by the filters of the options; in `numPartitions`
    ranges of ids, up to the last one that there is when the job starts."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._batches = Batches(schema)
        self._selection = Selection(OF_FEED[options.feed], options.filters)
        self.pushFilters = self._selection.push_filters  # type: ignore[method-assign]

    def partitions(self) -> Sequence[IdRange]:
        chosen = self._selection
        marks: list[int] = []
        after, more = chosen.after, chosen.after < chosen.up_to
        with Client(self._options.server) as client:
            while more:
                asked = {"after": after, "up_to": chosen.up_to, "every": MARK_EVERY}
                answer = client.get("message-marks", **asked, **chosen.query)
                marks += answer["marks"]
                after, more = answer["last"], answer["more"]
        step = -(-len(marks) // self._options.partitions) or 1
        ends = [*marks[step - 1 : -1 : step], marks[-1] if marks else chosen.after]
        return [IdRange(*each) for each in pairwise([chosen.after, *ends])]

    def read(self, partition: IdRange) -> Iterator[pyarrow.RecordBatch]:  # type: ignore[override]
        described = PAYLOADS.name in self._batches.names
        with Client(self._options.server) as client:
            after: int | None = partition.after
            while after is not None and after < partition.until:
                page = client.get(
                    "messages",
                    after=after,
                    up_to=partition.until,
                    limit=self._options.page_size,
                    order="id",
                    payloads="true" if described else None,
                    **self._selection.query,
                )
                for rows in self._with_content(client, page["results"]):
                    yield self._batches.batch(rows)
                after = page["next"]

    def _with_content(
        self, client: Client, rows: list[dict[str, Any]]
    ) -> Iterator[list[dict[str, Any]]]:
        """The rows, with the content of their payloads if it was asked for, in as many parts as
        there is memory for."""
        if not self._options.payloads or PAYLOADS.name not in self._batches.names:
            yield from filter(None, [rows])
            return
        part: list[dict[str, Any]] = []
        size = 0
        for row in rows:
            part.append(row | {"payloads": [_fetched(client, row, p) for p in row["payloads"]]})
            size += row["size"]
            if size >= BATCH_BYTES:
                yield part
                part, size = [], 0
        yield from filter(None, [part])


def _fetched(client: Client, row: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with its content, unless it was removed, perhaps a moment ago."""
    if payload["removed"]:
        return payload
    path = f"messages/{quote(row['message_id'], safe='')}/payloads/{payload['number']}"
    try:
        return payload | {"content": client.get_bytes(path, partner=row["partner"])}
    except ApiRefused as refused:
        if refused.status == HTTPStatus.GONE:
            return payload | {"removed": True}
        raise


def _read_stretch(
    options: ReadOptions, selection: Selection, batches: Batches, stretch: Stretch
) -> Iterator[pyarrow.RecordBatch]:
    content = options.payloads is not False and PAYLOADS.name in batches.names
    with closing(pages(options, selection, stretch, payloads=content)) as found:
        yield from map(batches.batch, found)
