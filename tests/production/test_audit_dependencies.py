"""`make audit-dependencies` fails unless every package was audited."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.audit_dependencies import CURE, problems_of

ROOT = Path(__file__).resolve().parents[2]
CLEAN = {"name": "django", "version": "5.2", "vulns": []}
SKIPPED = {"name": "celery", "skip_reason": "Dependency not found on PyPI"}
FOUND = {"id": "PYSEC-1", "fix_versions": ["5.2.1", "5.1.9"]}


@pytest.mark.parametrize(
    ("packages", "problems"),
    [
        ([CLEAN], []),
        ([], [f"0 of 0 packages were not audited. {CURE}"]),
        ([CLEAN, SKIPPED], [f"1 of 2 packages were not audited. {CURE}"]),
        ([CLEAN | {"vulns": [FOUND]}], ["django 5.2: PYSEC-1, fixed in 5.2.1, 5.1.9"]),
        (
            [CLEAN | {"vulns": [FOUND | {"fix_versions": []}]}],
            ["django 5.2: PYSEC-1, not fixed yet"],
        ),
    ],
)
def test_problems(packages: list[Any], problems: list[str]) -> None:
    assert problems_of(packages) == problems


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ('echo \'{"dependencies": [' + '{"name": "a", "version": "1", "vulns": []}' + "]}'", 0, ""),
        (
            'echo \'{"dependencies": [' + '{"name": "a", "skip_reason": "unknown"}' + "]}'",
            1,
            f"1 of 1 packages were not audited. {CURE}\n",
        ),
        (
            "echo 'no name api.osv.dev' >&2; exit 1",
            1,
            f"pip-audit failed, nothing was audited: no name api.osv.dev\n{CURE}\n",
        ),
    ],
)
def test_status(tmp_path: Path, answer: str, status: int, said: str) -> None:
    """Beside the interpreter is the pip-audit that it runs."""
    program, python = tmp_path / "pip-audit", tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    python.symlink_to(sys.executable)
    done = subprocess.run(
        [python, ROOT / "tools" / "audit_dependencies.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, said)
