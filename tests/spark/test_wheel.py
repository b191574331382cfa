"""The wheels, installed where nothing else of ours is.

With the Spark that is here; `SPARK_VERSIONS="4.0.0 4.1.1"` takes these from the index of pip.
"""

import json
import os
import shutil
import tomllib
from pathlib import Path

import pyspark
import pytest

import msh_client
from spark_bridge.options import VERSION
from tests.exchange.machine import ROOT
from tests.spark.office import Office, submitted
from tests.spark.wheels import HERE, install, run

SPARK_VERSIONS = os.environ.get("SPARK_VERSIONS", HERE).split()


def project(folder: str) -> dict[str, list[str]]:
    with (ROOT / folder / "pyproject.toml").open("rb") as file:
        found: dict[str, list[str]] = tomllib.load(file)["project"]
    return found


def test_versions_are_one() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert (msh_client.__version__, VERSION) == (version, version)
    assert f"msh-client=={version}" in project("spark_bridge")["dependencies"]
    assert project("msh_client")["dependencies"] == []


class User:
    """Of the wheels, in a folder where nothing else of ours is."""

    def __init__(self, office: Office, folder: Path) -> None:
        self.pair = office.pair()
        self.folder = folder
        script = shutil.copy(ROOT / "tests/spark/wheel_user.py", folder)
        options = json.dumps(office.options)
        self.words = (script, folder, options, self.pair.agreement.tpa_id, ROOT / "docs/spark.md")

    def require_done(self, version: str) -> None:
        counts = json.loads((self.folder / "counts.json").read_text())
        assert counts["spark"] == version
        assert counts["django"] is False
        assert counts["sent"] >= 3
        assert counts["streamed"] == counts["received"]
        metrics = counts["metrics"]
        assert (metrics["batch_id"], metrics["accepted"], metrics["rejected"]) == (0, 3, 0)
        assert submitted(self.pair).count() == 6


@pytest.mark.parametrize("version", SPARK_VERSIONS)
def test_wheels_where_nothing_else_is(
    office: Office, tmp_path: Path, wheels: list[Path], version: str
) -> None:
    python = install(tmp_path / "spark", wheels, version)
    user = User(office, tmp_path)
    run(python, *user.words, cwd=tmp_path, programs=python.parent)
    user.require_done(pyspark.__version__ if version == HERE else version)
