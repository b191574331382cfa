"""pytest plugin: which requirements do the tests prove? See README.md beside this file."""

import json
import sys
from collections.abc import Generator, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypedDict

import pytest
from rich.console import Console
from rich.table import Table

LISTS = {"000 to 004": "requirements.json", "OASIS ebMS 2.0": "ebms2.json"}
_PROPERTY = "requirement"
Collected = pytest.Item | pytest.Collector | list[pytest.Item | pytest.Collector] | None
_COLOURS = {"passed": "green", "failed": "red", "none": "dim"}


class Requirement(TypedDict):
    ref: str
    text: str
    test: str


class Verdict(TypedDict):
    status: str
    tests: list[str]


@cache
def load_requirements() -> dict[str, Requirement]:
    return {number: row for name in LISTS for number, row in load_list(name).items()}


def load_list(name: str) -> dict[str, Requirement]:
    requirements: dict[str, Requirement] = json.loads(
        Path(__file__).with_name(LISTS[name]).read_text()
    )
    return requirements


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--conformance", metavar="FILE", type=Path, help="write the conformance report to FILE"
    )


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--conformance")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(ConformanceReport(file, load_requirements()))


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem() -> Generator[None, Collected, Collected]:
    """Number every test as it is found. Here a wrong number is an error of collection, which
    xdist's workers hand on as such."""
    made = yield
    for item in made if isinstance(made, list) else ():
        if isinstance(item, pytest.Item):
            _number(item)
    return made


def _number(item: pytest.Item) -> None:
    for number in _numbers(item):
        if number not in load_requirements():
            raise pytest.Collector.CollectError(f"there is no requirement {number!r}")
        item.user_properties.append((_PROPERTY, number))  # travels in the report, under xdist


def _numbers(item: pytest.Item) -> Iterator[str]:
    marks = item.iter_markers("requirement")
    yield from dict.fromkeys(number for mark in marks for number in mark.args)


class ConformanceReport:
    """Gathers outcomes where the reports arrive, and writes them down at the end."""

    def __init__(self, file: Path, requirements: Mapping[str, Requirement]) -> None:
        self._file = file
        self._requirements = requirements
        self._outcomes: dict[str, dict[str, str]] = {number: {} for number in requirements}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = report.outcome
        if outcome == "passed" and report.when != "call":
            return
        for name, number in report.user_properties:
            if name == _PROPERTY:
                tests = self._outcomes[str(number)]
                failed_before = tests.get(report.nodeid) == "failed"
                tests[report.nodeid] = "failed" if failed_before else outcome

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        verdicts = {number: self._verdict(number) for number in self._outcomes}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({"requirements": verdicts}, indent=1) + "\n")
        terminalreporter.ensure_newline()
        _print(verdicts, self._requirements)

    def _verdict(self, number: str) -> Verdict:
        tests = self._outcomes[number]
        outcomes = set(tests.values())
        status = next((word for word in ("failed", "passed") if word in outcomes), "none")
        return {"status": status, "tests": sorted(tests)}


def _print(verdicts: Mapping[str, Verdict], requirements: Mapping[str, Requirement]) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table("requirement", "what", "tests", "status", title="Conformance", expand=True)
    for number, verdict in verdicts.items():
        status = verdict["status"]
        table.add_row(
            number,
            requirements[number]["text"],
            "\n".join(_short(verdict["tests"])),
            f"[{_COLOURS[status]}]{'no test yet' if status == 'none' else status}[/]",
        )
    console.print(table)
    for name in LISTS:
        counts = dict.fromkeys(_COLOURS, 0)
        numbers = load_list(name)
        for number in numbers:
            counts[verdicts[number]["status"]] += 1
        console.print(
            f"{name}: {counts['passed']} requirements passed, {counts['failed']} failed, "
            f"{counts['none']} without a test, of {len(numbers)}"
        )


def _short(tests: list[str], limit: int = 3) -> list[str]:
    """Test functions without their parameters; of many the first few."""
    functions = list(dict.fromkeys(test.partition("[")[0] for test in tests))
    more = len(functions) - limit
    return functions[:limit] + ([f"and {more} more"] if more > 0 else [])
