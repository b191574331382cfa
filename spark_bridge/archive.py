"""Archive: messages to Parquet by date, with their payloads, before retention removes them.

    spark-submit spark_bridge/archive.py --url https://msh.example --token-file token \\
        --output /data/archive --until 2026-11-01

Messages of before that day (UTC, by the clock of the MSH; it has to have lasted ten minutes) which
are final, and which no earlier run has: sent ones by their end, received ones by their receipt. One
that was not final yet comes with a later run. What was written is read back before it counts: the
number and a hash of the headers against the MSH, asked a second time; payloads against a hash that
was taken of what the MSH gave, before it was written, and against the size that the MSH says.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from typing import NamedTuple
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from msh_client import Server
from spark_bridge.client import ApiRefused, Client
from spark_bridge.failures import JobFailed
from spark_bridge.job import Summary, add_server, parser_of, run, server_options
from spark_bridge.options import read_options
from spark_bridge.output import Output
from spark_bridge.rows import INBOUND

ENDED = ("acknowledged", "sent", "failed", "cancelled")
FINAL = ("delivered", "rejected", "forwarded")
"""Of received messages: nothing happens to them any more. Retention removes no others."""
FETCHING_TASKS = 8  # at once: each asks the MSH for one payload after the other
COMMITTED_WITHIN = timedelta(minutes=10)
"""The database notes the end of a message some moments before others see it, and its clock is
another one than the web process's."""
_KEY = ("direction", "date", "partner", "tpa_id", "message_id", "sequence_number", "epoch", "size")
_NOT_FOUND = 404


def main(words: list[str] | None = None) -> int:
    return run(archive, _parser().parse_args(words), "MSH archive")


class Reached(NamedTuple):
    """How far the runs have come."""

    day: str = "1970-01-01"
    """Sent messages that ended before it are in the archive."""
    position: int = 0
    """Received messages up to it are; of those behind it, the ones that the archive has."""


def archive(spark: SparkSession, arguments: Namespace) -> Summary:
    output, until = Output(spark, arguments.output), arguments.until
    earlier = Reached(**output.found)
    options = server_options(arguments)
    last, since = _last_day(options), date.fromisoformat(earlier.day)
    if not since < until <= last:
        raise JobFailed(
            f"--until {until}: a day after {since}, where the archive ends, to {last}, which"
            " is today once it has lasted some minutes."
        )
    output.begin()
    sent = _sent(spark, options, since, until)
    behind = _received(spark, options, earlier.position)
    archived = output.rows("direction string, position long")
    if archived is not None:
        archived = archived.where("direction = 'inbound'").select("position")
        behind = behind.join(archived, "position", "left_anti")
    # Messages become final at any time: from here on it is decided which of them are meant.
    is_meant = f.col("state").isin(*FINAL) & (f.col("date") < until)
    behind = behind.withColumn("meant", is_meant).localCheckpoint()
    meant = behind.where("meant")
    received = _content(spark, options, meant)
    server = read_options(options, stream=False).server
    messages = _with_payloads(sent, server).unionByName(received, allowMissingColumns=True)
    messages = messages.withColumn("payloads_sha256", _payloads_sha256())
    messages.write.partitionBy("direction", "date").parquet(output.folder)
    kept = spark.read.schema(messages.schema).parquet(output.folder)
    counts = _compare(kept, sent.select(*_KEY).union(meant.select(*_KEY)))
    now = Reached(str(until), _last_of_all(behind, earlier.position))
    output.finish(counts["sent"] + counts["received"], now._asdict())
    return Summary(good=True, counts=counts)


def _last_day(options: dict[str, str]) -> date:
    """Up to its beginning all ends of messages have been committed.

    By the clock of the MSH: by one of ours that is ahead, what ends later that day would never be
    archived, because the next run begins there.
    """
    with Client(read_options(options, stream=False).server) as client:
        return (client.server_time() - COMMITTED_WITHIN).date()


def _sent(spark: SparkSession, options: dict[str, str], since: date, until: date) -> DataFrame:
    statuses = spark.read.format("ebxml").options(**options, feed="outbound").load()
    ended = statuses.where(f.col("state").isin(*ENDED) & f.col("ended_at").isNotNull())
    dated = ended.select(f.lit("outbound").alias("direction"), _day("ended_at"), "*")
    return dated.where((f.col("date") >= since) & (f.col("date") < until))


def _received(
    spark: SparkSession, options: dict[str, str], position: int, *, payloads: bool = False
) -> DataFrame:
    asked = options | {"payloads": str(payloads).lower(), "startingPosition": str(position)}
    asked["failOnDataLoss"] = "false"  # behind the first that was left, archived ones may be gone
    feed = spark.read.format("ebxml").options(**asked).load()
    return feed.select(f.lit("inbound").alias("direction"), _day("received_at"), "*")


def _content(spark: SparkSession, options: dict[str, str], meant: DataFrame) -> DataFrame:
    (first,) = meant.agg(f.min("position")).first() or (None,)
    if first is None:
        return meant.drop("meant")
    feed = _received(spark, options, first - 1, payloads=True)
    return feed.join(meant.select("position"), "position", "left_semi")


def _last_of_all(behind: DataFrame, position: int) -> int:
    """The position up to which every received message is in the archive."""
    left, last = behind.agg(
        f.min(f.when(~f.col("meant"), f.col("position"))), f.max("position")
    ).first() or (None, None)
    return left - 1 if left is not None else max(last or 0, position)


def _day(column: str) -> Column:
    """In UTC, whatever the session's time zone."""
    return f.to_date(f.timestamp_seconds(f.unix_timestamp(column))).alias("date")


def _with_payloads(sent: DataFrame, server: Server) -> DataFrame:
    """The feed of what was sent has none, so each is asked for by itself."""

    def fetch(rows: Iterable[Row]) -> Iterator[tuple[object, ...]]:
        with Client(server) as client:
            for row in rows:
                yield (*row, list(_payloads(client, row["message_id"], row["partner"])))

    schema = StructType([*sent.schema.fields, INBOUND["payloads"]])
    fetched = sent.repartition(FETCHING_TASKS).rdd.mapPartitions(fetch)
    return sent.sparkSession.createDataFrame(fetched, schema)


def _payloads(client: Client, message_id: str, partner: str) -> Iterator[dict[str, object]]:
    """Until there is no further one."""
    number = 1
    while True:
        try:
            path = f"messages/{quote(message_id, safe='')}/payloads/{number}"
            content = client.get_bytes(path, partner=partner)
        except ApiRefused as refused:
            if refused.status == _NOT_FOUND:
                return
            raise
        yield {"number": number, "size": len(content), "content": content}
        number += 1


def _compare(kept: DataFrame, headers: DataFrame) -> dict[str, int]:
    """What the Parquet files hold with what the MSH said. Raises JobFailed."""
    there, said = _digest(kept), _digest(headers)
    for direction in sorted(there.keys() | said.keys()):
        if there.get(direction) != said.get(direction):
            raise JobFailed(
                f"The archive of {direction} messages is not what the MSH has: (count, hash) is"
                f" {there.get(direction)}, not {said.get(direction)}. Run it again."
            )
    changed = kept.where(f.col("payloads_sha256") != _payloads_sha256()).count()
    if changed:
        raise JobFailed(
            f"Of {changed} messages the payloads were changed on the way. Run it again."
        )
    gone = (f.size("payloads") == 0) & (f.col("size") > 0)
    short = ~gone & (_payload_bytes() != f.col("size"))
    if broken := kept.where(short).count():
        raise JobFailed(f"Of {broken} messages the payloads have not the size that the MSH says.")
    return {
        "sent": there.get("outbound", (0, 0))[0],
        "received": there.get("inbound", (0, 0))[0],
        "payloads_removed_before": kept.where(gone).count(),
    }


def _payloads_sha256() -> Column:
    """Of the SHA-256 of each, in hexadecimal digits, with commas between."""
    digests = f.transform("payloads", lambda one: f.sha2(one["content"], 256))
    return f.sha2(f.concat_ws(",", digests), 256)


def _payload_bytes() -> Column:
    nothing = f.lit(0).cast("long")
    return f.aggregate("payloads", nothing, lambda size, one: size + f.length(one["content"]))


def _digest(messages: DataFrame) -> dict[str, tuple[int, int]]:
    """Count and hash by direction; the hash of a set of rows, in any order."""
    hashed = f.xxhash64(*_KEY).cast("decimal(38,0)")
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
