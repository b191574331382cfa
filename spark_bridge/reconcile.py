"""Reconcile: what was to be sent, what the sending MSH says of it, what the receiving MSH has.

    spark-submit spark_bridge/reconcile.py --url https://msh.example --token-file token \\
        --source orders.csv --format csv --read header=true --mapping orders.toml --job-id monday \\
        --receiver-url https://other.example --receiver-token-file other --report report.json

Without a source the sending MSH's own order is the order; without a receiver its statuses are
believed. Exit status 1 if anything is missing, lost, doubled, out of order or unexpected.
"""

import sys
from argparse import ArgumentParser, Namespace

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from spark_bridge.job import (
    JobFailed,
    Summary,
    add_server,
    parser_of,
    run,
    server_options,
    write_json,
)
from spark_bridge.load import add_source, read_source
from spark_bridge.mapping import MessageMapping, read_mapping
from spark_bridge.message import message_id_of
from spark_bridge.options import Ids

KEY = ["tpa_id", "message_id"]
VIOLATIONS = ("missing", "lost", "doubled", "out_of_order", "unexpected")
COUNTS = ("messages", "acknowledged", "received", "not_yet", "cancelled", *VIOLATIONS)
"""missing: in the source, not in the sending MSH. lost: acknowledged, not in the receiving MSH.
doubled: copies in the receiving MSH beyond the first, rows of the source that have an id which
another has. out_of_order: received after one of its pair that comes later. unexpected: received,
of these agreements, and never sent. not_yet: neither acknowledged nor received."""


def main(words: list[str] | None = None) -> int:
    return run(reconcile, _parser().parse_args(words), "MSH reconcile")


def reconcile(spark: SparkSession, arguments: Namespace) -> Summary:
    judged = findings(
        _expected(spark, arguments), _sent(spark, arguments), _received(spark, arguments)
    ).cache()
    per_day = judged.groupBy("partner", "day").agg(*map(_total, COUNTS)).orderBy("partner", "day")
    days = [row.asDict() for row in per_day.collect()]
    counts = {name: sum(day[name] for day in days) for name in COUNTS}
    if arguments.report:
        write_json({**counts, "partners_and_days": days}, arguments.report)
    if arguments.details:
        wrong = " OR ".join(f"{name} > 0" for name in VIOLATIONS)
        judged.where(wrong).write.mode("overwrite").json(arguments.details)
    return Summary(good=not any(counts[name] for name in VIOLATIONS), counts=counts)


def findings(expected: DataFrame | None, sent: DataFrame, received: DataFrame | None) -> DataFrame:
    """A row for each message, with a number for each of COUNTS.

    `expected`: KEY, rows, place. `sent`: KEY, partner, state, day, id. `received`: KEY, position;
    a row for each copy.
    """
    known = sent if expected is None else sent.join(expected, KEY, "full_outer")
    if expected is None:
        known = known.withColumn("rows", f.lit(1)).withColumn("place", f.col("id"))
    if received is None:
        none = f.lit(None).cast("long")
        copies = known.withColumn("copies", f.lit(0)).withColumn("position", none)
    else:
        ours = received.join(sent.select("tpa_id").distinct(), "tpa_id", "left_semi")
        first = ours.groupBy(*KEY).agg(
            f.count("*").alias("copies"), f.min("position").alias("position")
        )
        copies = known.join(first, KEY, "full_outer").fillna(0, ["copies"])
    return _judged(copies, believed=received is None)


def _judged(known: DataFrame, *, believed: bool) -> DataFrame:
    acknowledged, arrived = f.col("state") == "acknowledged", f.col("copies") > 0
    in_msh, in_source = f.col("state").isNotNull(), f.col("rows").isNotNull()
    before = (
        Window.partitionBy("partner").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    )
    late = arrived & (f.max(f.when(arrived, f.col("place"))).over(before) > f.col("place"))
    ended = f.col("state").isin("cancelled", "failed")
    open_yet = f.col("state").isin("queued", "in_flight", "rewound")
    flags = {
        "messages": in_msh | in_source,
        "acknowledged": acknowledged,
        "received": arrived,
        "not_yet": open_yet & ~arrived,
        "cancelled": ended,
        "missing": ~in_msh & in_source,
        "lost": acknowledged & ~arrived & f.lit(not believed),
        "out_of_order": late,
        "unexpected": ~in_msh & arrived,
    }
    extra = f.greatest(f.col("copies") - 1, f.lit(0)) + f.greatest(f.col("rows") - 1, f.lit(0))
    return known.select(
        *KEY,
        *("partner", "day", "state", "place", "position"),
        *(f.coalesce(flag, f.lit(False)).cast("int").alias(name) for name, flag in flags.items()),
        f.coalesce(extra, f.lit(0)).alias("doubled"),
    )


def _expected(spark: SparkSession, arguments: Namespace) -> DataFrame | None:
    if not arguments.source:
        return None
    if not arguments.mapping or not arguments.format:
        raise JobFailed("A --source needs --format and --mapping, those of the load job.")
    mapping = read_mapping(arguments.mapping)
    messages = mapping.messages(read_source(spark, arguments))
    place = f.col(mapping.order_column) if mapping.order_column else f.lit(None)
    named = messages.select("tpa_id", _message_id(mapping, arguments.job_id), place.alias("place"))
    return named.groupBy(*KEY).agg(f.count("*").alias("rows"), f.min("place").alias("place"))


def _message_id(mapping: MessageMapping, job_id: str | None) -> Column:
    """As the load job makes it."""
    if mapping.id_column:
        return f.col(mapping.id_column).alias("message_id")
    if not job_id:
        raise JobFailed("--job-id is missing: with key_columns it makes the MessageIds.")
    ids = Ids(key_columns=mapping.key_columns, job_id=job_id)
    of_row = f.udf(lambda row: message_id_of(row, ids), "string", useArrow=False)
    return of_row(f.struct(*mapping.key_columns)).alias("message_id")


def _sent(spark: SparkSession, arguments: Namespace) -> DataFrame:
    statuses = (
        spark.read.format("ebxml").options(**server_options(arguments), feed="outbound").load()
    )
    day = f.to_date("submitted_at").alias("day")
    return statuses.select(*KEY, "partner", "state", day, "id")


def _received(spark: SparkSession, arguments: Namespace) -> DataFrame | None:
    if not arguments.receiver_url:
        return None
    options = server_options(arguments, "receiver_")
    feed = spark.read.format("ebxml").options(**options, payloads="false").load()
    return feed.select(*KEY, "position")


def _total(name: str) -> Column:
    return f.sum(name).alias(name)


def _parser() -> ArgumentParser:
    parser = parser_of("reconcile", __doc__)
    add_server(parser, whose="the sending MSH")
    add_source(parser, required=False)
    add_server(parser, "receiver-", whose="the receiving MSH", required=False)
    parser.add_argument("--report", metavar="FILE", help="per partner and day, as JSON")
    parser.add_argument("--details", metavar="FOLDER", help="the messages it is about, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
