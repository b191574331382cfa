"""What a task does with its rows, and the driver with what the tasks did: batch and stream."""

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_bridge.client import ApiRefused, Client
from spark_bridge.compat import DataSourceStreamArrowWriter
from spark_bridge.files import file_system
from spark_bridge.message import Layout, Line
from spark_bridge.options import WriteOptions
from spark_bridge.rejected import RejectedRows, micro_batches, publish, sweep

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_Request = TypeVar("_Request")

REQUEST_BYTES = 4 * 1024 * 1024
"""A request that has so much is sent, however few its lines: memory of a task is bounded."""
BEHIND, CLOSED = "behind_refused", "closed"  # codes, as the MSH has them
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

    accepted: int
    known: int
    """Already there, with the same content: from an earlier attempt, or an earlier job."""
    rejected: int
    not_sent: int
    """Behind a refused row of their pair: option onRefused."""
    closed: int
    """Their partner takes nothing for now: option onClosed."""
    requests: int
    repeated: int
    """Of the requests: sent again."""
    codes: tuple[tuple[str, int], ...]
    """Refused rows by the code of the refusal; those that were refused here have none."""
    pairs: frozenset[str]
    """With option orderColumn: the pairs whose rows it had."""
    run: str
    """Which job's or micro-batch's files of refused rows it wrote."""
    rejected_file: str
    """Hidden. Empty: there is none."""
    rejected_digest: int


COUNTS = ("accepted", "known", "rejected", "not_sent", "closed", "requests", "repeated")


def counted(written: list[Written]) -> dict[str, Any]:
    """What the tasks counted, together."""
    codes = Counter[str]()
    for each in written:
        codes.update(dict(each.codes))
    sums = {name: sum(getattr(each, name) for each in written) for name in COUNTS}
    return {**sums, "codes": dict(sorted(codes.items()))}


class _Writing:
    """The two writers' common part. Pickled to the executors."""

    def __init__(self, options: WriteOptions, layout: Layout) -> None:
        self.options = options
        self.layout = layout

    def write(self, iterator: "Iterator[RecordBatch | Row]") -> Written:
        """Returns when every row is in the MSH, or among the rejected. Raises RowsRefused,
        OrderLost, PartnerClosed, ApiRefused or ApiUnavailable."""
        run = self.run()
        with (
            Client(self.options.server) as client,
            RejectedRows(self.options.rejected_path, run) as rejected,
        ):
            task = _Task(self.options, self.layout, client, rejected)
            order = _Order(self.options.order_column, self.layout.pair)
            lines = chain.from_iterable(map(self.layout.lines, iterator))
            send_each(_requests(order.watched(lines), self.options.batch_size), task.send)
            return task.written(order.pairs, run)

    def run(self) -> str:
        """The same for all attempts of all tasks."""
        raise NotImplementedError

    def publish(self, messages: Iterable[WriterCommitMessage | None]) -> list[Written]:
        written = written_of(messages)
        _require_one_task_a_pair(written)
        if parts := [each.rejected_file for each in written if each.rejected_file]:
            digest = sum(each.rejected_digest for each in written) % 2**128
            name = self.name_of_rejected(written[0].run, f"{digest:032x}")
            publish(self.options.rejected_path, written[0].run, parts, name)
        return written

    def name_of_rejected(self, run: str, digest: str) -> str:
        """Of the file of refused rows."""
        raise NotImplementedError


class BatchWriter(_Writing, DataSourceArrowWriter):
    """A job that is run again writes the same files: their names are digests of the rows."""

    def __init__(self, options: WriteOptions, layout: Layout) -> None:
        super().__init__(options, layout)
        self._run = uuid.uuid4().hex

    def run(self) -> str:
        return self._run

    def name_of_rejected(self, run: str, digest: str) -> str:
        return f"{digest}.json"

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = self.publish(messages)
        self._tidy()
        if self.options.summary_path:
            _write_json(self.options.summary_path, counted(written))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._tidy()

    def _tidy(self) -> None:
        """Remove what attempts that were killed, or not needed, have refused. What they have handed
        over stays: the next attempt finds it known."""
        if self.options.rejected_path:
            sweep(self.options.rejected_path, [self._run])


class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    """A micro-batch that is run again writes the same ids: neither its number nor the query's
    is part of them. Its file of refused rows replaces the earlier one, and no other's.

    Spark makes another writer for each commit: what it has to know comes with the tasks' messages.
    """

    def run(self) -> str:
        context = TaskContext.get()
        values = [context and context.getLocalProperty(name) for name in _MICRO_BATCH]
        if not all(values):
            raise RuntimeError(
                f"Spark does not give a task of a stream {' and '.join(_MICRO_BATCH)}."
            )
        return "-".join(map(str, values))

    def name_of_rejected(self, run: str, digest: str) -> str:
        return f"{run}.json"

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        written = self.publish(messages)
        self._tidy(written, batchId)
        if self.options.metrics_path and written:
            query, _, batch = written[0].run.rpartition("-")
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            about = {"query_id": query, "batch_id": int(batch), "committed_at": at}
            files, folder = file_system(self.options.metrics_path)
            files.create_dir(folder, recursive=True)
            place = f"{self.options.metrics_path.rstrip('/')}/{written[0].run}.json"
            _write_json(place, about | counted(written))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._tidy(written_of(messages), batchId)

    def _tidy(self, written: list[Written], batch: int) -> None:
        """The same for a micro-batch, and those before it."""
        if self.options.rejected_path:
            for query in {each.run.rpartition("-")[0] for each in written}:
                left = micro_batches(self.options.rejected_path, query, batch)
                sweep(self.options.rejected_path, left)


class _Task:
    """One attempt of one task: sends requests and counts."""

    def __init__(
        self, options: WriteOptions, layout: Layout, client: Client, rejected: RejectedRows
    ) -> None:
        self._options = options
        self._pair = layout.pair
        self._client = client
        self._rejected = rejected
        self._counts = Counter[str]()
        self._codes = Counter[str]()
        self._stopped: dict[tuple[Any, ...], str] = {}
        """Pairs with a refused row, and why nothing behind it is sent: option onRefused."""
        self._closed: dict[str, str] = {}
        """Partners, or agreements, that take nothing for now: option onClosed."""

    def send(self, lines: list[Line]) -> None:
        """Hand these over in one request, but those that are set aside. Raises RowsRefused when
        the sound ones are stored."""
        refused: list[tuple[Line, str]] = []
        sent = [line for line in lines if self._may_be_sent(line, refused)]
        if sent:
            self._counts["requests"] += 1
            answers = self._client.submit(
                [line.text for line in sent],
                compress=self._options.gzip,
                on_closed=self._options.on_closed,
                stop=self._options.stop,
            )
            for line, answer in zip(sent, answers, strict=True):
                self._judge(line, answer, refused)
        if refused and not self._options.rejected_path:
            raise RowsRefused(_reasons(refused))

    def _may_be_sent(self, line: Line, refused: list[tuple[Line, str]]) -> bool:
        if line.refused:
            self._refuse(line, line.refused, "", refused)
        elif reason := self._stopped.get(_thread(line)):
            self._set_aside("not_sent", line, reason, BEHIND)
        elif reason := self._closed.get(line.row[self._pair]):
            # Perhaps it is open again; but what was set aside has to come first.
            self._set_aside("closed", line, reason, CLOSED)
        else:
            return True
        return False

    def _judge(self, line: Line, answer: dict[str, Any], refused: list[tuple[Line, str]]) -> None:
        reason, code = answer.get("reason", ""), answer.get("code", "")
        match answer["result"]:
            case "accepted" | "known" as result:
                self._counts[result] += 1
            case "refused":
                self._refuse(line, reason, code, refused)
            case "not_sent":
                self._set_aside("not_sent", line, reason, code)
            case "not_now":
                self._closed[line.row[self._pair]] = reason
                self._set_aside("closed", line, reason, code)
            case other:
                raise ApiRefused(200, f"The MSH says {other!r} of a message: update msh-spark.")

    def _refuse(self, line: Line, reason: str, code: str, refused: list[tuple[Line, str]]) -> None:
        refused.append((line, reason))
        self._codes[code] += bool(code)
        if self._options.stop:
            behind = f"behind the refused row {_named(line)} of its pair: correct that one first"
            self._stopped.setdefault(_thread(line), behind)
        self._set_aside("rejected", line, reason, code)

    def _set_aside(self, count: str, line: Line, reason: str, code: str) -> None:
        self._counts[count] += 1
        if self._options.rejected_path:
            self._rejected.add(line, reason, code)

    def written(self, pairs: frozenset[str], run: str) -> Written:
        return Written(
            **{name: self._counts[name] for name in COUNTS if name != "repeated"},
            repeated=self._client.repeated,
            codes=tuple(sorted((+self._codes).items())),
            pairs=pairs,
            run=run,
            rejected_file=self._rejected.file,
            rejected_digest=self._rejected.digest,
        )


def _thread(line: Line) -> tuple[Any, ...]:
    """What the MSH keeps in order: the messages to a partner under an agreement."""
    return line.row.get("partner"), line.row["tpa_id"]


def _reasons(refused: list[tuple[Line, str]]) -> str:
    reasons = "; ".join(f"{_named(line)}: {reason}" for line, reason in refused[:REASONS_SHOWN])
    more = f" and {len(refused) - REASONS_SHOWN} more" if len(refused) > REASONS_SHOWN else ""
    return f"Rows refused: {reasons}{more}. Fix them, or use option rejectedPath."


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


def send_each(requests: Iterator[_Request], send: Callable[[_Request], None]) -> None:
    """Send one after the other, each when the one before was answered; the next one is built
    meanwhile. Raises what either raises, when nothing is under way any more."""
    with ThreadPoolExecutor(1) as sender:
        under_way: Future[None] | None = None
        for request in requests:
            if under_way is not None:
                under_way.result()
            under_way = sender.submit(send, request)
        if under_way is not None:
            under_way.result()


def written_of(messages: Iterable[WriterCommitMessage | None]) -> list[Written]:
    return [each for each in messages if isinstance(each, Written)]


def _require_one_task_a_pair(written: list[Written]) -> None:
    seen: set[str] = set()
    for each in written:
        if doubled := seen & each.pairs:
            raise OrderLost(
                f"Several tasks wrote rows of {min(doubled)}, at the same time: they may be out of"
                " order, and they are stored. Write what spark_bridge.ordered_by_pair() returns."
            )
        seen |= each.pairs


def _write_json(path: str, document: dict[str, Any]) -> None:
    files, path = file_system(path)
    with files.open_output_stream(path) as stream:
        stream.write(json.dumps(document).encode() + b"\n")


def _named(line: Line) -> str:
    return line.message_id[:300] or "a row without id"
