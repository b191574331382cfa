"""`make upgrade-test`: two MSHs exchange, one of them with many messages of the past; it is
migrated meanwhile as a later version would do it, and its processes are restarted one by one.

Fails if an answer is slower than the limit, or if the demo's checker finds a violation. The report
is var/upgrade/report.json.
"""

import argparse
import json
import sys

from rich.console import Console

from tests.upgrade.run import Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make upgrade-test",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--messages", type=int, default=1_000_000, help="of the past (1,000,000)")
    parser.add_argument("--seconds", type=float, default=20, help="before and after (20)")
    parser.add_argument("--limit", type=float, default=2.0, help="the slowest answer (2 s)")
    given = parser.parse_args()
    console = Console()
    status, report = run(Plan(given.messages, given.seconds, given.limit), console)
    console.print_json(json.dumps(report))
    return status


if __name__ == "__main__":
    sys.exit(main())
