"""Archive: messages to Parquet by date, with their payloads, before retention removes them.

    spark-submit spark_bridge/archive.py --url https://msh.example --token-file token \\
        --output /data/archive --until 2026-11-01

Sent messages that ended, and received ones that came, before that day (UTC) and since the last
run. What was written is read back and compared with the MSH, by count and hash, before its folder
`days=SINCE_UNTIL` gets its name.
"""

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from spark_bridge.client import ApiRefused, Client
from spark_bridge.files import UNFINISHED, finish, names_in
from spark_bridge.job import JobFailed, Summary, add_server, parser_of, run, server_options
from spark_bridge.options import Server, read_options
from spark_bridge.reader import INBOUND

ENDED = ("acknowledged", "sent", "failed", "cancelled")
FIRST_DAY = date(1970, 1, 1)
FETCHING_TASKS = 8
_FINISHED = re.compile(r"days=[\d-]+_(\d{4}-\d\d-\d\d)")
_KEY = ("direction", "date", "partner", "tpa_id", "message_id", "sequence_number", "epoch", "size")
_NOT_FOUND = 404


def main(words: list[str] | None = None) -> int:
    return run(archive, _parser().parse_args(words), "MSH archive")


def archive(spark: SparkSession, arguments: Namespace) -> Summary:
    since, until = last_day(arguments.output), arguments.until
    if not since < until <= datetime.now(UTC).date():
        raise JobFailed(f"--until {until}: a day after {since}, where the archive ends, to today.")
    options = server_options(arguments)
    sent = _between(_sent(spark, options), since, until)
    received = _between(_received(spark, options), since, until)
    server = read_options(options, stream=False).server
    messages = _with_payloads(sent, server).unionByName(received, allowMissingColumns=True)
    messages = messages.withColumn("payloads_sha256", _payloads_sha256())
    unfinished = f"{arguments.output}/{UNFINISHED}"
    messages.write.mode("overwrite").partitionBy("direction", "date").parquet(unfinished)
    kept = spark.read.schema(messages.schema).parquet(unfinished)
    headers = sent.select(*_KEY).union(
        _between(_received(spark, options, payloads=False), since, until).select(*_KEY)
    )
    counts = _compare(kept, headers)
    finish(arguments.output, f"days={since}_{until}")
    return Summary(good=True, counts=counts)


def last_day(output: str) -> date:
    """Up to which earlier runs have come."""
    matches = (_FINISHED.fullmatch(name) for name in names_in(output))
    return max((date.fromisoformat(match[1]) for match in matches if match), default=FIRST_DAY)


def _sent(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    statuses = spark.read.format("ebxml").options(**options, feed="outbound").load()
    ended = statuses.where(f.col("state").isin(*ENDED) & f.col("ended_at").isNotNull())
    return ended.select(f.lit("outbound").alias("direction"), _day("ended_at"), "*")


def _received(spark: SparkSession, options: dict[str, str], *, payloads: bool = True) -> DataFrame:
    asked = options | {"payloads": str(payloads).lower()}
    feed = spark.read.format("ebxml").options(**asked).load()
    return feed.select(f.lit("inbound").alias("direction"), _day("received_at"), "*")


def _day(column: str) -> Column:
    """In UTC, whatever the session's time zone."""
    return f.to_date(f.timestamp_seconds(f.unix_timestamp(column))).alias("date")


def _between(messages: DataFrame, since: date, until: date) -> DataFrame:
    return messages.where((f.col("date") >= f.lit(since)) & (f.col("date") < f.lit(until)))


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
            path = f"messages/{message_id}/payloads/{number}"
            content = client.get_bytes(path, partner=partner)
        except ApiRefused as refused:
            if refused.status == _NOT_FOUND:
                return
            raise
        yield {"number": number, "size": len(content), "content": content}
        number += 1


def _compare(kept: DataFrame, headers: DataFrame) -> dict[str, int]:
    """What the Parquet files hold with what the MSH says, asked once more. Raises JobFailed."""
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
    # Of what was sent, size is that of the wire form.
    gone = (f.size("payloads") == 0) & (f.col("size") > 0)
    short = (f.col("direction") == "inbound") & ~gone & (_payload_bytes() != f.col("size"))
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
    parser.add_argument("--output", required=True, metavar="FOLDER", help="of Parquet")
    parser.add_argument(
        "--until", required=True, type=date.fromisoformat, metavar="DAY", help="not itself (UTC)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
