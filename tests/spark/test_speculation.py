"""Spark tries a task that is slow on another machine, while the first attempt still runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exchange.machine import ROOT
from tests.spark.cluster import WORKERS, cluster, submit_arguments
from tests.spark.office import Office, submitted
from tests.spark.speculating_driver import ROWS

SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.quantile": "0.5",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",  # empty tasks to be compared with
    "spark.sql.shuffle.partitions": "4",
    "spark.executor.memory": "500m",
    "spark.executorEnv.PYTHONPATH": str(ROOT),
    "spark.driver.host": WORKERS[0],
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


@pytest.mark.requirement("001-05", "001-18", "001-20")
def test_task_that_is_tried_elsewhere_while_it_stands(office: Office, tmp_path: Path) -> None:
    pair = office.silent_pair()
    events = tmp_path / "events"
    events.mkdir()
    options = office.options | {
        "keyColumns": "order_no",
        "jobId": pair.partner.name,
        "orderColumn": "order_no",
        "batchSize": "10",
        "summaryPath": str(tmp_path / "summary"),
    }
    with cluster(tmp_path) as address:
        settings = SETTINGS | {"spark.eventLog.dir": events.as_uri()}
        process = subprocess.run(
            [
                *(sys.executable, "-m", "tests.spark.speculating_driver"),
                *(pair.agreement.tpa_id, json.dumps(options)),
            ],
            cwd=ROOT,
            env=os.environ
            | {"SPARK_MASTER": address, "PYSPARK_SUBMIT_ARGS": submit_arguments(settings)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert process.returncode == 0, process.stderr
    assert '"Speculative":true' in "".join(file.read_text() for file in events.iterdir())
    counted = json.loads((tmp_path / "summary").read_text())
    # On a busy machine the second attempt may overtake the first one, which then finds them known.
    assert counted["accepted"] + counted["known"] == ROWS
    labels = submitted(pair).values_list("payloads__label", flat=True)
    assert list(map(int, labels)) == list(range(ROWS)), "each once, in their order"
