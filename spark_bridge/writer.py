"""What a task does with its rows, and the driver with what the tasks did: batch and stream."""

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from spark_bridge.client import Client
from spark_bridge.files import file_system
from spark_bridge.message import Layout, Line
from spark_bridge.options import WriteOptions
from spark_bridge.rejected import RejectedRows, micro_batches, publish, sweep

if TYPE_CHECKING:
    from pyarrow import RecordBatch

REQUEST_BYTES = 4 * 1024 * 1024
"""A request that has so much is sent, however few its lines: memory of a task is bounded."""
REASONS_SHOWN = 3  # in the error of a task; rejectedPath has all
_MICRO_BATCH = ("sql.streaming.queryId", "streaming.sql.batchId")
"""Properties of a task. The id of a query is that of its checkpoint: a restart keeps it."""


class RowsRefused(Exception):
    """Rows were refused, and option rejectedPath does not say where they should go."""


class OrderLost(Exception):
    """The rows of a pair did not come in the order of option orderColumn."""


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task did with its rows."""

    partition: int
    accepted: int
    known: int
    """Already there, with the same content: from an earlier attempt, or an earlier job."""
    rejected: int
    requests: int
    repeated: int
    """Of the requests: sent again."""
    pairs: frozenset[str]
    """With option orderColumn: the pairs whose rows it had."""
    rejected_file: str
    """Hidden, and the name that the commit gives it. Empty: there is none."""
    rejected_name: str
    run: str
    """What its hidden file belongs to: of a stream, `QUERY-MICRO_BATCH`."""


class _Writing:
    """The two writers' common part. Pickled to the executors."""

    def __init__(self, options: WriteOptions, layout: Layout) -> None:
        self.options = options
        self.layout = layout
        self._run = uuid.uuid4().hex
        """The same for all attempts of all tasks of a batch."""

    def write(self, iterator: "Iterator[RecordBatch]") -> Written:
        """Returns when every row is in the MSH, or among the rejected. Raises RowsRefused,
        OrderLost, ApiRefused or ApiUnavailable."""
        context = TaskContext.get()
        part = self._part()
        run = part or self._run
        with (
            Client(self.options.server) as client,
            RejectedRows(self.options.rejected_path, run) as rejected,
        ):
            task = _Task(self.options, client, rejected)
            order = _Order(self.options.order_column, self.layout.pair)
            for request in _requests(order.watched(self._lines(iterator)), self.options.batch_size):
                task.send(request)
            partition = context.partitionId() if context else 0
            name = f"{part or rejected.digest}-{partition:05d}.json"
            return task.written(partition, order.pairs, name, run)

    def _part(self) -> str:
        """Of a stream: what the names of its files of refused rows begin with. Those of a batch
        begin with a digest of the rows: a job that is run again writes the same files."""
        return ""

    def _lines(self, batches: "Iterator[RecordBatch]") -> Iterator[Line]:
        return chain.from_iterable(map(self.layout.lines, batches))

    def publish(self, messages: Iterable[WriterCommitMessage | None]) -> list[Written]:
        written = written_of(messages)
        _require_one_task_a_pair(written)
        for each in written:
            if each.rejected_file:
                publish(self.options.rejected_path, each.rejected_file, each.rejected_name)
        return written


class BatchWriter(_Writing, DataSourceArrowWriter):
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = self.publish(messages)
        self._tidy()
        if self.options.summary_path:
            _write_summary(self.options.summary_path, written)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._tidy()

    def _tidy(self) -> None:
        """Remove what attempts that were killed, or not needed, have refused. What they have handed
        over stays: the next attempt finds it known."""
        if self.options.rejected_path:
            sweep(self.options.rejected_path, [self._run])


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """A micro-batch that is run again writes the same ids: neither its number nor the query's
    is part of them. Its file of refused rows replaces the earlier one, and no other's."""

    def _part(self) -> str:
        context = TaskContext.get()
        values = [context and context.getLocalProperty(name) for name in _MICRO_BATCH]
        if not all(values):
            raise RuntimeError(
                f"Spark does not give a task of a stream {' and '.join(_MICRO_BATCH)}."
            )
        return "-".join(map(str, values))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._tidy(self.publish(messages), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._tidy(written_of(messages), batchId)

    def _tidy(self, written: list[Written], batch: int) -> None:
        """The same for a micro-batch, and those before it. Spark makes a writer of its own for a
        commit: which query it is, only the tasks know."""
        if self.options.rejected_path:
            for query in {each.run.rpartition("-")[0] for each in written}:
                left = micro_batches(self.options.rejected_path, query, batch)
                sweep(self.options.rejected_path, left)


class _Task:
    """One attempt of one task: sends requests and counts."""

    def __init__(self, options: WriteOptions, client: Client, rejected: RejectedRows) -> None:
        self._options = options
        self._client = client
        self._rejected = rejected
        self._counts = {"accepted": 0, "known": 0, "refused": 0}
        self._requests = 0

    def send(self, lines: list[Line]) -> None:
        sound = [line for line in lines if not line.refused]
        refused = [(line, line.refused) for line in lines if line.refused]
        if sound:
            self._requests += 1
            texts = [line.text for line in sound]
            answers = self._client.submit(texts, compress=self._options.gzip)
            for line, answer in zip(sound, answers, strict=True):
                self._counts[answer["result"]] += 1
                if answer["result"] == "refused":
                    refused.append((line, answer["reason"]))
        self._set_aside(refused)
        self._counts["refused"] += len(lines) - len(sound)

    def _set_aside(self, refused: list[tuple[Line, str]]) -> None:
        if refused and not self._options.rejected_path:
            reasons = "; ".join(
                f"{_named(line)}: {reason}" for line, reason in refused[:REASONS_SHOWN]
            )
            more = (
                f" and {len(refused) - REASONS_SHOWN} more" if len(refused) > REASONS_SHOWN else ""
            )
            raise RowsRefused(
                f"Rows refused: {reasons}{more}. Fix them, or use option rejectedPath."
            )
        for line, reason in refused:
            self._rejected.add(line, reason)

    def written(
        self, partition: int, pairs: frozenset[str], rejected_name: str, run: str
    ) -> Written:
        return Written(
            partition=partition,
            accepted=self._counts["accepted"],
            known=self._counts["known"],
            rejected=self._counts["refused"],
            requests=self._requests,
            repeated=self._client.repeated,
            pairs=pairs,
            rejected_file=self._rejected.file,
            rejected_name=rejected_name,
            run=run,
        )


class _Order:
    """Lets rows through as long as those of each pair come in order. Those that are equal in the
    column have none: they may change places from one attempt to the next."""

    def __init__(self, column: str, pair: str) -> None:
        self._column = column
        self._pair = pair
        self._last: dict[str, Any] = {}

    @property
    def pairs(self) -> frozenset[str]:
        return frozenset(self._last)

    def watched(self, lines: Iterator[Line]) -> Iterator[Line]:
        return map(self._look, lines) if self._column else lines

    def _look(self, line: Line) -> Line:
        place, pair = line.row[self._column], line.row[self._pair]
        if line.refused:
            return line
        if pair in self._last and place < self._last[pair]:
            raise OrderLost(
                f"{self._column} is {place!r} after {self._last[pair]!r}, of {self._pair} {pair}:"
                f" write what spark_bridge.ordered_by_pair(df, {self._column!r}) returns."
            )
        self._last[pair] = place
        return line


def _requests(lines: Iterator[Line], most: int) -> Iterator[list[Line]]:
    """Of at most `most` lines, and of no more bytes than one line beyond REQUEST_BYTES."""
    request: list[Line] = []
    size = 0
    for line in lines:
        if request and size + len(line.text) > REQUEST_BYTES:
            yield request
            request, size = [], 0
        request.append(line)
        size += len(line.text)
        if len(request) == most:
            yield request
            request, size = [], 0
    if request:
        yield request


def written_of(messages: Iterable[WriterCommitMessage | None]) -> list[Written]:
    return [each for each in messages if isinstance(each, Written)]


def _require_one_task_a_pair(written: list[Written]) -> None:
    seen: set[str] = set()
    for each in written:
        if doubled := seen & each.pairs:
            raise OrderLost(
                f"Several tasks wrote rows of {min(doubled)}, at the same time: they may be out of"
                " order. Write what spark_bridge.ordered_by_pair() returns."
            )
        seen |= each.pairs


def _write_summary(path: str, written: list[Written]) -> None:
    counted = ("accepted", "known", "rejected", "requests", "repeated")
    summary = {name: sum(getattr(each, name) for each in written) for name in counted}
    files, path = file_system(path)
    with files.open_output_stream(path) as stream:
        stream.write(json.dumps(summary).encode() + b"\n")


def _named(line: Line) -> str:
    return line.message_id[:300] or "a row without id"
