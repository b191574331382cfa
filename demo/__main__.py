"""`make demo`: exchange documents between two MSHs over a bad link, and check the result."""

import argparse
import sys

from rich.console import Console

from .options import add_arguments, options_of
from .run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    add_arguments(parser)
    try:
        options = options_of(vars(parser.parse_args()))
    except ValueError as error:
        parser.error(str(error))
    return run(options, Console())


if __name__ == "__main__":
    sys.exit(main())
