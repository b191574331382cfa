"""Files dropped into a folder become messages; the driver is killed and started again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from msh.flows.operations import change_link
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch
from tests.exchange.machine import ROOT
from tests.exchange.pair import Pair
from tests.spark.disturbed import Dying
from tests.spark.office import Office, submitted
from tests.spark.queries import finish
from tests.spark.streaming_driver import SCHEMA, stream
from tests.waiting import descendants, wait_until

OPERATOR = Actor("operator", "of the test")


def drop(folder: Path, *orders: tuple[Pair, range]) -> None:
    """A file of numbered orders for each pair, there at once as a whole."""
    rows = [
        {
            "order_no": number,
            "tpa_id": pair.agreement.tpa_id,
            "service_interface": "Orders",
            "action": "New",
            "payload": f"<Order no='{number}'/>",
        }
        for pair, numbers in orders
        for number in numbers
    ]
    first = orders[0][1].start
    hidden = folder / f".{first}"
    hidden.write_text("\n".join(json.dumps(row) for row in rows))
    os.utime(hidden, (first, first))  # Spark takes files by their age
    hidden.rename(folder / f"orders-{first:05d}.json")


@contextmanager
def driver(office: Office, folder: Path) -> Iterator[None]:
    """A process of its own, with a JVM of its own; at the end of the block it is killed, with its
    JVM and its Python workers."""
    command = [sys.executable, "-m", "tests.spark.streaming_driver", str(folder)]
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, json.dumps(office.options)], cwd=ROOT, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        for pid in (*descendants(process.pid), process.pid):
            with suppress(ProcessLookupError):  # what ends with one killed before it
                os.kill(pid, signal.SIGKILL)
        process.wait()


@pytest.mark.requirement("001-05", "001-18")
def test_driver_that_is_killed(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    """In the middle of a micro-batch: half of its rows are taken, the others not now."""
    pair, closed = office.silent_pair(), office.silent_pair()
    change_link.switch(closed.partner, Switch.ACCEPTS, on=False, actor=OPERATOR)
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    drop(incoming, (pair, range(60)))
    drop(incoming, (pair, range(60, 90)), (closed, range(90, 120)))
    drop(incoming, (pair, range(120, 180)))
    with driver(office, tmp_path):
        wait_until(
            lambda: submitted(pair).count() == 90,
            seconds=300,  # it starts a Java, on a busy machine perhaps
            what=f"see {tmp_path}/driver.log",
        )
    assert submitted(pair, closed).count() == 90
    change_link.switch(closed.partner, Switch.ACCEPTS, on=True, actor=OPERATOR)
    drop(incoming, (pair, range(180, 200)))
    finish(stream(spark, tmp_path, office.options).trigger(availableNow=True).start())
    labels = submitted(pair, closed).values_list("payloads__label", flat=True)
    assert sorted(map(int, labels)) == list(range(200))


def test_micro_batch_that_is_run_again(spark: SparkSession, office: Office, tmp_path: Path) -> None:
    """Its commit was lost: the same rows come again, and its refused rows replace the earlier. A
    query of its own, whose micro-batches have the same numbers, keeps its refused rows beside."""
    pair = office.silent_pair()
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    drop(incoming, (pair, range(1, 21)))
    bad = json.loads((incoming / "orders-00001.json").read_text().splitlines()[0])
    (incoming / "bad.json").write_text(json.dumps(bad | {"order_no": 99, "tpa_id": "tpa-nobody"}))

    def run(checkpoint: str) -> None:
        orders = spark.readStream.schema(SCHEMA).json(str(incoming))
        finish(
            orders.writeStream.format("ebxml")
            .options(**office.options, keyColumns="order_no", jobId=pair.partner.name)
            .option("rejectedPath", str(tmp_path / "rejected"))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )

    run("checkpoint")
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    run("checkpoint")
    assert submitted(pair).count() == 20
    (refused,) = spark.read.json(str(tmp_path / "rejected")).collect()
    assert "tpa-nobody" in refused["reason"]
    assert refused["row"]["order_no"] == 99
    run("another")
    assert spark.read.json(str(tmp_path / "rejected")).count() == 2


def test_attempt_that_is_killed_leaves_no_file(
    spark: SparkSession, office: Office, tmp_path: Path
) -> None:
    """It had refused a row before. The commit of a micro-batch runs in a process of its own."""
    spark.dataSource.register(Dying)
    pair = office.silent_pair()
    incoming, rejected = tmp_path / "incoming", tmp_path / "rejected"
    incoming.mkdir()
    drop(incoming, (pair, range(1, 10)))
    lines = (incoming / "orders-00001.json").read_text().splitlines()
    bad = json.loads(lines[0]) | {"order_no": 99, "tpa_id": "tpa-nobody"}
    (incoming / "orders-00001.json").write_text("\n".join([json.dumps(bad), *lines]))
    orders = spark.readStream.schema(SCHEMA).json(str(incoming))
    finish(
        orders.writeStream.format("ebxml-dying")
        .options(**office.options, keyColumns="order_no", jobId=pair.partner.name, batchSize="1")
        .option("rejectedPath", str(rejected))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert submitted(pair).count() == 9
    (file,) = rejected.iterdir()
    assert file.suffix == ".json"
