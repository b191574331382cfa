"""What a run came to: a table for people, var/bench.json for scripts.

A run replaces in var/bench.json the figures that it has measured and leaves the others, so that
figures that take long are measured one by one. Each says of which commit and when it is.
"""

import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .figure import Figure, Gauge
from .msh import ROOT, Msh

_WIDTH = 130
"""Of the table, also where it is not a terminal."""
_BEGAN = time.monotonic()
SERVER_SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_connections",
)


@dataclass
class Series:
    """The rounds of one figure."""

    figure: Figure
    product: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios: product and floor of a round meet the same machine."""
        return statistics.median(p / f for p, f in zip(self.product, self.floor, strict=True))

    @property
    def holds(self) -> bool:
        return self.ratio >= self.figure.minimum

    def as_json(self) -> dict[str, Any]:
        return {
            "ratio": self.ratio,
            "minimum": self.figure.minimum,
            "product": {"median": statistics.median(self.product), "rounds": self.product},
            "floor": {"median": statistics.median(self.floor), "rounds": self.floor},
            **self.figure.facts(),
        }


@dataclass
class Reading:
    """What a gauge showed."""

    gauge: Gauge
    value: float = 0.0

    def take(self) -> None:
        tell(f"measuring {self.gauge.name}")
        self.value = self.gauge.measure()
        tell(f"{self.gauge.name}: {self.value:,.2f} {self.gauge.unit}")

    @property
    def holds(self) -> bool:
        return not self.gauge.at_most or self.value <= self.gauge.at_most

    def as_json(self) -> dict[str, Any]:
        gauge = self.gauge
        return {
            "value": self.value,
            "unit": gauge.unit,
            "at_most": gauge.at_most,
            **gauge.facts(),
        }


@dataclass
class Results:
    """Of one run."""

    series: list[Series] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    @property
    def hold(self) -> bool:
        series, readings = self.series, self.readings
        return all(one.holds for one in series) and all(one.holds for one in readings)

    def measure(self, figures: Sequence[Figure], gauges: Sequence[Gauge], rounds: int) -> None:
        """Add these: first the gauges, then the figures in rounds."""
        for gauge in gauges:
            self.readings.append(Reading(gauge))
            self.readings[-1].take()
        series = [Series(figure) for figure in figures]
        run_rounds(series, rounds)
        self.series += series


def run_rounds(series: list[Series], rounds: int) -> None:
    """Everything once to warm up, then the rounds: in each, every figure and its floor. A line
    for each, so that a log shows that the run goes on, and how."""
    for each in series:
        tell(f"warm-up: {each.figure.name}")
        with each.figure.quiet():
            each.figure.product()
            each.figure.floor()
    for number in range(1, rounds + 1):
        for each in series:
            with each.figure.quiet():
                each.floor.append(each.figure.floor())
                each.product.append(each.figure.product())
            rates = f"{each.product[-1]:,.0f}/s, floor {each.floor[-1]:,.0f}/s"
            tell(f"round {number} of {rounds}: {each.figure.name} {rates}")


def tell(what: str) -> None:
    """A line of progress, with the time since the first one, also where it is not a terminal."""
    print(f"{time.monotonic() - _BEGAN:5.0f} s  {what}", flush=True)


def machine(msh: Msh) -> dict[str, Any]:
    """What the numbers were measured on."""
    return {
        "cpus": os.cpu_count(),
        "processor": _processor(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "postgresql": {name: msh.value(f"SHOW {name}") for name in SERVER_SETTINGS},
        "load_average": os.getloadavg(),
        "commit": _commit(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def write(path: Path, results: Results, facts: dict[str, Any]) -> None:
    """The ratios and the gauges' values at the top, all else under "absolute" and "machine"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = json.loads(path.read_text()) if path.exists() else {}
    absolute = document.pop("absolute", {})
    source = {"commit": facts["commit"], "at": facts["at"]}
    for each in results.series:
        document[each.figure.name] = round(each.ratio, 4)
        absolute[each.figure.name] = each.as_json() | source
    for reading in results.readings:
        document[reading.gauge.name] = round(reading.value, 4)
        absolute[reading.gauge.name] = reading.as_json() | source
    bulk = [document[name] for name in ("bulk_1", "bulk_2") if name in document]
    if bulk:
        document["bulk"] = min(bulk)  # with one client on each side, or with two
    document |= {"absolute": absolute, "machine": facts}
    path.write_text(json.dumps(document, indent=2) + "\n")


def show(results: Results, facts: dict[str, Any]) -> None:
    console = Console(width=max(_WIDTH, Console().width))
    if results.series:
        console.print(_table(results.series))
    for reading in results.readings:
        gauge = reading.gauge
        at_most = f", at most {gauge.at_most:g}" if gauge.at_most else ""
        console.print(f"{gauge.name}: {reading.value:,.2f} {gauge.unit}{at_most}", highlight=False)
    measured: list[Figure | Gauge] = [each.figure for each in results.series]
    measured += [reading.gauge for reading in results.readings]
    for one in measured:
        figures = [
            f"{name} {value:,.1f}"
            for name, value in one.facts().items()
            if isinstance(value, int | float)
        ]
        figures += [f"CPU {name} {ms:.2f} ms" for name, ms in one.facts().get("cpu_ms", {}).items()]
        console.print(f"{one.name}: {', '.join(figures)}", highlight=False)
    server = facts["postgresql"]
    console.print(
        f"{facts['cpus']} cores, PostgreSQL {server['server_version']}, fsync {server['fsync']}, "
        f"synchronous_commit {server['synchronous_commit']}, Python {facts['python']}, "
        f"load average at the start {facts['load_average'][0]:.1f}",
        highlight=False,
    )


def _table(series: list[Series]) -> Table:
    table = Table(title="Messages per second, medians", title_justify="left")
    headings = ("", "MSH", "floor", "ratio", "to hold", "p50 ms", "p99 ms", "rounds (MSH)")
    for heading in (*headings, "rounds (floor)"):
        table.add_column(heading, justify="left" if not heading else "right")
    for each in series:
        facts = each.figure.facts()
        table.add_row(
            each.figure.name,
            f"{statistics.median(each.product):,.0f}",
            f"{statistics.median(each.floor):,.0f}",
            f"[{'green' if each.holds else 'bold red'}]{each.ratio:.3f}[/]",
            f"{each.figure.minimum:.2f}" if each.figure.minimum else "",
            _milliseconds(facts.get("latency_median_ms")),
            _milliseconds(facts.get("latency_p99_ms")),
            _range(each.product),
            _range(each.floor),
        )
    return table


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def _range(rates: list[float]) -> str:
    return f"{len(rates)}: {min(rates):,.0f} - {max(rates):,.0f}"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
