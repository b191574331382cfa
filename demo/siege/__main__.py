"""`make siege`: what honest partners feel of a hostile one, `var/siege.json`."""

import argparse
import sys

from rich.console import Console

from .cast import ALL
from .run import Options, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make siege", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="calm and hostile (10)")
    parser.add_argument("--pairs", type=int, default=50, help="honest ones (50)")
    parser.add_argument("--rate", type=float, default=6.0, help="honest messages a second (6)")
    parser.add_argument("--phase", type=float, default=30.0, help="seconds of a phase (30)")
    parser.add_argument("--seed", type=int, default=1, help="of faults and orders (1)")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=ALL,
        default=list(ALL),
        metavar="SCENARIO",
        help=f"of {', '.join(ALL)}",
    )
    parser.add_argument(
        "--in-turn", action="store_true", help="one scenario in a phase, to see which is felt"
    )
    arguments = parser.parse_args()
    if arguments.minutes <= 0 or arguments.pairs < 2 or arguments.rate <= 0:
        parser.error("a siege needs minutes, at least two pairs, and a rate")
    return run(Options(**vars(arguments)), Console())


if __name__ == "__main__":
    sys.exit(main())
