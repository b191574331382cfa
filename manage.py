#!/usr/bin/env python
"""Django's command line. `--data FOLDER` (or MSH_DATA) names the MSH that a command is for."""

import os
import sys

from msh import datafolder


def main() -> None:
    try:
        datafolder.load_from_arguments(sys.argv[1:])
    except datafolder.NotRunning as error:
        sys.exit(str(error))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
