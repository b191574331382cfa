"""The wheels that the bridge's users install, and environments where nothing else of ours is."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pyarrow
import pyspark

from tests.exchange.machine import ROOT

HERE = "here"
"""The version of Spark that the tests have."""
PROJECTS = ("msh_client", "spark_bridge")
_LIBRARIES = ("pyspark", "py4j", "pyarrow", "pyarrow.libs")


def run(
    *words: object,
    cwd: Path | None = None,
    programs: Path | str = "",
    given: dict[str, str] | None = None,
    seconds: int = 900,
) -> None:
    """`programs`: folders of those that come first. `given`: variables of its environment, which
    has none of ours."""
    left_out = ("PYTHON", "PYSPARK", "SPARK")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(left_out)
    }
    if programs:
        environment["PATH"] = f"{programs}:{environment['PATH']}"
    done = subprocess.run(
        list(map(str, words)),
        cwd=cwd,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"} | (given or {}),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def build(folder: Path) -> list[Path]:
    """The wheels, in that folder."""
    for name in PROJECTS:  # a build leaves its folders behind
        ignored = shutil.ignore_patterns("*.egg-info")
        shutil.copytree(ROOT / name, folder / "source" / name, ignore=ignored)
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", folder, *(folder / "source" / name for name in PROJECTS))
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
    for name in _LIBRARIES:
        for file in (pyspark.__file__, pyarrow.__file__):
            library = Path(str(file)).parents[1] / name
            if library.exists() and not (packages / name).exists():
                (packages / name).symlink_to(library)
    if wheels:
        run(*pip, "--no-deps", "--no-index", *wheels)
    return python
