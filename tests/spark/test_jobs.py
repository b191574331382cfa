"""The jobs, as a person starts them, against a real MSH."""

import json
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from msh.models import InboundMessage
from spark_bridge import archive, extract, load, reconcile
from spark_bridge.output import read_runs
from tests.exchange.pair import Pair
from tests.spark.office import Office, submitted
from tests.spark.test_read import (
    age,
    end_of_feed,
    receive,
    retention_removes,
    retention_removes_payloads,
)
from tests.waiting import wait_until

MAPPING = """
key_columns = ["order_no"]
order_column = {sql = "cast(order_no AS bigint)"}

[message]
tpa_id = {column = "agreement"}
service_interface = {value = "Orders"}
action = {value = "New"}
payload = {sql = "concat('<Order no=\\"', order_no, '\\"/>')"}
label = {column = "order_no"}
"""


def server(office: Office) -> list[str]:
    return ["--url", office.url, "--token-file", str(office.token_file)]


def source(folder: Path, pair: Pair, numbers: list[int]) -> list[str]:
    """Orders as a CSV file with its mapping."""
    rows = [f"{number},{pair.agreement.tpa_id}" for number in numbers]
    (folder / "orders.csv").write_text("\n".join(["order_no,agreement", *rows]))
    (folder / "mapping.toml").write_text(MAPPING)
    return [
        *("--source", str(folder / "orders.csv"), "--format", "csv", "--read", "header=true"),
        *("--mapping", str(folder / "mapping.toml"), "--job-id", pair.partner.name),
    ]


def summary(folder: Path) -> dict[str, Any]:
    """The summary of a job, without its seconds."""
    summary: dict[str, Any] = json.loads((folder / "summary").read_text())
    assert summary.pop("seconds") >= 0
    return summary


def test_load_and_reconcile(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    pair, other = office.pair(), office.pair()
    other.wait_for_state(other.submit())
    words = [
        *server(office),
        *source(tmp_path, pair, [12, 3, 10, 1, 2, *range(4, 10), 11]),
        "--summary",
        str(tmp_path / "summary"),
    ]
    assert load.main(words) == 0
    assert (summary(tmp_path)["rows"], summary(tmp_path)["good"]) == (12, True)
    wait_until(lambda: pair.acknowledged() == 12)
    assert [m.payloads.get().label for m in submitted(pair)] == [f"{n}" for n in range(1, 13)]
    assert load.main(words) == 0
    assert submitted(pair).count() == 12
    source(tmp_path, pair, [*range(1, 13), 3, 13])
    words += ["--tpa-id", pair.agreement.tpa_id, "--report", str(tmp_path / "report")]
    assert reconcile.main(words) == 1
    report = json.loads((tmp_path / "report").read_text())
    counted = {name: report[name] for name in ("messages", "acknowledged", "duplicated", "missing")}
    assert counted == {"messages": 13, "acknowledged": 12, "duplicated": 1, "missing": 1}
    days = report["partners_and_days"]
    assert {day["partner"] for day in days} == {pair.partner.name}
    assert [day["missing"] for day in days] == [1, 0]  # never submitted: of no day


def test_reconcile_by_time_and_partner(
    spark: SparkSession, office: Office, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = office.pair()
    pair.wait_for_state(pair.submit())
    words = [*server(office), "--partner", pair.partner.name]
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    for times, messages in (([], 1), (["--since", hour_ago], 1), (["--until", hour_ago], 0)):
        assert reconcile.main([*words, *times, "--summary", str(tmp_path / "summary")]) == 0
        assert summary(tmp_path)["messages"] == messages
    orders = source(tmp_path, pair, [1])
    assert reconcile.main([*words, *orders, "--since", hour_ago]) == 2
    assert "A source has no times" in capsys.readouterr().err
    assert reconcile.main([*words, *orders]) == 2
    assert "the mapping has no field partner" in capsys.readouterr().err


def test_load_documents_of_a_folder(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    pair = office.silent_pair()
    folder = tmp_path / "documents"
    folder.mkdir()
    documents = {"b.xml": "<Order>Łódź</Order>".encode(), "a.pdf": b"%PDF\x00\xff"}
    for name, content in documents.items():
        (folder / name).write_bytes(content)
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(f"""
        key_columns = ["name"]
        order_column = "name"
        [message]
        tpa_id = {{value = "{pair.agreement.tpa_id}"}}
        service_interface = {{value = "Orders"}}
        action = {{value = "New"}}
        payload = {{column = "content"}}
        label = {{column = "name"}}
    """)
    words = ["--source", str(folder), "--format", "documents", "--mapping", str(mapping)]
    assert load.main([*server(office), *words, "--job-id", "folder"]) == 0
    assert load.main([*server(office), *words, "--job-id", "folder"]) == 0  # each once
    labels = [message.payloads.get().label for message in submitted(pair)]
    assert labels == ["a.pdf", "b.xml"]
    contents = [office.payload(message.message_id, 1) for message in submitted(pair)]
    assert contents == [documents[label] for label in labels]


def test_load_table_of_a_database(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    """Of Derby, whose driver is a part of Spark."""
    system = spark.sparkContext._jvm.java.lang.System  # type: ignore[union-attr]
    system.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    pair = office.silent_pair()
    database = "jdbc:derby:memory:orders;create=true"
    rows = [(f"{number}", pair.agreement.tpa_id) for number in (2, 1)]
    table = spark.createDataFrame(rows, "order_no string, agreement string")
    table.write.format("jdbc").options(url=database, dbtable="orders").save()
    (tmp_path / "mapping.toml").write_text(MAPPING)
    words = [
        *(*server(office), "--source", database, "--format", "jdbc"),
        *("--mapping", str(tmp_path / "mapping.toml"), "--job-id", pair.partner.name),
    ]
    assert load.main([*words, "--read", "dbtable=orders"]) == 0
    assert [message.payloads.get().label for message in submitted(pair)] == ["1", "2"]
    assert load.main(words) == 2  # no table is named


def test_extract_goes_on_where_it_stopped(
    spark: SparkSession, office: Office, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a file system that only Hadoop knows."""
    mounts = spark.sparkContext._jsc.hadoopConfiguration()
    mounts.set("fs.viewfs.mounttable.msh.link./data", tmp_path.as_uri())
    pair = office.pair()
    output = "viewfs://msh/data/out"
    columns = tmp_path / "columns.toml"
    columns.write_text('[columns]\nnumber = "@no"\nline = "Line/@position"\nbuyer = "Buyer"\n')
    words = [*server(office), "--output", output, "--columns", str(columns)]
    words += ["--summary", str(tmp_path / "summary")]
    receive(pair, 1, 1)
    extract.main(words)  # what other tests have received too
    for first, last in ((2, 3), (4, 5)):
        receive(pair, first, last)
        assert extract.main(words) == 0
        assert (summary(tmp_path)["messages"], summary(tmp_path)["payload_errors"]) == (2, 0)
    assert extract.main(words) == 0  # nothing new
    assert (summary(tmp_path)["messages"], summary(tmp_path)["position"]) == (
        0,
        end_of_feed(office),
    )
    mine = read_runs(spark, output).where(f"partner = '{pair.partner.name}'")
    rows = mine.orderBy("position").collect()
    assert [row["number"] for row in rows] == ["1", "2", "3", "4", "5"]
    assert {(row["line"], row["buyer"], row["payload_error"]) for row in rows} == {
        (None, None, None)
    }
    columns.write_text('payload = 2\n[columns]\nnumber = "@no"\n')
    receive(pair, 6, 8)
    retention_removes(pair, 7, 7)
    assert extract.main(words) == 2
    assert "removed by retention" in capsys.readouterr().err.splitlines()[-1]
    assert extract.main([*words, "--skip-removed"]) == 1  # two bytes that are no XML
    assert summary(tmp_path)["messages"] == 2


def test_archive(
    spark: SparkSession, office: Office, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A received message that is not final yet comes later, and what came after it once."""
    pair = office.pair()
    load.main([*server(office), *source(tmp_path, pair, [1, 2])])
    receive(pair, 1, 3)
    wait_until(lambda: pair.acknowledged() == 2)
    today = (datetime.now(UTC) - archive.COMMITTED_WITHIN).date()
    noon_before_yesterday = datetime.combine(today - timedelta(days=2), time(12), UTC)
    submitted(pair).update(completed_at=noon_before_yesterday)
    inbound = InboundMessage.objects.filter(link__partner=pair.partner)
    wait_until(lambda: inbound.filter(state="delivered").count() == 3)
    inbound.update(received_at=noon_before_yesterday, state="delivered")
    inbound.filter(sequence_number=2).update(state="parked")
    output = tmp_path / "archive"
    words = [*server(office), "--output", str(output), "--summary", str(tmp_path / "summary")]
    counted = []
    for until in (today - timedelta(days=1), today):
        assert archive.main([*words, "--until", str(until)]) == 0, capsys.readouterr().err
        counted.append(summary(tmp_path))
        inbound.update(state="delivered")
    removed = {"good": True, "payloads_removed_before": 0}
    assert counted == [
        {"sent": 2, "received": 2, **removed},
        {"sent": 0, "received": 1, **removed},
    ]
    assert archive.main([*words, "--until", str(today)]) == 2
    assert f"a day after {today}" in capsys.readouterr().err
    contents = read_runs(spark, str(output)).selectExpr("direction", "inline(payloads)")
    kept = [bytes(row["content"]) for row in contents.where("number = 1").collect()]
    received = [f"<Order no='{number}'/>".encode() for number in (1, 2, 3)]
    assert sorted(kept) == sorted([b'<Order no="1"/>', b'<Order no="2"/>', *received])


def test_archive_says_what_retention_was_faster_with(
    spark: SparkSession, office: Office, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Payloads that are gone are counted; messages that are gone fail the job."""
    pair = office.pair()
    receive(pair, 1, 6)
    inbound = InboundMessage.objects.filter(link__partner=pair.partner)
    wait_until(lambda: inbound.filter(state="delivered").count() == 6)
    today = (datetime.now(UTC) - archive.COMMITTED_WITHIN).date()
    age(pair, 1, 4, timedelta(days=3))
    retention_removes_payloads(pair)
    age(pair, 5, 6, timedelta(days=2))
    inbound.filter(sequence_number__in=[5, 6]).update(state="parked")
    output = tmp_path / "archive"
    words = [*server(office), "--output", str(output), "--summary", str(tmp_path / "summary")]
    until = [*words, "--until", str(today - timedelta(days=2))]
    assert archive.main(until) == 1, capsys.readouterr().err
    assert summary(tmp_path)["payloads_removed_before"] == 1
    mine = read_runs(spark, str(output)).where(f"partner = '{pair.partner.name}'")
    payloads = mine.selectExpr("sequence_number", "inline(payloads)").orderBy("sequence_number")
    assert [
        (row["sequence_number"], row["size"], row["removed"], row["content"] is None)
        for row in payloads.where("number = 1").collect()
    ] == [(n, 15, n == 1, n == 1) for n in range(1, 5)]
    retention_removes(pair, 2, 4)  # which are in the archive
    receive(pair, 7, 8)
    inbound.filter(sequence_number=5).update(state="delivered")
    until = [*words, "--until", str(today)]
    retention_removes(pair, 6, 6)
    assert archive.main(until) == 2
    assert "were not final, 1 are gone: retention has removed them" in capsys.readouterr().err
    retention_removes(pair, 7, 7)
    assert archive.main(until) == 2
    assert "removed by retention" in capsys.readouterr().err
    inbound.update(received_at=datetime.now(UTC))  # of no archive of another test


def test_archive_waits_until_the_ends_of_the_day_before_are_committed(
    spark: SparkSession,
    office: Office,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Begun just after midnight, or with a clock ahead, it would miss some for good."""
    monkeypatch.setattr(archive, "COMMITTED_WITHIN", timedelta(days=1), raising=False)
    today = datetime.now(UTC).date()
    words = [*server(office), "--output", str(tmp_path / "archive"), "--until", str(today)]
    assert archive.main([*words, "--summary", str(tmp_path / "summary")]) == 2
    assert "which is today once it has lasted some minutes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ("colour = 1", "colour is unknown, there are message, id_column"),
        ("key_columns = ['x']", "has no table [message]"),
        (MAPPING.replace("action =", "actoin ="), "actoin is unknown, there are tpa_id"),
        (MAPPING.replace('{value = "New"}', '"New"'), "action: it is one of column, value, sql"),
        (MAPPING.replace('key_columns = ["order_no"]', ""), "give id_column, or key_columns"),
        (MAPPING.replace('key_columns = ["order_no"]', 'key_columns = ["nr"]'), "has no column nr"),
        (MAPPING.replace('["order_no"]', '"order_no"'), "key_columns is a list"),
        (MAPPING.replace("{sql", "{value", 1), "order_column: it is the name of a column, or {sql"),
        (
            MAPPING.replace('{sql = "cast(order_no AS bigint)"}', '"order_no"'),
            "order_column order_no is text in CSV, and in the order of text 10 comes before 2",
        ),
        ("=", "is not what its name says"),
    ],
)
def test_mapping_that_is_wrong(
    spark: SparkSession,
    office: Office,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    mapping: str,
    said: str,
) -> None:
    words = source(tmp_path, office.pair(), [1])
    (tmp_path / "mapping.toml").write_text(mapping)
    assert load.main([*server(office), *words]) == 2
    assert said in capsys.readouterr().err


def test_refusal_of_the_msh_is_the_last_line(
    spark: SparkSession, office: Office, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = office.silent_pair()
    words = source(tmp_path, pair, [1])
    (tmp_path / "mapping.toml").write_text(
        MAPPING.replace('{column = "agreement"}', '{value = "x"}')
    )
    assert load.main([*server(office), *words]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("Rows refused: ")
    assert last.endswith("or use option rejectedPath.")
    rejected = str(tmp_path / "rejected")
    assert load.main([*server(office), *words, "--rejected", rejected]) == 1
    assert spark.read.json(rejected).count() == 1


def test_any_failure_is_a_failed_job(
    spark: SparkSession, office: Office, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1 would say that the job was done."""
    words = [*server(office), "--partner", "nobody", "--summary", str(tmp_path)]
    assert reconcile.main(words) == 2
    errors = capsys.readouterr().err
    assert "Traceback" in errors
    assert "directory" in errors.strip().splitlines()[-1]
