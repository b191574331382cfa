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

HERE = "here"
SPARK_VERSIONS = os.environ.get("SPARK_VERSIONS", HERE).split()
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


def run(
    *words: object,
    cwd: Path | None = None,
    activated: Path | None = None,
    seconds: int = 900,
) -> None:
    """`activated`: the folder of programs that comes first."""
    left_out = ("PYTHON", "PYSPARK", "SPARK")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(left_out)
    }
    if activated:
        environment["PATH"] = f"{activated}:{environment['PATH']}"
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder: Path = tmp_path_factory.mktemp("wheels")
    for name in PROJECTS:  # a build leaves its folders behind
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.egg-info"))
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, *(folder / name for name in PROJECTS))
    return sorted(folder.glob("*.whl"))


def install(environment: Path, wheels: list[Path], version: str = HERE) -> Path:
    """Return its Python."""
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    if version != HERE:
        run(*pip, f"pyspark=={version}", *wheels, seconds=1200)
        return python
    (packages,) = environment.glob("lib/*/site-packages")
    for name in LIBRARIES:
        for file in (pyspark.__file__, pyarrow.__file__):
            library = Path(str(file)).parents[1] / name
            if library.exists() and not (packages / name).exists():
                (packages / name).symlink_to(library)
    run(*pip, "--no-deps", "--no-index", *wheels)
    return python


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
    run(python, *user.words, cwd=tmp_path, activated=python.parent)
    user.require_done(pyspark.__version__ if version == HERE else version)
