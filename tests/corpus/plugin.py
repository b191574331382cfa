"""pytest plugin: `--corpus FOLDER`, where the messages of other products are."""

from pathlib import Path

import pytest

_MISSING = "no corpus was given: --corpus FOLDER"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--corpus", metavar="FOLDER", type=Path, help="messages of other products, with sources.csv"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", ())
    count = sum(_MISSING in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(f"{count} tests were not run: {_MISSING}", yellow=True)


@pytest.fixture(scope="session")
def corpus(request: pytest.FixtureRequest) -> Path:
    folder = request.config.getoption("--corpus")
    if folder is None:
        pytest.skip(_MISSING)
    assert isinstance(folder, Path)
    assert (folder / "sources.csv").is_file(), f"{folder} has no sources.csv"
    return folder.resolve()
