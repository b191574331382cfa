"""A demo that looks at more than its verdict does, and writes a report."""

import asyncio
import json
from abc import abstractmethod
from typing import Any

from rich.console import Console

from demo.machines import DemoFailed
from demo.run import Demo
from tests.hosts.network import HostsMissing


class ReportingDemo(Demo):
    report: dict[str, Any]

    @property
    @abstractmethod
    def faults(self) -> list[str]:
        """What the verdict does not say, in a line each."""


def run(demo: ReportingDemo, console: Console) -> tuple[int, dict[str, Any]]:
    """The exit status, as the demo's, 1 also for what the demo does not look at; the report."""
    try:
        status = asyncio.run(demo.perform())
    except (DemoFailed, HostsMissing) as error:
        console.print(f"[bold red]It failed.[/] {error}", highlight=False)
        return 2, {}
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130, {}
    (demo.options.folder / "report.json").write_text(json.dumps(demo.report, indent=2) + "\n")
    for fault in demo.faults:
        console.print(f"[bold red]{fault}[/]")
    return status or int(bool(demo.faults)), demo.report
