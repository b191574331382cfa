"""`make scale-out`: one MSH on many machines (network namespaces, which need root) exchanges with
another over a bad link; machines are cut off and come back, one has a wrong clock.

    make scale-out                                       2 web, 4 workers, 2 beats
    make scale-out ARGS="--messages 2000 --cut worker-1 worker-2 web-2 beat-1"
    make scale-out ARGS="--throughput 1 2 4"             a good link, messages a second by workers
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rich.console import Console

from demo.faults import Rates
from tests.scale_out.fleet import Size
from tests.scale_out.run import Plan, run

CALM = Rates(**dict.fromkeys(Rates.names(), 0.0))


def main() -> int:
    arguments = _arguments()
    console = Console()
    plan = Plan(
        arguments.messages,
        arguments.pairs,
        arguments.seed,
        Size(arguments.web, arguments.workers, arguments.beats),
        arguments.cut,
        arguments.cut_seconds,
        {arguments.wrong_clock: arguments.hours},
        Rates(),
    )
    if arguments.throughput:
        return _throughput(replace(plan, cut=(), off={}, rates=CALM), arguments.throughput, console)
    status, report = run(plan, console)
    told = ["cut_off", "clocks_off_hours", "messages_per_second", "cpu_ms_per_message"]
    _tell(report, [*told, "scheduled", "database_sessions"], console)
    return status


def _tell(report: Mapping[str, Any], names: Iterable[str], console: Console) -> None:
    console.print_json(json.dumps({name: report[name] for name in names if name in report}))


def _throughput(plan: Plan, counts: list[int], console: Console) -> int:
    """With so many workers, one after the other. On one computer its cores are the limit."""
    for workers in counts:
        status, report = run(replace(plan, size=replace(plan.size, workers=workers)), console)
        if status:
            return status
        rate, cpu = report["messages_per_second"], report["cpu_ms_per_message"]
        console.print(f"{workers} workers: {rate} messages a second, CPU of a message in ms: {cpu}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make scale-out",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=400, help="over all pairs (400)")
    parser.add_argument("--pairs", type=int, default=8, help="half of them each way (8)")
    parser.add_argument("--seed", type=int, default=1, help="of faults and orders (1)")
    parser.add_argument("--web", type=int, default=2, help="web nodes (2)")
    parser.add_argument("--workers", type=int, default=4, help="(4)")
    parser.add_argument("--beats", type=int, default=2, help="(2)")
    parser.add_argument(
        "--cut",
        nargs="*",
        default=["worker-1", "web-1", "beat-1"],
        metavar="NODE",
        help="machines cut off, one after the other (worker-1 web-1 beat-1)",
    )
    parser.add_argument("--cut-seconds", type=float, default=12.0, help="for each (12)")
    parser.add_argument("--wrong-clock", default="worker-2", metavar="NODE", help="(worker-2)")
    parser.add_argument("--hours", type=float, default=1.0, help="that it is ahead (1)")
    parser.add_argument(
        "--throughput", nargs="+", type=int, metavar="WORKERS", help="measure, and disturb nothing"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
