"""`make bench`, `make bench-long`: how fast the MSH is, as ratios to what this machine can do at
best right now. Figures in var/bench.json that are not measured in a run stay as they were.
"""

import argparse
import shutil
import signal
import sys
from contextlib import closing

from . import report
from .acts import LONG, SHORT, Scene, Sizes, is_chosen, names_of
from .msh import ROOT
from .report import Results

NAMES = names_of(SHORT + LONG)
NEEDS = {"exchange_16_to_pyas2": "exchange_16"}
"""A figure that takes the product's rate from another one."""


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds: nothing is left running
    chosen = {*arguments.only, *(NEEDS[name] for name in arguments.only if name in NEEDS)}
    holds = True
    for act in SHORT + LONG:
        if not chosen.intersection(act.names):
            continue
        folder = ROOT / "var" / "bench"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with closing(act.play(folder / act.names[0], _sizes(arguments), chosen)) as scenes:
            for scene in scenes:
                holds = _measure(scene, chosen, arguments.rounds) and holds
        shutil.rmtree(folder)  # kept with its logs where a run failed
    return 0 if holds else 1


def _measure(scene: Scene, chosen: set[str], rounds: int) -> bool:
    """Writes what it finds, so that a later failure costs nothing of it."""
    results, facts = Results(), report.machine(scene.msh)
    results.measure(
        [figure for figure in scene.figures if is_chosen(figure.name, chosen)],
        [gauge for gauge in scene.gauges if is_chosen(gauge.name, chosen)],
        rounds,
    )
    report.show(results, facts)
    report.write(ROOT / "var" / "bench.json", results, facts)
    return results.hold


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=5, help="medians are of so many (5)")
    add("--long", action="store_true", help="measure what takes long, at its full size")
    add("--only", nargs="+", choices=NAMES, metavar="FIGURE", help=f"of {', '.join(NAMES)}")
    add("--stored", type=int, nargs="+", help="growth: messages stored, one size after the other")
    add("--stored-bytes", type=int, default=100, help="growth: of a byte string of theirs (100)")
    add("--quiet-partners", type=int, default=10_000, help="(10000)")
    add("--partners", type=int, default=1_000, help="choose_ms, drain, retry_storm (1000)")
    add("--queued", type=int, default=1_000_000, help="choose_ms, drain: in all (1000000)")
    add("--minutes", type=float, help="memory (60; 2 without --long)")
    add("--idle-seconds", type=float, default=30, help="(30)")
    arguments = parser.parse_args()
    long = arguments.long
    arguments.only = arguments.only or names_of(LONG if long else SHORT)
    every = (100_000, 1_000_000, 10_000_000) if long else (100_000,)
    arguments.stored = arguments.stored or every
    arguments.minutes = arguments.minutes or (60.0 if long else 2.0)
    return arguments


def _sizes(arguments: argparse.Namespace) -> Sizes:
    return Sizes(
        stored=tuple(sorted(arguments.stored)),
        stored_bytes=arguments.stored_bytes,
        quiet_partners=arguments.quiet_partners,
        partners=arguments.partners,
        queued=arguments.queued,
        minutes=arguments.minutes,
        idle_seconds=arguments.idle_seconds,
    )


if __name__ == "__main__":
    sys.exit(main())
