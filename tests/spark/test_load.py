"""Batch writes into a real MSH: every row once, whatever becomes of the tasks."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit, nullif, spark_partition_id, when

from msh.flows.operations import change_link
from msh.models import OutboundMessage, OutboundPayload
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch
from spark_bridge import ordered_by_pair
from tests.exchange.pair import Pair
from tests.flows.flying import make_sky
from tests.keys import new_key, pem_of
from tests.leaks import leaks
from tests.spark.disturbed import Dying, Losing
from tests.spark.office import Office, load, orders, submitted

OPERATOR = Actor("operator", "of the test")


def order_numbers(pair: Pair) -> list[int]:
    """Of what the MSH holds for a partner, in the order in which it will send."""
    payloads = OutboundPayload.objects.filter(message__in=submitted(pair)).order_by("message_id")
    return [int(payload.label) for payload in payloads]


def summary_of(messages: DataFrame, office: Office, folder: Path, **options: Any) -> dict[str, Any]:
    """Load, and return what the job counted."""
    load(messages, office, summaryPath=folder / "summary", **options)
    counted: dict[str, Any] = json.loads((folder / "summary").read_text())
    return counted


def stages_run_again(event_log: Path) -> int:
    """Attempts of stages after their first, in this session."""
    events = (line for file in event_log.iterdir() for line in file.read_text().splitlines())
    started = (json.loads(line) for line in events if "SparkListenerStageSubmitted" in line)
    return sum(event["Stage Info"]["Stage Attempt ID"] > 0 for event in started)


def test_rows_become_messages(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    pair = office.silent_pair()
    counted = summary_of(orders(spark, [pair], 25), office, tmp_path, batchSize=10)
    assert sorted(order_numbers(pair)) == list(range(25))
    assert counted == {
        "accepted": 25,
        "known": 0,
        "rejected": 0,
        "not_sent": 0,
        "closed": 0,
        "requests": 4,  # two tasks with 12 and 13 rows
        "repeated": 0,
        "codes": {},
    }


def test_every_field_has_its_column(spark: SparkSession, office: Office) -> None:
    """Of ebMS 2.0, which has the most."""
    sky = make_sky()
    change_link.suspend(sky.partner, Actor("ann", "nothing is sent"))
    roles = {"from_role": "urn:Buyer", "to_role": "urn:Seller", "service_type": "urn:kind"}
    row = {
        "id": "order-4711",
        "tpa_id": sky.agreement.tpa_id,
        "partner": sky.partner.name,
        **roles,
        "service_interface": "Orders",
        "action": "New",
        "conversation_id": "c-1",
        "ref_to_message_id": "quote-1",
        "semantics": "BestEffort",
        "payloads": [
            {"content": b"\x00\xff", "content_type": "application/pdf", "label": "scan"},
            {"content": "Łódź".encode(), "content_type": None, "label": None},
        ],
    }
    schema = (
        "id string, tpa_id string, partner string, service_interface string, action string,"
        " conversation_id string, ref_to_message_id string, semantics string,"
        " from_role string, to_role string, service_type string,"
        " payloads array<struct<content: binary, content_type: string, label: string>>"
    )
    load(spark.createDataFrame([row], schema), office, idColumn="id", compression="gzip")
    message = OutboundMessage.objects.get(link__partner=sky.partner)
    (read,) = (
        spark.read.format("ebxml")
        .options(**office.options, feed="outbound", partner=sky.partner.name)
        .load()
        .select(*roles, "order_number")
        .collect()
    )
    assert read.asDict() == {**roles, "order_number": None}
    assert (message.message_id, message.service_interface, message.action) == (
        "order-4711",
        "Orders",
        "New",
    )
    assert (message.conversation_id, message.ref_to_message_id) == ("c-1", "quote-1")
    assert message.semantics == "BestEffort"
    scan, text = message.payloads.all()
    assert (scan.content_type, scan.label) == ("application/pdf", "scan")
    assert text.content_type == "application/xml"
    assert office.payload("order-4711", 1) == b"\x00\xff"
    assert office.payload("order-4711", 2) == "Łódź".encode()


@pytest.mark.requirement("001-05", "001-18")
def test_job_that_is_run_again(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    pair = office.silent_pair()
    rows = orders(spark, [pair], 60)
    load(rows, office, jobId="monday")
    again = summary_of(rows.repartition(5), office, tmp_path, jobId="monday")
    assert (again["accepted"], again["known"]) == (0, 60)
    assert submitted(pair).count() == 60
    load(rows.limit(7), office, jobId="tuesday")
    assert submitted(pair).count() == 67


@pytest.mark.requirement("001-05", "001-18")
def test_task_that_is_killed_after_a_part(
    spark: SparkSession, office: Office, tmp_path: Path
) -> None:
    """The second attempts get their rows in another order and meet those that are in already: half
    of them, but perhaps the last request of each of the two tasks, which was under way."""
    spark.dataSource.register(Dying)
    pair = office.silent_pair()
    counted = summary_of(
        orders(spark, [pair], 400), office, tmp_path, form=Dying.name(), batchSize=20
    )
    assert counted["known"] in (160, 180, 200)
    assert counted["accepted"] == 400 - counted["known"]
    assert sorted(order_numbers(pair)) == list(range(400))


@pytest.mark.requirement("001-05", "001-18")
def test_stage_that_is_run_again(
    spark: SparkSession, office: Office, tmp_path: Path, event_log: Path
) -> None:
    """The tasks that come after the first have lost what they were to read."""
    spark.dataSource.register(Losing)
    pair = office.silent_pair()
    before = stages_run_again(event_log)
    counted = summary_of(
        orders(spark, [pair], 400, partitions=8), office, tmp_path, form=Losing.name()
    )
    assert stages_run_again(event_log) > before
    assert sorted(order_numbers(pair)) == list(range(400))
    assert (counted["accepted"], counted["known"]) == (400, 0)


@pytest.mark.requirement("001-20")
def test_two_attempts_at_once(spark: SparkSession, office: Office) -> None:
    """The same rows, by the same job, at the same moment: what speculation may come to."""
    pair = office.silent_pair()

    def attempt(_: int) -> None:
        rows = ordered_by_pair(orders(spark, [pair], 300), "order_no")
        load(rows, office, orderColumn="order_no", batchSize=10)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(attempt, range(2)))
    assert order_numbers(pair) == list(range(300))


def test_order_of_each_pair(spark: SparkSession, office: Office) -> None:
    pairs = [office.silent_pair() for _ in range(3)]
    shuffled = orders(spark, pairs, 120, partitions=4)
    load(ordered_by_pair(shuffled, "order_no"), office, orderColumn="order_no", batchSize=7)
    for n, pair in enumerate(pairs):
        assert order_numbers(pair) == list(range(n, 120, 3))


def test_order_that_nobody_made_is_refused_before_anything_is_sent(
    spark: SparkSession, office: Office
) -> None:
    pair = office.silent_pair()
    rows = orders(spark, [pair], 20)
    ordered = ordered_by_pair(rows, "order_no")
    for unmarked in (rows, rows.sortWithinPartitions("order_no"), ordered_by_pair(rows, "label")):
        with pytest.raises(PySparkException, match="Nothing says that the rows of a pair are in"):
            load(unmarked, office, orderColumn="order_no")
    assert not submitted(pair).exists()
    # What does not move rows keeps the mark.
    load(ordered.withColumn("label", lit("7")), office, orderColumn="order_no")
    assert submitted(pair).count() == 20


def test_order_that_was_lost(spark: SparkSession, office: Office) -> None:
    pair = office.silent_pair()
    options = {"orderColumn": "order_no", "orderChecked": "false"}
    descending = (
        orders(spark, [pair], 20).coalesce(1).sortWithinPartitions("order_no", ascending=False)
    )
    with pytest.raises(PySparkException, match=r"order_no is 18 after 19.*ordered_by_pair"):
        load(descending, office, **options)
    assert not submitted(pair).exists()
    apart = orders(spark, [pair], 20).repartitionByRange(2, "order_no")
    with pytest.raises(PySparkException, match=r"Several tasks wrote rows of tpa-.*are stored"):
        load(apart.sortWithinPartitions("order_no"), office, **options)


@pytest.mark.parametrize("tasks", [1, 3])
def test_pairs_are_spread_over_so_many_tasks_as_asked(
    spark: SparkSession, office: Office, tasks: int
) -> None:
    rows = orders(spark, [office.silent_pair()], 10)
    ordered = ordered_by_pair(rows, "order_no", tasks)
    count = ordered.select(spark_partition_id()).rdd.getNumPartitions()
    assert count == tasks


def _with_a_bad_one(messages: DataFrame, number: int, tpa_id: str) -> DataFrame:
    """One that the MSH refuses: its content_type is none."""
    bad = (col("order_no") == number) & (col("tpa_id") == tpa_id)
    return messages.withColumn("content_type", when(bad, lit("no type")).otherwise(lit("text/xml")))


def test_rows_behind_a_refused_one_of_their_pair_are_not_sent(
    spark: SparkSession, office: Office, tmp_path: Path
) -> None:
    """In its request and in later ones; another pair goes on. When it is corrected, the same job
    sends them in order."""
    pair, other = office.silent_pair(), office.silent_pair()
    rows = orders(spark, [pair, other], 60)
    tpa_id = pair.agreement.tpa_id
    options = {"orderColumn": "order_no", "batchSize": 7, "rejectedPath": tmp_path / "rejected"}
    first = ordered_by_pair(_with_a_bad_one(rows, 10, tpa_id), "order_no", 2)
    counted = summary_of(first, office, tmp_path, **options)
    assert order_numbers(pair) == list(range(0, 10, 2))
    assert order_numbers(other) == list(range(1, 60, 2))
    assert (counted["rejected"], counted["not_sent"]) == (1, 24)
    assert sum(counted["codes"].values()) == 1
    aside = spark.read.json(str(tmp_path / "rejected"))
    assert sorted(row["row"]["order_no"] for row in aside.collect()) == list(range(10, 60, 2))
    assert {row["code"] for row in aside.where("row.order_no > 10").collect()} == {"behind_refused"}

    corrected = ordered_by_pair(_with_a_bad_one(rows, -1, tpa_id), "order_no", 2)
    counted = summary_of(corrected, office, tmp_path, **options)
    assert (counted["accepted"], counted["not_sent"]) == (25, 0)
    assert order_numbers(pair) == list(range(0, 60, 2))


def test_rows_behind_one_that_is_refused_here_are_not_sent(
    spark: SparkSession, office: Office, tmp_path: Path
) -> None:
    """The MSH does not get to see the one that is refused."""
    pair = office.silent_pair()
    rows = orders(spark, [pair], 20)
    bad = rows.withColumn("payload", when(col("order_no") != 5, col("payload")))
    options = {"orderColumn": "order_no", "rejectedPath": tmp_path / "rejected"}
    counted = summary_of(ordered_by_pair(bad, "order_no"), office, tmp_path, **options)
    assert order_numbers(pair) == list(range(5))
    assert (counted["rejected"], counted["not_sent"]) == (1, 14)
    options |= {"onRefused": "setAside"}
    counted = summary_of(ordered_by_pair(bad, "order_no"), office, tmp_path, **options)
    assert order_numbers(pair) == [n for n in range(20) if n != 5]
    assert (counted["rejected"], counted["not_sent"]) == (1, 0)


def test_partner_that_is_closed_does_not_keep_others_waiting(
    spark: SparkSession, office: Office, tmp_path: Path
) -> None:
    closed, other = office.silent_pair(), office.silent_pair()
    change_link.switch(closed.partner, Switch.ACCEPTS, on=False, actor=OPERATOR)
    rows = ordered_by_pair(orders(spark, [closed, other], 40), "order_no", 1)
    options = {"orderColumn": "order_no", "batchSize": 5, "onClosed": "setAside"}
    aside = {"rejectedPath": tmp_path / "rejected"}
    counted = summary_of(rows, office, tmp_path, **options, **aside)
    assert order_numbers(other) == list(range(1, 40, 2))
    assert (counted["accepted"], counted["closed"], counted["repeated"]) == (20, 20, 0)
    with pytest.raises(PySparkException, match="PartnerClosed"):
        load(rows, office, orderColumn="order_no", onClosed="fail")
    change_link.switch(closed.partner, Switch.ACCEPTS, on=True, actor=OPERATOR)
    counted = summary_of(rows, office, tmp_path, **options, **aside)
    assert (counted["accepted"], counted["known"], counted["closed"]) == (20, 20, 0)
    assert order_numbers(closed) == list(range(0, 40, 2))


@pytest.mark.parametrize(
    ("column", "sql"),
    [
        ("day", "CAST('10000-01-01' AS date)"),
        ("day", "make_date(-4, 1, 1)"),
        ("day", "CAST('+10000-01-01T00:00:00Z' AS timestamp)"),
        ("day", "CAST(X'FF' AS string)"),
    ],
)
def test_value_that_python_does_not_have_is_one_rows_trouble(
    spark: SparkSession, office: Office, tmp_path: Path, column: str, sql: str
) -> None:
    pair = office.silent_pair()
    sound = {"timestamp": "timestamp'2026-01-01'", "string": "'a'"}
    of_others = next((value for kind, value in sound.items() if kind in sql), "date'2026-01-01'")
    rows = orders(spark, [pair], 10).withColumn(
        column, expr(f"CASE WHEN order_no = 5 THEN {sql} ELSE {of_others} END")
    )
    folder = tmp_path / "rejected"
    options = {"keyColumns": f"order_no,{column}", "jobId": "job", "rejectedPath": folder}
    counted = summary_of(rows, office, tmp_path, **options)
    assert (counted["accepted"], counted["rejected"]) == (9, 1)
    (refused,) = spark.read.json(str(folder)).collect()
    assert refused["row"]["order_no"] == 5
    assert refused["reason"].startswith(f"{column} is ")


def test_ids_that_are_no_function_of_the_row_are_refused(
    spark: SparkSession, office: Office
) -> None:
    """As far as the plan shows it: behind what else was done with the column."""
    pair = office.silent_pair()
    rows = orders(spark, [pair], 5)
    for sql, said in {
        "uuid()": "uuid()",
        "concat('x', cast(rand() AS string))": "rand()",
        "cast(monotonically_increasing_id() AS string)": "monotonically_increasing_id()",
        "cast(current_timestamp() AS string)": "current_timestamp()",
    }.items():
        unstable = rows.withColumn("made", expr(sql)).withColumn("id", expr("upper(made)"))
        with pytest.raises(PySparkException, match=re.escape(f"makes the MessageId, and {said}")):
            load(
                ordered_by_pair(unstable.drop("made"), "order_no"),
                office,
                idColumn="id",
                orderColumn="order_no",
            )
    assert not submitted(pair).exists()
    # Beside the id it does no harm.
    harmless = rows.withColumn("conversation_id", expr("uuid()"))
    load(ordered_by_pair(harmless, "order_no"), office, orderColumn="order_no")
    assert submitted(pair).count() == 5


def test_empty_payloads_are_refused(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    pair = office.silent_pair()
    rows = orders(spark, [pair], 3).withColumn("made", expr("payload")).drop("payload", "label")
    several = rows.withColumn(
        "payloads",
        expr(
            "CASE order_no WHEN 0 THEN array() WHEN 1 THEN NULL"
            " ELSE array(named_struct('content', made)) END"
        ),
    ).drop("made")
    folder = tmp_path / "rejected"
    counted = summary_of(several, office, tmp_path, rejectedPath=folder)
    assert (counted["accepted"], counted["rejected"]) == (1, 2)
    reasons = sorted(row["reason"] for row in spark.read.json(str(folder)).collect())
    assert reasons == [
        "payload is null: give it a value",
        "payloads is empty: give it a payload",
    ]


BAD: dict[str, tuple[str, str | bytes | None]] = {
    "null partner": ("partner", None),
    "unknown agreement": ("tpa_id", "tpa-nobody"),
    "30 MB payload": ("payload", b"x" * 30_000_000),
    "no payload": ("payload", None),
    "300-character id": ("id", "i" * 300),
    "null id": ("id", None),
}


def _with_bad_rows(spark: SparkSession, pair: Pair) -> DataFrame:
    good: dict[str, str | bytes | None] = {
        "tpa_id": pair.agreement.tpa_id,
        "partner": pair.partner.name,
        "service_interface": "Orders",
        "action": "New",
        "payload": b"<Order/>",
    }
    rows = [good | {"id": f"{pair.partner.name}-{n}"} for n in range(len(BAD) + 4)]
    for row, (name, value) in zip(rows[2:], BAD.values(), strict=False):
        row[name] = value
    schema = (
        "id string, tpa_id string, partner string, service_interface string, action string,"
        " payload binary"
    )
    return spark.createDataFrame(rows, schema).coalesce(1)


def test_bad_rows_are_set_aside_one_by_one(
    spark: SparkSession, office: Office, tmp_path: Path
) -> None:
    pair = office.silent_pair()
    rows = _with_bad_rows(spark, pair)
    folder = tmp_path / "rejected"
    counted = summary_of(rows, office, tmp_path, idColumn="id", rejectedPath=folder)
    assert (counted["accepted"], counted["rejected"]) == (4, len(BAD))
    assert submitted(pair).count() == 4
    rejected = spark.read.json(str(folder)).select("message_id", "reason", "row.tpa_id").collect()
    reasons = [row["reason"] for row in rejected]
    for word in (
        "partner is null",
        "tpa-nobody",
        "id is null",
        "payload is null",
        "message_id",
        "multipart",
    ):
        assert any(word in reason for reason in reasons), f"{word}: {reasons}"
    assert len(reasons) == len(BAD)
    summary_of(rows, office, tmp_path, idColumn="id", rejectedPath=folder)
    assert submitted(pair).count() == 4
    # The same rows once more, by other tasks, make the same file.
    summary_of(rows.repartition(3), office, tmp_path, idColumn="id", rejectedPath=folder)
    (file,) = folder.glob("*.json")
    assert len(file.read_text().splitlines()) == len(BAD)


def test_row_without_a_place_in_the_order(
    spark: SparkSession, office: Office, tmp_path: Path
) -> None:
    pair = office.silent_pair()
    rows = orders(spark, [pair], 3).coalesce(1).sortWithinPartitions("order_no")
    placed = rows.withColumn("place", nullif("order_no", lit(1)))
    options = {"keyColumns": "order_no", "jobId": "job", "orderColumn": "place"}
    options |= {"orderChecked": "false", "onRefused": "setAside"}
    load(placed, office, rejectedPath=tmp_path / "rejected", **options)
    assert order_numbers(pair) == [0, 2]
    (rejected,) = spark.read.json(str(tmp_path / "rejected")).collect()
    assert rejected["reason"] == "place is null: give it a value"


def test_bad_rows_fail_the_job(spark: SparkSession, office: Office) -> None:
    pair = office.silent_pair()
    with pytest.raises(PySparkException, match=r"(?s)partner is null.*rejectedPath"):
        load(_with_bad_rows(spark, pair), office, idColumn="id")
    assert submitted(pair).count() == 4  # the good ones of the same request are in


def test_options_and_columns_are_checked_before_anything_is_sent(
    spark: SparkSession, office: Office
) -> None:
    """Every option: test_options.py."""
    pair = office.silent_pair()
    rows = orders(spark, [pair], 5)
    for said, options in {
        "Option idcolum is unknown: do you mean idColumn": {"idColum": "order_no"},
        "Column order_no is bigint: cast it to string": {"idColumn": "order_no"},
        "Column orderno of option keyColumns is missing": {"keyColumns": "orderno", "jobId": "j"},
    }.items():
        with pytest.raises(PySparkException, match=said):
            load(rows, office, **options)
    with pytest.raises(PySparkException, match="Column order_no is none of a message"):
        load(rows.selectExpr("*", "'x' AS id"), office, idColumn="id")
    with pytest.raises(PySparkException, match="Mode overwrite: messages that were sent"):
        rows.write.format("ebxml").mode("overwrite").options(**office.options).save()
    assert not submitted(pair).exists()


def test_token_and_key_are_neither_in_plans_nor_in_logs(
    spark: SparkSession,
    office: Office,
    event_log: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    token, key = office.token_file.read_text().strip(), new_key("client")
    given = {"url": office.url, "token": token}
    for name, content in (("Certificate", pem_of(key).encode()), ("Key", key.private)):
        (tmp_path / name).write_bytes(content)
        given[f"client{name}"] = str(tmp_path / name)
    spark.sparkContext.setLogLevel("INFO")
    try:
        rows = orders(spark, [office.silent_pair()], 3)
        keyed = {"keyColumns": "order_no", "jobId": "secret"}
        rows.write.format("ebxml").mode("append").options(**given, **keyed).save()
        messages = spark.read.format("ebxml").options(**given).load()
        messages.explain(mode="extended")
        messages.collect()
        with pytest.raises(PySparkException) as refused:
            spark.read.format("ebxml").options(**given | {"url": "ftp://nowhere"}).load().collect()
        (tmp_path / "Certificate").write_text(pem_of(new_key("another")))
        with pytest.raises(PySparkException, match="clientKey cannot be used") as unusable:
            spark.read.format("ebxml").options(**given).load().collect()
    finally:
        spark.sparkContext.setLogLevel("ERROR")
    printed = capfd.readouterr()
    events = "".join(file.read_text() for file in event_log.rglob("*") if file.is_file())
    for seen in (printed.out + printed.err, events):
        assert "ebxml" in seen
        assert token not in seen
        assert leaks(seen, key.private) == []
    for error in (refused, unusable):
        assert token not in str(error.value)
        assert leaks(str(error.value), key.private) == []
