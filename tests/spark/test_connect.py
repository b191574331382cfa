"""The jobs over Spark Connect: by a session that has neither a JVM of its own nor an RDD."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_bridge import read_runs
from tests.exchange.machine import ROOT
from tests.exchange.pair import Pair
from tests.spark.office import Office, submitted
from tests.spark.test_jobs import source
from tests.spark.test_read import age, receive
from tests.waiting import wait_until


@pytest.fixture
def pair(office: Office) -> Iterator[Pair]:
    """Two messages were sent long ago, three have come. Afterwards they are of now, as those of
    other tests: else whoever archives the days before would find them."""
    made = office.pair()
    for _ in range(2):
        made.submit()
    wait_until(lambda: made.acknowledged() == 2)
    submitted(made).update(completed_at=datetime.now(UTC) - timedelta(days=80))
    receive(made, 1, 3)
    age(made, 1, 3, timedelta(days=80))
    yield made
    submitted(made).update(completed_at=datetime.now(UTC))
    age(made, 1, 3, timedelta())


def job(module: str, office: Office, folder: Path, *words: str) -> dict[str, Any]:
    """The summary of a job that is done."""
    server = ("--url", office.url, "--token-file", str(office.token_file))
    summary = ("--summary", str(folder / "summary"))
    output = () if module == "load" else ("--output", str(folder / module))
    process = subprocess.run(
        [sys.executable, "-m", f"spark_bridge.{module}", *server, *output, *summary, *words],
        cwd=ROOT,
        # PYTHONPATH hides pandas. SPARK_TESTING: the server of Connect takes a port that is free.
        env=os.environ | {"PYTHONPATH": "", "SPARK_REMOTE": "local[2]", "SPARK_TESTING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    said: dict[str, Any] = json.loads((folder / "summary").read_text())
    return said


def contents(spark: SparkSession, folder: Path, pair: Pair) -> list[bytes]:
    rows = read_runs(spark, str(folder)).where(f"partner = '{pair.partner.name}'")
    return [bytes(row["content"]) for row in rows.selectExpr("inline(payloads)").collect()]


def test_extract_and_archive(
    spark: SparkSession, office: Office, pair: Pair, tmp_path: Path
) -> None:
    columns = tmp_path / "columns.toml"
    columns.write_text('[columns]\nnumber = "@no"\n')
    job("extract", office, tmp_path, "--columns", str(columns))
    mine = read_runs(spark, str(tmp_path / "extract")).where(f"partner = '{pair.partner.name}'")
    assert sorted(row["number"] for row in mine.collect()) == ["1", "2", "3"]
    until = (datetime.now(UTC) - timedelta(days=79)).date()
    job("archive", office, tmp_path, "--until", str(until))
    kept = contents(spark, tmp_path / "archive", pair)
    sent = [office.payload(message.message_id, 1) for message in submitted(pair)]
    received = [f"<Order no='{number}'/>".encode() for number in (1, 2, 3)]
    assert sorted(kept) == sorted([*sent, *received, *[b"\x00\xff"] * 3])


def test_load_in_order(office: Office, tmp_path: Path) -> None:
    pair = office.pair()
    said = job("load", office, tmp_path, *source(tmp_path, pair, [3, 1, 4, 2]))
    assert (said["rows"], said["good"]) == (4, True)
    labels = [message.payloads.get().label for message in submitted(pair)]
    assert labels == ["1", "2", "3", "4"]
