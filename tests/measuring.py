"""pytest plugin: which branches of the protocol and of the wire format the tests of their folders
take, in the same run as all other tests. Only where MEASURE_COVERAGE is set: `make coverage`,
.ci/run.

Tests of other folders run at their usual speed and do not count: what the protocol decides is
tested in its own folder. Nor do simulations: what they meet by chance is no proof of a branch.
Loaded first, because other plugins import parts of the protocol.
"""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from coverage import Coverage

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("tests/protocol/", "tests/wire/")
SIMULATIONS = (
    "tests/protocol/test_once_and_only_once.py",
    "tests/protocol/test_simulation_can_fail.py",
)
SWITCH = "MEASURE_COVERAGE"

_coverage: Coverage | None = None

if os.environ.get(SWITCH):
    _coverage = Coverage(config_file=str(ROOT / "pyproject.toml"), data_suffix=True)
    _coverage.start()  # what modules do when they are imported is measured too


def pytest_configure(config: pytest.Config) -> None:
    """The process that hands tests out to others (`-n`) runs none."""
    global _coverage
    if _coverage and getattr(config.option, "numprocesses", None):
        _coverage.stop()
        _coverage = None


def pytest_collection_finish() -> None:
    if _coverage:
        _coverage.stop()
        os.environ.pop(SWITCH)  # not in the pytest runs that tests start


def is_measured(nodeid: str) -> bool:
    return nodeid.startswith(FOLDERS) and not nodeid.startswith(SIMULATIONS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if _coverage is None or not is_measured(item.nodeid):
        return (yield)
    _coverage.start()
    try:
        return (yield)
    finally:
        _coverage.stop()


def pytest_sessionfinish() -> None:
    if _coverage:
        _coverage.save()
