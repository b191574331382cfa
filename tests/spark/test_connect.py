"""The jobs over Spark Connect: by a session that has neither a JVM of its own nor an RDD."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_bridge import read_runs
from tests.exchange.machine import ROOT
from tests.exchange.pair import Pair
from tests.spark.cluster import connect_server
from tests.spark.office import Office, submitted
from tests.spark.test_jobs import source
from tests.spark.test_read import age, receive
from tests.waiting import wait_until

Job = Callable[..., dict[str, Any]]


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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of Spark Connect: its Java starts once for all jobs."""
    folder = tmp_path_factory.mktemp("connect")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
    }
    with connect_server(folder, settings) as address:
        yield address


@pytest.fixture
def job(server: str, office: Office, tmp_path: Path) -> Job:
    """Runs a job to its end and returns its summary."""

    def run(module: str, *words: str) -> dict[str, Any]:
        msh = ("--url", office.url, "--token-file", str(office.token_file))
        summary = ("--summary", str(tmp_path / "summary"))
        output = () if module == "load" else ("--output", str(tmp_path / module))
        process = subprocess.run(
            [sys.executable, "-m", f"spark_bridge.{module}", *msh, *output, *summary, *words],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": "", "SPARK_REMOTE": server},  # PYTHONPATH hides pandas
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )
        assert process.returncode == 0, process.stderr[-3000:]
        said: dict[str, Any] = json.loads((tmp_path / "summary").read_text())
        return said

    return run


def contents(spark: SparkSession, folder: Path, pair: Pair) -> list[bytes]:
    rows = read_runs(spark, str(folder)).where(f"partner = '{pair.partner.name}'")
    return [bytes(row["content"]) for row in rows.selectExpr("inline(payloads)").collect()]


def test_extract_and_archive(
    spark: SparkSession, office: Office, pair: Pair, job: Job, tmp_path: Path
) -> None:
    columns = tmp_path / "columns.toml"
    columns.write_text('[columns]\nnumber = "@no"\n')
    job("extract", "--columns", str(columns))
    mine = read_runs(spark, str(tmp_path / "extract")).where(f"partner = '{pair.partner.name}'")
    assert sorted(row["number"] for row in mine.collect()) == ["1", "2", "3"]
    until = (datetime.now(UTC) - timedelta(days=79)).date()
    job("archive", "--until", str(until))
    kept = contents(spark, tmp_path / "archive", pair)
    sent = [office.payload(message.message_id, 1) for message in submitted(pair)]
    received = [f"<Order no='{number}'/>".encode() for number in (1, 2, 3)]
    assert sorted(kept) == sorted([*sent, *received, *[b"\x00\xff"] * 3])


def test_load_in_order(office: Office, job: Job, tmp_path: Path) -> None:
    pair = office.pair()
    said = job("load", *source(tmp_path, pair, [3, 1, 4, 2]))
    assert (said["rows"], said["good"]) == (4, True)
    labels = [message.payloads.get().label for message in submitted(pair)]
    assert labels == ["1", "2", "3", "4"]
