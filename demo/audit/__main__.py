"""`make audit`: load orders by Spark, deliver them over a bad link, extract and reconcile them."""

import sys

from demo.command import run_command

from .options import add_arguments, options_of
from .run import run

if __name__ == "__main__":
    sys.exit(run_command("make audit", __doc__, add_arguments, options_of, run))
