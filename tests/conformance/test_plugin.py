"""The report that `make conformance` writes, made by real runs over small test files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .plugin import LISTS, load_list, load_requirements

ROOT = Path(__file__).resolve().parents[2]

PROOFS = """
import pytest

@pytest.mark.requirement("000-001")
@pytest.mark.parametrize("number", [1, 2])
def test_proof(number):
    pass

@pytest.mark.requirement("000-001", "000-002")
def test_other_proof():
    assert BOTH_HOLD

@pytest.mark.requirement("000-003")
def test_to_be_written():
    pytest.skip("not yet")

@pytest.fixture
def breaks_afterwards():
    yield
    raise OSError

@pytest.mark.requirement("000-004")
def test_with_a_bad_end(breaks_afterwards):
    pass
"""


def run(folder: Path, text: str, *options: str) -> tuple[subprocess.CompletedProcess[str], Path]:
    (folder / "test_proofs.py").write_text(text)
    report = folder / "var" / "report.json"
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder)]
    plugins = ["-p", "tests.conformance.plugin", "-p", "xdist"]
    finished = subprocess.run(
        [*command, *plugins, "--conformance", str(report), *options, "test_proofs.py"],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "COLUMNS": "160", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return finished, report


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_report_names_tests_and_status_of_every_requirement(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    finished, report = run(tmp_path, PROOFS.replace("BOTH_HOLD", "False"), *options)

    assert finished.returncode == pytest.ExitCode.TESTS_FAILED
    verdicts = json.loads(report.read_text())["requirements"]
    assert list(verdicts) == list(load_requirements())
    assert verdicts["000-001"] == {
        "status": "failed",
        "tests": [
            "test_proofs.py::test_other_proof",
            "test_proofs.py::test_proof[1]",
            "test_proofs.py::test_proof[2]",
        ],
    }
    assert verdicts["000-002"]["status"] == "failed"
    assert verdicts["000-003"] == {
        "status": "none",
        "tests": ["test_proofs.py::test_to_be_written"],
    }
    assert verdicts["000-004"]["status"] == "failed"
    assert verdicts["000-005"] == {"status": "none", "tests": []}


def test_report_passes_what_passes_and_prints_a_line_for_each(tmp_path: Path) -> None:
    text = PROOFS.replace("BOTH_HOLD", "True").replace("raise OSError", "return")
    finished, report = run(tmp_path, text)

    assert finished.returncode == pytest.ExitCode.OK
    verdicts = json.loads(report.read_text())["requirements"]
    passed = {number for number, verdict in verdicts.items() if verdict["status"] == "passed"}
    assert passed == {"000-001", "000-002", "000-004"}
    assert "3 requirements passed, 0 failed, 165 without a test, of 168" in finished.stdout
    assert "0 requirements passed, 0 failed, 177 without a test, of 177" in finished.stdout
    assert all(number in finished.stdout for number in verdicts)


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_unknown_number_stops_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    finished, _ = run(tmp_path, PROOFS.replace("000-002", "000-999"), *options)

    assert finished.returncode != pytest.ExitCode.OK
    assert "there is no requirement '000-999'" in finished.stdout + finished.stderr


def test_list_is_complete() -> None:
    requirements = load_requirements()

    assert [len(load_list(name)) for name in LISTS] == [168, 177]
    assert all(entry["ref"] and entry["text"] for entry in requirements.values())
