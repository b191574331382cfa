"""`python -m msh.web`: the web processes, kept running until SIGTERM or SIGINT.

The parent loads the applications and forks the processes: they share what is loaded, and one that
has ended is replaced at once.
"""

import os
import sys
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.utils.module_loading import import_string

from msh.processes import CANNOT_START

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    Run = Callable[[WSGIApplication, Namespace], int]

WORKERS = 2
THREADS = 8


def main() -> int:
    given, parent = _arguments(), os.getpid()
    try:
        application, run = _load()
    except ImproperlyConfigured as problem:
        _report(problem)
        return 1
    try:
        return run(application, given)
    except ImproperlyConfigured as problem:  # of one of the processes
        _report(problem)
        return CANNOT_START
    except OSError as problem:
        if os.getpid() != parent:
            raise
        _report(problem)
        return 1


def _arguments() -> Namespace:
    parser = ArgumentParser("python -m msh.web", description="Serve partners, API and console.")
    parser.add_argument("--host", default="127.0.0.1", help="an IP address (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="(8000)")
    parser.add_argument(
        "--fd", type=int, help="number of an open socket to serve instead; it is not closed"
    )
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"processes ({WORKERS})")
    parser.add_argument("--threads", type=int, default=THREADS, help=f"of each ({THREADS})")
    return parser.parse_args()


def _report(problem: Exception) -> None:
    print(f"the web server cannot start: {problem}", file=sys.stderr, flush=True)  # noqa: T201


def _load() -> "tuple[WSGIApplication, Run]":
    """Return the application, and what serves it.

    Raises ImproperlyConfigured, also for threads that loading starts: a forked process would not
    have them. Who has started some before, as monitoring agents do, knows of forks."""
    before = set(threading.enumerate())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "msh.settings")
    application: WSGIApplication = import_string(settings.WSGI_APPLICATION)  # sets Django up
    from .processes import run  # noqa: PLC0415  needs Django; is shared by the processes, too

    connections.close_all()
    started = [one.name for one in threading.enumerate() if one not in before]
    if started:
        raise ImproperlyConfigured(
            f"threads were started while the applications were loaded: {', '.join(started)}. The "
            "web processes would not have them: start them when they are first used."
        )
    return application, run


if __name__ == "__main__":
    sys.exit(main())
