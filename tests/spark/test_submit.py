"""A job submitted to a cluster, as docs/spark.md says: with the wheels, and with an archive."""

import re
import shutil
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.exchange.machine import ROOT
from tests.spark.cluster import WORKERS, cluster
from tests.spark.office import Office, orders, submitted
from tests.spark.wheels import install, run

HOME = Path(pyspark.__file__).parent
ROWS = 20
SETTINGS = {
    "spark.executor.memory": "500m",
    "spark.driver.host": WORKERS[0],
    "spark.ui.enabled": "false",
}


def blocks(language: str) -> list[str]:
    section = (ROOT / "docs/spark.md").read_text().partition("\n### On a cluster\n")[2]
    return re.findall(rf"```{language}\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)


@pytest.mark.parametrize("way", ["wheels", "archive"])
def test_job_submitted_to_a_cluster(
    spark: SparkSession, office: Office, tmp_path: Path, wheels: list[Path], way: str
) -> None:
    pair = office.silent_pair()
    (job,) = blocks("python")
    commands = dict(zip(("wheels", "archive"), blocks("sh"), strict=True))[way]
    names = {
        "https://msh.example": office.url,
        "/run/secrets/msh": str(office.token_file),
        "/data/": f"{tmp_path}/",
    }
    for name, value in names.items():
        job = job.replace(name, value)
    (tmp_path / "send.py").write_text(job)
    orders(spark, [pair], ROWS).write.parquet(str(tmp_path / "orders"))
    dist = tmp_path / "dist"
    dist.mkdir()
    for wheel in wheels:
        shutil.copy(wheel, dist)
    python = install(tmp_path / "spark", wheels if way == "archive" else [])
    conf = tmp_path / "conf"
    conf.mkdir()
    lines = (f"{name} {value}" for name, value in SETTINGS.items())
    (conf / "spark-defaults.conf").write_text("\n".join(lines))
    commands = commands.replace("/opt/python/bin/python", str(python))
    with cluster(tmp_path) as address:
        run(
            *("bash", "-e", "-c", commands.replace("spark://master.example:7077", address)),
            cwd=tmp_path,
            programs=f"{HOME / 'bin'}:{python.parent}",
            given={"SPARK_HOME": str(HOME), "SPARK_CONF_DIR": str(conf)},
        )
    labels = submitted(pair).values_list("payloads__label", flat=True)
    assert list(map(int, labels)) == list(range(ROWS))
