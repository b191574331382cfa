"""`python -m msh.web`: the web processes, kept running until SIGTERM or SIGINT.

The parent loads the applications and forks the processes: they share what is loaded, and one that
has ended is replaced at once.
"""

import os
import signal
import socket
import sys
import threading
import time
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from msh.processes import Restarts, die_with_parent

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from .accepting import Counts

WORKERS = 2
THREADS = 8
CANNOT_START = 3
"""Exit status of a process that would fail the same way again."""
STOP_SECONDS = 10.0  # more than serve.GRACEFUL: requests under way end first


def main() -> int:
    given = _arguments()
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415  not for --help

    try:
        application = _load()
    except ImproperlyConfigured as problem:
        _report(problem)
        return 1
    from .accepting import Counts  # noqa: PLC0415  not for --help
    from .serve import bind, prepared  # noqa: PLC0415

    try:
        if given.fd is None:
            listener = bind(given.host, given.port)
        else:
            listener = prepared(socket.socket(fileno=given.fd))
    except OSError as problem:
        _report(problem)
        return 1
    counts = Counts(given.workers)
    try:
        return Parent(given.workers, counts, listener if given.fd is None else None).run()
    except Forked as forked:
        return _work(application, given, listener, counts, forked.place)


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


def _load() -> "WSGIApplication":
    """Raises ImproperlyConfigured, also for threads that loading starts: a forked process would not
    have them. Who has started some before, as monitoring agents do, knows of forks."""
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415
    from django.db import connections  # noqa: PLC0415

    before = set(threading.enumerate())
    from msh.wsgi import application  # noqa: PLC0415  sets Django up

    from . import serve  # noqa: F401, PLC0415

    connections.close_all()
    started = [one.name for one in threading.enumerate() if one not in before]
    if started:
        raise ImproperlyConfigured(
            f"threads were started while the applications were loaded: {', '.join(started)}. The "
            "web processes would not have them: start them when they are first used."
        )
    return application


class Forked(BaseException):
    """Raised in a new web process, to leave what the parent was doing. `place`: which of them."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class Parent:
    """`listener` is closed in the end; None for one that goes on without us."""

    def __init__(self, count: int, counts: "Counts", listener: socket.socket | None) -> None:
        self._pid = os.getpid()
        self._listener = listener
        self._children = [Worker(place, counts) for place in range(count)]
        self._ends = False

    def run(self) -> int:
        """The exit status: 1 if they cannot be started. Raises Forked in each of them."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        try:
            while not self._ends:
                for child in self._children:
                    if child.watch() == CANNOT_START:
                        return 1
                time.sleep(0.05)
            return 0
        except Forked:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            if self._ends:  # asked between fork and here
                os._exit(0)
            die_with_parent(self._pid)
            raise
        finally:
            if os.getpid() == self._pid:
                self._stop()

    def _stop(self) -> None:
        for child in self._children:
            child.ask_to_end()
        if self._listener:
            with suppress(OSError):  # nobody has listened on it
                self._listener.shutdown(socket.SHUT_RDWR)
        end = time.monotonic() + STOP_SECONDS
        for child in self._children:
            child.wait(end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ends = True


class Worker:
    """One process, started again when it ends."""

    def __init__(self, place: int, counts: "Counts") -> None:
        self._place = place
        self._counts = counts
        self._pid = 0
        self._restarts = Restarts()

    def watch(self) -> int | None:
        """Start it if it is time to. Its exit status, if it has just ended."""
        now = time.monotonic()
        status = self._exit_status()
        if status is not None:
            self._restarts.note_end(now)
            self._counts.note_end(self._place)
        if not self._pid and self._restarts.is_due(now) and status != CANNOT_START:
            self._pid = os.fork()
            if not self._pid:
                raise Forked(self._place)
            self._restarts.note_start(now)
        return status

    def ask_to_end(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGTERM)

    def wait(self, end: float) -> None:
        """Until it has ended; killed at `end`, by `time.monotonic`."""
        while self._pid and self._exit_status() is None:
            if time.monotonic() > end:
                os.kill(self._pid, signal.SIGKILL)
            time.sleep(0.02)

    def _exit_status(self) -> int | None:
        if not self._pid:
            return None
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return None
        self._pid = 0
        return os.waitstatus_to_exitcode(status)


def _work(
    application: "WSGIApplication",
    given: Namespace,
    listener: socket.socket,
    counts: "Counts",
    place: int,
) -> int:
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415  Django is set up

    from msh import checks  # noqa: PLC0415

    from .serve import serve  # noqa: PLC0415

    try:
        checks.require()
    except ImproperlyConfigured as problem:
        _report(problem)
        return CANNOT_START
    serve(application, listener, given.threads, counts, place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
