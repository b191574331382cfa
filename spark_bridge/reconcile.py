"""Reconcile: what was to be sent, what the sending MSH says of it, what the receiving MSH has.

    spark-submit spark_bridge/reconcile.py --url https://msh.example --token-file token \\
        --source orders.csv --format csv --read header=true --mapping orders.toml --job-id monday \\
        --receiver-url https://other.example --receiver-token-file other --report report.json

Without a source the sending MSH's own order is the order; without a receiver its statuses are
believed. Exit status 1 if anything is missing, lost, duplicated, out of order or unexpected.
"""

import sys
from argparse import ArgumentParser, Namespace

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import DateType, StructField, TimestampType

from spark_bridge.failures import JobFailed
from spark_bridge.job import (
    Summary,
    add_server,
    parser_of,
    run,
    server_options,
    write_json,
)
from spark_bridge.load import add_source, ids_of, read_messages
from spark_bridge.mapping import read_mapping
from spark_bridge.message import message_id_or_none
from spark_bridge.options import Ids

KEY = ["partner", "tpa_id", "message_id"]
"""A MessageId is unique for a partner, and several partners may have an agreement of one name."""
VIOLATIONS = ("missing", "lost", "duplicated", "out_of_order", "unexpected")
COUNTS = (
    *("messages", "acknowledged", "received", "not_yet", "cancelled", "failed"),
    *("not_received", "elsewhere", *VIOLATIONS),
)
"""missing: in the source, not in the sending MSH. lost: acknowledged, not in the receiving MSH.
duplicated: copies in the receiving MSH beyond the first, rows of the source that have an id which
another has. out_of_order: received after one of its thread that comes later. unexpected: received,
of these agreements, and never sent. not_yet: neither acknowledged nor received. failed, and
not_received although sent: BestEffort, which promises nothing. elsewhere: acknowledged under an
agreement of which the receiving MSH has no message: taken for another partner's, unless the
arguments name it."""


def main(words: list[str] | None = None) -> int:
    return run(reconcile, _parser().parse_args(words), "MSH reconcile")


def reconcile(spark: SparkSession, arguments: Namespace) -> Summary:
    if arguments.source and (arguments.since or arguments.until):
        raise JobFailed("A source has no times: leave --since and --until out, or --source.")
    expected, sent = _expected(spark, arguments), _sent(spark, arguments)
    received = _received(spark, arguments)
    require_one_partner(sent, expected, received)
    judged = findings(
        expected,
        sent,
        received,
        named=bool(arguments.partner or arguments.tpa_id),
        all_times=not (arguments.since or arguments.until),
    ).cache()
    per_day = judged.groupBy("partner", "day").agg(*map(_total, COUNTS)).orderBy("partner", "day")
    days = [row.asDict() for row in per_day.collect()]
    counts = {name: sum(day[name] for day in days) for name in COUNTS}
    if arguments.report:
        write_json({**counts, "partners_and_days": days}, arguments.report)
    if arguments.details:
        wrong = " OR ".join(f"{name} > 0" for name in VIOLATIONS)
        judged.where(wrong).write.mode("overwrite").json(arguments.details)
    for cached in (sent, received, judged):
        if cached is not None:
            cached.unpersist()  # what this session asks next, it asks the MSH
    return Summary(good=not any(counts[name] for name in VIOLATIONS), counts=counts)


def findings(
    expected: DataFrame | None,
    sent: DataFrame,
    received: DataFrame | None,
    *,
    named: bool = False,
    all_times: bool = True,
) -> DataFrame:
    """A row for each message, with a number for each of COUNTS.

    `expected`: KEY (perhaps without partner), rows, place. `sent`: KEY, state, day, id, thread.
    `received`: tpa_id, message_id, position, day; a row for each copy. `named`: all of `sent` is
    for the receiving MSH. Unless `all_times` are in `sent`, nothing received is unexpected.
    """
    partners = sent.groupBy("tpa_id").agg(f.min("partner").alias("partner"))
    if expected is None:
        known = sent.withColumn("rows", f.lit(1)).withColumn("place", f.col("id"))
    else:
        known = sent.join(_with_partner(expected, partners), KEY, "full_outer")
    if received is None:
        none = f.lit(None)
        columns = {"copies": f.lit(0), "position": none.cast("long")}
        return _judged(known.withColumns(columns | {"there": none.cast("boolean")}))
    first = (
        received.join(partners, "tpa_id")
        .groupBy(*KEY)
        .agg(f.count("*").alias("copies"), f.min("position").alias("position"), f.min("day"))
    )
    copies = known.join(first, KEY, "full_outer" if all_times else "left")
    copies = copies.withColumn("day", f.coalesce("day", "min(day)")).fillna(0, ["copies"])
    if named:
        return _judged(copies.withColumn("there", f.lit(True)))
    there = received.select("tpa_id", f.lit(True).alias("there")).distinct()
    return _judged(copies.join(there, "tpa_id", "left").fillna(False, ["there"]))


def _with_partner(expected: DataFrame, partners: DataFrame) -> DataFrame:
    """Where the rows of the source do not name it: the one that has the agreement."""
    return expected if "partner" in expected.columns else expected.join(partners, "tpa_id", "left")


def require_one_partner(
    sent: DataFrame, expected: DataFrame | None, received: DataFrame | None
) -> None:
    """Raises JobFailed if nothing says which partner's agreement a row means."""
    partners = f.sort_array(f.collect_set("partner")).alias("partners")
    agreements = sent.groupBy("tpa_id").agg(partners).where(f.size("partners") > 1).collect()
    shared = {row["tpa_id"]: row["partners"] for row in agreements}
    for rows in (expected, received) if shared else ():
        if rows is None or "partner" in rows.columns:
            continue
        meant = rows.where(f.col("tpa_id").isin(*shared)).first()
        if meant:
            tpa_id = meant["tpa_id"]
            raise JobFailed(
                f"Agreement {tpa_id} is one of {' and '.join(shared[tpa_id])}: name one of them by"
                " --partner, and in the mapping of a source."
            )


def _judged(known: DataFrame) -> DataFrame:
    """`there`: whether the receiving MSH should have it; null: there is no receiving MSH."""
    acknowledged, arrived = f.col("state") == "acknowledged", f.col("copies") > 0
    in_msh, in_source = f.col("state").isNotNull(), f.col("rows").isNotNull()
    before = (
        Window.partitionBy("partner", "thread")
        .orderBy("position")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    late = arrived & (f.max(f.when(arrived, f.col("place"))).over(before) > f.col("place"))
    open_yet = f.col("state").isin("queued", "in_flight", "held", "rewound")
    flags = {
        "messages": in_msh | in_source,
        "acknowledged": acknowledged,
        "received": arrived,
        "not_yet": open_yet & ~arrived,
        "cancelled": f.col("state") == "cancelled",
        "failed": f.col("state") == "failed",
        "not_received": (f.col("state") == "sent") & ~arrived & f.col("there"),
        "elsewhere": acknowledged & ~arrived & ~f.col("there"),
        "missing": ~in_msh & in_source,
        "lost": acknowledged & ~arrived & f.col("there"),
        "out_of_order": late,
        "unexpected": ~in_msh & arrived,
    }
    extra = f.greatest(f.col("copies") - 1, f.lit(0)) + f.greatest(f.col("rows") - 1, f.lit(0))
    return known.select(
        *KEY,
        *("day", "state", "place", "position"),
        *(f.coalesce(flag, f.lit(False)).cast("int").alias(name) for name, flag in flags.items()),
        f.coalesce(extra, f.lit(0)).alias("duplicated"),
    )


def _expected(spark: SparkSession, arguments: Namespace) -> DataFrame | None:
    if not arguments.source:
        return None
    if not arguments.mapping or not arguments.format:
        raise JobFailed("A --source needs --format and --mapping, those of the load job.")
    mapping = read_mapping(arguments.mapping)
    messages = read_messages(spark, arguments, mapping)
    if arguments.tpa_id:
        messages = messages.where(f.col("tpa_id") == arguments.tpa_id)
    key = [name for name in KEY if name in (*mapping.fields, "message_id")]
    if arguments.partner:
        if "partner" not in key:
            raise JobFailed("--partner: the mapping has no field partner; name a --tpa-id instead.")
        messages = messages.where(f.col("partner") == arguments.partner)
    place = f.col(mapping.order_column) if mapping.order_column else f.lit(None)
    named = _with_ids(messages.withColumn("place", place), ids_of(mapping, arguments.job_id))
    named = named.select(*key[:-1], "message_id", "place")
    return named.groupBy(*key).agg(f.count("*").alias("rows"), f.min("place").alias("place"))


def _with_ids(messages: DataFrame, ids: Ids) -> DataFrame:
    """With column `message_id`, as the load job makes it. It is null where load refuses the row for
    it."""
    if ids.column:
        return messages.withColumn("message_id", f.col(ids.column))
    of_row = f.udf(lambda row: message_id_or_none(row, ids), "string", useArrow=False)
    keys = [_readable(messages.schema[name]).alias(name) for name in ids.key_columns]
    return messages.withColumn("message_id", of_row(f.struct(*keys)))


def _readable(field: StructField) -> Column:
    """A key as Python has it. Times are given as what the id is made of: Python does not have all
    that Spark has; null stands for these."""
    value = f.col(field.name)
    in_range = f.year(value).between(1, 9999)
    match field.dataType:
        case DateType():
            return f.when(in_range, value.cast("string"))
        case TimestampType():
            return f.when(in_range, f.unix_micros(value))
    return value


def _sent(spark: SparkSession, arguments: Namespace) -> DataFrame:
    wanted = {
        "partner": arguments.partner,
        "tpaId": arguments.tpa_id,
        "since": arguments.since,
        "until": arguments.until,
    }
    options = server_options(arguments) | {name: text for name, text in wanted.items() if text}
    statuses = spark.read.format("ebxml").options(**options, feed="outbound").load()
    day = f.to_date("submitted_at").alias("day")
    return statuses.select(*KEY, "state", day, "id", _thread().alias("thread")).cache()


def _thread() -> Column:
    """What a message keeps its order in: its pair, which is "", its conversation, or nothing, which
    is a thread of its own."""
    of_nothing = f.col("sequence_number").isNull() & (f.col("semantics") == "OnceAndOnlyOnce")
    in_conversation = f.col("order_number").isNotNull()
    named = f.when(in_conversation, f.concat_ws(" ", "tpa_id", "conversation_id"))
    return named.when(of_nothing, f.col("message_id")).otherwise("")


def _received(spark: SparkSession, arguments: Namespace) -> DataFrame | None:
    if not arguments.receiver_url:
        return None
    options = server_options(arguments, "receiver_")
    feed = spark.read.format("ebxml").options(**options, payloads="false").load()
    day = f.to_date("received_at").alias("day")
    return feed.select("tpa_id", "message_id", "position", day).cache()


def _total(name: str) -> Column:
    return f.sum(name).alias(name)


def _parser() -> ArgumentParser:
    parser = parser_of("reconcile", __doc__)
    add_server(parser, whose="the sending MSH")
    add_source(parser, required=False)
    add_server(parser, "receiver-", whose="the receiving MSH", required=False)
    parser.add_argument("--partner", metavar="NAME", help="only messages to this partner")
    parser.add_argument("--tpa-id", metavar="ID", help="only messages under this agreement")
    for name, when in (("since", "at or after this time"), ("until", "at or before this time")):
        parser.add_argument(f"--{name}", metavar="TIME", help=f"only messages submitted {when}")
    parser.add_argument(
        "--report", metavar="FILE", help="file for the counts per partner and day, as JSON"
    )
    parser.add_argument(
        "--details", metavar="FOLDER", help="folder for the messages of each count, as JSON"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
