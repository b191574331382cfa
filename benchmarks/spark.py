"""`make bench-spark`: how fast the load job is, as a ratio to the bulk endpoint in the same run,
and how much memory it takes with few rows and with many. Written to var/bench-spark.json.
"""

import argparse
import json
import shutil
import signal
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from spark_bridge.session import JavaMissing, require_java

from . import report
from .load_job import ALL_HEAP, Loader, LoadJob, Run
from .msh import ROOT, Msh
from .report import Results, Series, run_rounds
from .stage import set_up_loaded

SIZES = (10_000, 1_000_000)
GROWTH = 1.25
"""Of memory, from the fewest rows to the most: more is not flat."""


def main() -> int:
    arguments = _arguments()
    try:
        require_java()
    except JavaMissing as missing:
        sys.stderr.write(f"{missing}\n")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds: nothing is left running
    folder = ROOT / "var" / "bench-spark"
    shutil.rmtree(folder, ignore_errors=True)
    series, runs, facts = _measure(folder, arguments.rounds, sorted(arguments.rows))
    shutil.rmtree(folder)  # kept with its logs where a run failed
    report.show(Results([series]), facts)
    _show(runs)
    _write(series, runs, facts)
    return 0 if series.holds and _is_flat(runs) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-spark", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="medians are of so many (5)")
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=SIZES,
        help="loads whose memory is compared (10000 1000000)",
    )
    return parser.parse_args()


def _measure(
    folder: Path, rounds: int, sizes: list[int]
) -> tuple[Series, list[Run], dict[str, Any]]:
    msh = Msh(folder / "loaded")
    with ExitStack() as stack:
        stack.callback(msh.stop)
        msh.start()
        token = set_up_loaded(msh)
        facts = report.machine(msh)
        loader = Loader(msh, token, folder / "load")
        series = Series(LoadJob(msh, token, loader))
        run_rounds([series], rounds)
        return series, [loader.load(rows, submit=ALL_HEAP) for rows in sizes], facts


def _growth(runs: list[Run]) -> dict[str, float]:
    """Of the most memory, from the fewest rows to the most."""
    first, last = runs[0].megabytes, runs[-1].megabytes
    return {kind: round(last[kind] / first[kind], 3) for kind in first}


def _is_flat(runs: list[Run]) -> bool:
    return all(growth <= GROWTH for growth in _growth(runs).values())


def _write(series: Series, runs: list[Run], facts: dict[str, Any]) -> None:
    document = {
        "load_job": round(series.ratio, 4),
        "memory_growth": _growth(runs),
        "loads": [asdict(run) for run in runs],
        "absolute": series.as_json(),
        "machine": facts,
    }
    (ROOT / "var" / "bench-spark.json").write_text(json.dumps(document, indent=2) + "\n")


def _show(runs: list[Run]) -> None:
    table = Table(title="Most memory of a process, MB", title_justify="left")
    for heading in ("rows", *runs[0].megabytes, "rows per second"):
        table.add_column(heading, justify="right")
    for run in runs:
        memory = (f"{megabytes:,.0f}" for megabytes in run.megabytes.values())
        table.add_row(f"{run.rows:,}", *memory, f"{run.rows / run.seconds:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
