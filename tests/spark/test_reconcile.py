"""Each violation, by rows as the two MSHs would tell them."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_bridge import reconcile
from spark_bridge.failures import JobFailed
from spark_bridge.load import ids_of
from spark_bridge.mapping import MessageMapping
from spark_bridge.message import message_id_of
from spark_bridge.options import Ids

DAY = date(2026, 11, 21)
SENT = (
    "partner string, tpa_id string, message_id string, state string, day date, id long,"
    " thread string"
)
RECEIVED = "tpa_id string, message_id string, position long, day date"


def sent(spark: SparkSession, *rows: tuple[str, str, str, str], thread: str = "") -> DataFrame:
    """Of (partner, agreement, MessageId, state), in the order of submission. `thread`: the first
    letter of each MessageId names it."""
    numbered = enumerate(rows, start=1)
    made = [(*row, DAY, n, thread and f"{thread} {row[2][0]}") for n, row in numbered]
    return spark.createDataFrame(made, SENT)


def received(spark: SparkSession, *rows: tuple[str, str]) -> DataFrame:
    """Of (agreement, MessageId), in the order of acceptance."""
    return spark.createDataFrame([(*row, n, DAY) for n, row in enumerate(rows)], RECEIVED)


def found(judged: DataFrame, *more: str) -> dict[str, list[str]]:
    """MessageIds, with their partner's name before them, by violation."""
    rows = judged.collect()
    return {
        name: sorted(f"{row['partner']} {row['message_id']}" for row in rows if row[name])
        for name in (*reconcile.VIOLATIONS, *more)
    }


NOTHING: dict[str, Any] = {name: [] for name in reconcile.VIOLATIONS}


def test_each_violation(spark: SparkSession) -> None:
    acknowledged = [("acme", "t", f"m{n}", "acknowledged") for n in range(1, 7)]
    ended = ("queued", "held", "cancelled", "failed")
    states = [("acme", "t", f"m-{state}", state) for state in ended]
    ours = sent(spark, *acknowledged, *states, ("acme", "t", "m-sent", "sent"))
    arrived = ["m1", "m3", "m2", "m4", "m4", "m5", "stray"]
    theirs = received(spark, *(("t", key) for key in arrived), ("other", "foreign"))
    judged = reconcile.findings(None, ours, theirs)
    assert found(judged, "not_yet", "cancelled", "failed", "not_received", "elsewhere") == {
        "missing": [],
        "lost": ["acme m6"],
        "duplicated": ["acme m4"],
        "out_of_order": ["acme m2"],
        "unexpected": ["acme stray"],
        "not_yet": ["acme m-held", "acme m-queued"],
        "cancelled": ["acme m-cancelled"],
        "failed": ["acme m-failed"],
        "not_received": ["acme m-sent"],
        "elsewhere": [],
    }
    assert [row["day"] for row in judged.where("unexpected > 0").collect()] == [DAY]
    by_column = spark.createDataFrame(
        [("t", f"m{n}", 1, place) for n, place in enumerate([10, 30, 20, 40, 50, 60, 70], start=1)],
        "tpa_id string, message_id string, rows long, place long",
    )
    judged = reconcile.findings(by_column, ours, theirs)
    of_source = found(judged)
    assert of_source["out_of_order"] == []  # m3 before m2 is the order of the column
    assert of_source["missing"] == ["acme m7"]


@pytest.mark.requirement("EB-134")
def test_order_is_that_of_the_conversation(spark: SparkSession) -> None:
    """A conversation that is late disturbs no other, and a thread of one message is never late."""
    ours = sent(
        spark,
        *(("edi", "t", key, "acknowledged") for key in ("a1", "b1", "a2", "b2", "c1")),
        thread="t",
    )
    theirs = received(spark, *(("t", key) for key in ("c1", "b2", "a1", "b1", "a2")))
    assert found(reconcile.findings(None, ours, theirs)) == NOTHING | {"out_of_order": ["edi b1"]}
    statuses = [
        ("t", "c", "m1", 7, None, "OnceAndOnlyOnce"),
        ("t", "c", "m2", None, 3, "OnceAndOnlyOnce"),
        ("t", "c", "m3", None, None, "OnceAndOnlyOnce"),
        ("t", "c", "m4", None, None, "BestEffort"),
    ]
    columns = (
        "tpa_id string, conversation_id string, message_id string, sequence_number long,"
        " order_number long, semantics string"
    )
    threads = spark.createDataFrame(statuses, columns).select(reconcile._thread()).collect()
    assert [thread for (thread,) in threads] == ["", "t c", "m3", ""]


def test_receiver_that_is_one_of_the_partners(spark: SparkSession) -> None:
    ours = sent(spark, *((to, f"t-{to}", "m1", "acknowledged") for to in ("acme", "bolt")))
    theirs = received(spark, ("t-acme", "m1"))
    judged = reconcile.findings(None, ours, theirs)
    assert found(judged, "elsewhere") == NOTHING | {"elsewhere": ["bolt m1"]}
    named = reconcile.findings(None, ours.where("partner = 'bolt'"), theirs, named=True)
    assert found(named, "elsewhere") == NOTHING | {"lost": ["bolt m1"], "elsewhere": []}


def test_partners_that_share_an_agreement_and_an_id(spark: SparkSession) -> None:
    ours = sent(spark, *((to, "t", "m1", "acknowledged") for to in ("acme", "bolt")))
    orders = [("acme", "t", "m1", 1, 1), ("bolt", "t", "m1", 1, 1), ("bolt", "t", "m2", 1, 2)]
    schema = "partner string, tpa_id string, message_id string, rows long, place long"
    expected = spark.createDataFrame(orders, schema)
    judged = reconcile.findings(expected, ours, None)
    assert found(judged) == NOTHING | {"missing": ["bolt m2"]}
    theirs = received(spark, ("t", "m1"))
    for rows in ((None, theirs), (expected.drop("partner"), None)):
        with pytest.raises(JobFailed, match="Agreement t is one of acme and bolt: name one"):
            reconcile.require_one_partner(ours, *rows)
    reconcile.require_one_partner(ours, expected, None)


def test_times_on_one_side(spark: SparkSession) -> None:
    """What was received of earlier messages says nothing about those that were asked for."""
    ours = sent(spark, ("acme", "t", "m2", "acknowledged"), ("acme", "t", "m3", "acknowledged"))
    theirs = received(spark, ("t", "m1"), ("t", "m2"))
    judged = reconcile.findings(None, ours, theirs, all_times=False)
    assert found(judged) == NOTHING | {"lost": ["acme m3"]}


def test_ids_are_those_of_load(spark: SparkSession) -> None:
    """Of keys of every type; none for a row that load refuses."""
    rows = spark.sql(
        "SELECT X'00FF' AS b, date'2026-11-21' AS d, timestamp'2026-11-21 08:00:00.5' AS t,"
        " 1.50BD AS n, 'x' AS s UNION ALL SELECT X'00FF', make_date(10000, 1, 1),"
        " timestamp'2026-11-21 08:00:00', 1BD, 'x' UNION ALL SELECT X'', date'2026-11-21',"
        " CAST('+10000-01-02T00:00:00Z' AS timestamp), 1BD, 'x'"
    )
    ids = Ids(key_columns=("b", "d", "t", "n", "s"), job_id="job")
    made = reconcile._with_ids(rows, ids).select("message_id")
    found = [row["message_id"] for row in made.collect()]
    at = datetime(2026, 11, 21, 8, microsecond=500_000, tzinfo=UTC)
    row = {"b": b"\x00\xff", "d": date(2026, 11, 21), "t": at, "n": Decimal("1.5"), "s": "x"}
    assert found == [message_id_of(row, ids), None, None]


def test_job_id_with_blanks_is_that_of_the_option() -> None:
    mapping = MessageMapping({}, "", ("a",), "", {})
    assert ids_of(mapping, " monday ") == Ids(key_columns=("a",), job_id="monday")
    with pytest.raises(JobFailed, match="--job-id is missing"):
        ids_of(mapping, " ")
