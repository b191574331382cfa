"""`make bench`: how fast the MSH is, as ratios to what this machine can do at best right now."""

import argparse
import shutil
import signal
import sys
from functools import partial

from . import report
from .bulk import Bulk
from .exchange import CommitBound, Exchange
from .figure import Figure
from .msh import ROOT
from .receive import Receive
from .report import Series, run_rounds
from .stage import EXCHANGING_PAIRS, Stage

NAMES = ("receive_1", "receive_16", "exchange_1", "exchange_16", "bulk_1", "bulk_2")


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds: nothing is left running
    folder = ROOT / "var" / "bench"
    shutil.rmtree(folder, ignore_errors=True)
    with Stage(folder) as stage:
        facts = report.machine(stage.receiver)
        series = [Series(figure) for figure in _figures(stage, arguments.only)]
        run_rounds(series, arguments.rounds)
    shutil.rmtree(folder)  # kept with its logs where a run failed
    report.show(series, facts)
    report.write(ROOT / "var" / "bench.json", series, facts)
    return 0 if all(each.holds for each in series) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="medians are of so many (5)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=NAMES,
        default=NAMES,
        metavar="FIGURE",
        help=f"of {', '.join(NAMES)}",
    )
    return parser.parse_args()


def _figures(stage: Stage, only: list[str]) -> list[Figure]:
    many = Exchange(
        stage, pairs=EXCHANGING_PAIRS, messages=60, prototype_messages=150, minimum=0.20
    )
    loaded, quiet = (stage.loaded, stage.api_token), partial(stage.only, stage.loaded)
    figures: list[Figure] = [
        Receive(stage, connections=1, seconds=3),
        Receive(stage, connections=16, seconds=3, minimum=0.10),
        Exchange(stage, pairs=1, messages=200, prototype_messages=1000),
        many,
        CommitBound(many, stage, clients=EXCHANGING_PAIRS, seconds=3),
        Bulk(*loaded, clients=1, requests=4, quiet=quiet),
        Bulk(*loaded, clients=2, requests=4, minimum=0.20, quiet=quiet),
    ]
    return [figure for figure in figures if figure.name.removesuffix("_to_commits") in only]


if __name__ == "__main__":
    sys.exit(main())
