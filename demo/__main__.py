"""`make demo`: exchange documents between two MSHs over a bad link, and check the result."""

import sys

from demo.command import run_command

from .options import add_arguments, options_of
from .run import run

if __name__ == "__main__":
    sys.exit(run_command("make demo", __doc__, add_arguments, options_of, run))
