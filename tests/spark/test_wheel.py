"""The wheels, installed where nothing else of ours is.

With the Spark that is here; `SPARK_VERSIONS="4.0.0 4.1.1"` takes these from the index of pip.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pyarrow
import pyspark
import pytest

import msh_client
from spark_bridge.options import VERSION
from tests.exchange.machine import ROOT
from tests.spark.office import Office, submitted

SPARK_VERSIONS = os.environ.get("SPARK_VERSIONS", "here").split()
LIBRARIES = ("pyspark", "py4j", "pyarrow", "pyarrow.libs")
PROJECTS = ("msh_client", "spark_bridge")


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


def run(*words: object, activated: Path | None = None, seconds: int = 300) -> str:
    """`activated`: the folder of programs that comes first."""
    left_out = ("PYTHON", "PYSPARK", "SPARK")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(left_out)
    }
    if activated:
        environment["PATH"] = f"{activated}:{environment['PATH']}"
    done = subprocess.run(
        list(map(str, words)),
        cwd=activated,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder: Path = tmp_path_factory.mktemp("wheels")
    for name in PROJECTS:  # a build leaves its folders behind
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.egg-info"))
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, *(folder / name for name in PROJECTS))
    return sorted(folder.glob("*.whl"))


@pytest.mark.parametrize("version", SPARK_VERSIONS)
def test_wheels_where_nothing_else_is(
    office: Office, tmp_path: Path, wheels: list[Path], version: str
) -> None:
    environment = tmp_path / "spark"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    if version == "here":
        (packages,) = environment.glob("lib/*/site-packages")
        for name in LIBRARIES:
            for file in (pyspark.__file__, pyarrow.__file__):
                library = Path(str(file)).parents[1] / name
                if library.exists() and not (packages / name).exists():
                    (packages / name).symlink_to(library)
        run(*pip, "--no-deps", "--no-index", *wheels)
    else:
        run(*pip, f"pyspark=={version}", *wheels, seconds=1200)

    pair = office.pair()
    page, options = ROOT / "docs/spark.md", json.dumps(office.options)
    user = ROOT / "tests/spark/wheel_user.py"
    script = shutil.copy(user, tmp_path)  # beside it is nothing of ours
    run(python, script, tmp_path, options, pair.agreement.tpa_id, page, activated=python.parent)

    counts = json.loads((tmp_path / "counts.json").read_text())
    assert counts["spark"] == (pyspark.__version__ if version == "here" else version)
    assert counts["django"] is False
    assert counts["sent"] >= 3
    assert counts["streamed"] == counts["received"]
    assert {name: counts["metrics"][name] for name in ("batch_id", "accepted", "rejected")} == {
        "batch_id": 0,
        "accepted": 3,
        "rejected": 0,
    }
    assert submitted(pair).count() == 6
