"""What a run came to: a table for people, var/bench.json for scripts."""

import json
import os
import platform
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .figure import Figure
from .msh import ROOT, Msh

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


def write(path: Path, series: list[Series], facts: dict[str, Any]) -> None:
    """The ratios at the top, everything else under "absolute" and "machine"."""
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {each.figure.name: round(each.ratio, 4) for each in series}
    absolute = {each.figure.name: each.as_json() for each in series}
    path.write_text(json.dumps(report | {"absolute": absolute, "machine": facts}, indent=2) + "\n")


def show(series: list[Series], facts: dict[str, Any]) -> None:
    table = Table(title="Messages per second, medians", title_justify="left")
    for heading in ("", "MSH", "floor", "ratio", "to hold", "rounds (MSH)", "rounds (floor)"):
        table.add_column(heading, justify="left" if not heading else "right")
    for each in series:
        table.add_row(
            each.figure.name,
            f"{statistics.median(each.product):,.0f}",
            f"{statistics.median(each.floor):,.0f}",
            f"[{'green' if each.holds else 'bold red'}]{each.ratio:.3f}[/]",
            f"{each.figure.minimum:.2f}" if each.figure.minimum else "",
            _range(each.product),
            _range(each.floor),
        )
    console = Console()
    console.print(table)
    for each in series:
        figures = ", ".join(f"{name} {value:,.1f}" for name, value in each.figure.facts().items())
        console.print(f"{each.figure.name}: {figures}", highlight=False)
    server = facts["postgresql"]
    console.print(
        f"{facts['cpus']} cores, PostgreSQL {server['server_version']}, fsync {server['fsync']}, "
        f"synchronous_commit {server['synchronous_commit']}, Python {facts['python']}, "
        f"load average at the start {facts['load_average'][0]:.1f}",
        highlight=False,
    )


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
