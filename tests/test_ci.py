""".ci/run, with a make that only writes down what it is asked for."""

import os
import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "run"
MAKE = """#!/bin/sh
echo "$*" >> asked
case "$*" in *dist-tools*) echo "no registry of packages"; exit 1 ;; esac
"""


def test_tools_that_cannot_be_installed_do_not_stop_the_tests(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    script = shutil.copy(SCRIPT, tmp_path / ".ci")
    (tmp_path / "bin").mkdir()
    make = tmp_path / "bin" / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    done = subprocess.run(
        [script],
        env=os.environ | {"PATH": f"{make.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    asked = (tmp_path / "asked").read_text().splitlines()
    assert {"test-all ARGS=", "check", "coverage-report"} <= set(asked)
    assert "test ARGS=" not in asked  # they are among all tests
    assert "no registry of packages" in done.stdout
    assert done.returncode == 1
