"""Archive: messages to Parquet by date, with their payloads, before retention removes them.

    spark-submit spark_bridge/archive.py --url https://msh.example --token-file token \\
        --output /data/archive --until 2026-11-01

Messages of before that day (UTC, by the clock of the MSH; it has to have lasted ten minutes) which
are final, and which no earlier run has: sent ones by their end, received ones by their receipt. One
that was not final yet comes with a later run. What was written is read back before it counts: the
number of messages and a hash of their headers against the MSH, asked a second time; the bytes of
each payload against the SHA-256 that the MSH has kept of it since it came. Payloads that retention
had removed before are counted: exit status 1. spark_bridge.read_runs(spark, "/data/archive") reads
the archive.
"""

import sys
from argparse import ArgumentParser, Namespace
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from spark_bridge.client import Client
from spark_bridge.failures import JobFailed
from spark_bridge.feed import ask
from spark_bridge.job import Summary, add_server, parser_of, run, server_options
from spark_bridge.options import read_options
from spark_bridge.output import Output

ENDED = ("acknowledged", "sent", "failed", "cancelled")
FINAL = ("delivered", "rejected", "forwarded")
"""Of received messages: nothing happens to them any more. Retention removes no others."""
COMMITTED_WITHIN = timedelta(minutes=10)
"""The database notes the end of a message some moments before others see it, and its clock is
another one than the web process's."""
_KEY = ("direction", "date", "partner", "tpa_id", "message_id", "sequence_number", "epoch", "size")


def main(words: list[str] | None = None) -> int:
    return run(archive, _parser().parse_args(words), "MSH archive")


class Reached(NamedTuple):
    """How far the runs have come."""

    day: str = "1970-01-01"
    """Sent messages that ended before it are in the archive."""
    position: int = 0
    """Received messages up to it are; of those behind it, the ones that were final."""
    last: int = 0
    """The last one that there was."""
    left: int = 0
    """How many of them were not archived."""


def archive(spark: SparkSession, arguments: Namespace) -> Summary:
    output, until = Output(spark, arguments.output), arguments.until
    earlier = Reached(**output.found)
    options = server_options(arguments)
    last_day, since = _last_day(options), date.fromisoformat(earlier.day)
    if not since < until <= last_day:
        raise JobFailed(
            f"--until {until}: a day after {since}, where the archive ends, to {last_day}, which"
            " is today once it has lasted some minutes."
        )
    output.begin()
    behind = _behind(spark, options, output, earlier)
    # Messages become final at any time: from here on it is decided which of them are meant.
    is_meant = f.col("state").isin(*FINAL) & (f.col("date") < until)
    behind = behind.withColumn("meant", is_meant).localCheckpoint()
    _require_all(behind, options, earlier)
    meant = behind.where("meant")
    received = _content(spark, options, meant)
    sent = _sent(spark, options, since, until, payloads=True)
    messages = sent.unionByName(received, allowMissingColumns=True)
    messages.write.partitionBy("direction", "date").parquet(output.folder)
    kept = spark.read.schema(messages.schema).parquet(output.folder)
    headers = _sent(spark, options, since, until, payloads=False)
    counts = _compare(kept, _hashed(headers).union(_hashed(meant)))
    now = _reached(behind, earlier, until)
    output.finish(counts["sent"] + counts["received"], now._asdict())
    return Summary(good=counts["payloads_removed_before"] == 0, counts=counts)


def _last_day(options: dict[str, str]) -> date:
    """Up to its beginning all ends of messages have been committed.

    By the clock of the MSH: by one of ours that is ahead, what ends later that day would never be
    archived, because the next run begins there.
    """
    with Client(read_options(options, stream=False).server) as client:
        return (client.server_time() - COMMITTED_WITHIN).date()


def _sent(
    spark: SparkSession, options: dict[str, str], since: date, until: date, *, payloads: bool
) -> DataFrame:
    between = {"endedSince": _midnight(since), "endedUntil": _midnight(until)}
    asked = options | between | {"feed": "outbound", "payloads": str(payloads).lower()}
    statuses = spark.read.format("ebxml").options(**asked).load()
    ended = statuses.where(f.col("state").isin(*ENDED) & f.col("ended_at").isNotNull())
    dated = ended.select(f.lit("outbound").alias("direction"), _day("ended_at"), "*")
    return dated.where((f.col("date") >= since) & (f.col("date") < until))


def _behind(
    spark: SparkSession, options: dict[str, str], output: Output, earlier: Reached
) -> DataFrame:
    """Headers of what was received and is not in the archive. Retention may have removed some that
    are: `_require_all` looks for others."""
    after = {"startingPosition": str(earlier.position), "failOnDataLoss": "false"}
    feed = _received(spark, options | after | {"payloads": "false"})
    archived = output.rows("direction string, position long")
    if archived is None:
        return feed
    archived = archived.where(f"direction = 'inbound' AND position > {earlier.position}")
    return feed.join(archived.select("position"), "position", "left_anti")


def _received(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    feed = spark.read.format("ebxml").options(**options).load()
    return feed.select(f.lit("inbound").alias("direction"), _day("received_at"), "*")


def _require_all(behind: DataFrame, options: dict[str, str], earlier: Reached) -> None:
    """Raises JobFailed if retention has removed messages that no run has archived, DataLost if it
    was of those that came since, or if the feed is another one."""
    if earlier.last == 0:
        return
    with Client(read_options(options, stream=False).server) as client:
        ask(client, "inbound/marks", after=earlier.last, seen=earlier.last, most=1)
    left = behind.where(f.col("position") <= earlier.last).count()
    if left < earlier.left:
        raise JobFailed(
            f"Of {earlier.left} received messages that the last run left, since they were not"
            f" final, {earlier.left - left} are gone: retention has removed them. Begin a new"
            " folder, and archive more often than that."
        )


def _content(spark: SparkSession, options: dict[str, str], meant: DataFrame) -> DataFrame:
    first, last = meant.agg(f.min("position"), f.max("position")).first() or (None, None)
    if first is None:
        return meant.drop("meant")
    between = {"startingPosition": str(first - 1), "endingPosition": str(last)}
    feed = _received(spark, options | between | {"failOnDataLoss": "false"})
    return feed.join(meant.select("position"), "position", "left_semi")


def _reached(behind: DataFrame, earlier: Reached, until: date) -> Reached:
    left = ~f.col("meant")
    columns = (f.min(f.when(left, f.col("position"))), f.max("position"), f.count_if(left))
    first_left, last, count = behind.agg(*columns).first() or (None, None, 0)
    last = max(last or 0, earlier.last)
    position = last if first_left is None else first_left - 1
    return Reached(str(until), position, last, count)


def _midnight(day: date) -> str:
    return datetime.combine(day, time(), UTC).isoformat()


def _day(column: str) -> Column:
    """In UTC, whatever the session's time zone."""
    return f.to_date(f.timestamp_seconds(f.unix_timestamp(column))).alias("date")


def _hashed(headers: DataFrame) -> DataFrame:
    """What a message has to be again: its header, and the digests of its payloads."""
    return headers.select(*_KEY, f.transform("payloads", lambda one: one["sha256"]).alias("sha256"))


def _compare(kept: DataFrame, headers: DataFrame) -> dict[str, int]:
    """What the Parquet files hold with what the MSH said. Raises JobFailed."""
    there, said = _digest(_hashed(kept)), _digest(headers)
    for direction in sorted(there.keys() | said.keys()):
        if there.get(direction) != said.get(direction):
            raise JobFailed(
                f"The archive of {direction} messages is not what the MSH has: (count, hash) is"
                f" {there.get(direction)}, not {said.get(direction)}. Run it again."
            )
    if broken := kept.where(~f.forall("payloads", _is_whole)).count():
        raise JobFailed(
            f"Of {broken} messages the payloads are not those that the MSH has digests of. Run it"
            " again."
        )
    gone = kept.where(f.exists("payloads", lambda one: one["removed"])).count()
    return {
        "sent": there.get("outbound", (0, 0))[0],
        "received": there.get("inbound", (0, 0))[0],
        "payloads_removed_before": gone,
    }


def _is_whole(payload: Column) -> Column:
    digest = f.sha2(payload["content"], 256)  # null without content, which then has to be removed
    return payload["removed"] | digest.eqNullSafe(payload["sha256"])


def _digest(messages: DataFrame) -> dict[str, tuple[int, int]]:
    """Count and hash by direction; the hash of a set of rows, in any order."""
    hashed = f.xxhash64(*messages.columns).cast("decimal(38,0)")
    rows = messages.groupBy("direction").agg(f.count("*"), f.sum(hashed)).collect()
    return {row[0]: (row[1], int(row[2])) for row in rows}


def _parser() -> ArgumentParser:
    parser = parser_of("archive", __doc__)
    add_server(parser)
    parser.add_argument(
        "--output", required=True, metavar="FOLDER", help="folder for the Parquet files"
    )
    parser.add_argument(
        "--until",
        required=True,
        type=date.fromisoformat,
        metavar="DAY",
        help="up to this day, exclusive (UTC)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
