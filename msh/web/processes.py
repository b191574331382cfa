"""The web processes: forked by a parent that has loaded the applications, started again when they
end."""

import os
import signal
import socket
import time
from argparse import Namespace
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from msh import checks
from msh.processes import CANNOT_START, Restarts, die_with_parent

from .accepting import Counts
from .serve import bind, prepared, serve

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

STOP_SECONDS = 10.0  # more than serve.GRACEFUL: requests under way end first


def run(application: "WSGIApplication", given: Namespace) -> int:
    """The exit status, of the parent or of one of the processes. `given`: as of the command line.
    Raises OSError if nobody can listen there, and ImproperlyConfigured in a process that cannot
    serve."""
    if given.fd is None:
        listener = bind(given.host, given.port)
    else:
        listener = prepared(socket.socket(fileno=given.fd))
    counts = Counts(given.workers)
    try:
        return Parent(given.workers, counts, listener if given.fd is None else None).run()
    except Forked as forked:
        checks.require()
        serve(application, listener, given.threads, counts, forked.place)
        return 0


class Forked(BaseException):
    """Raised in a new web process, to leave what the parent was doing. `place`: which of them."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class Parent:
    """`listener` is closed in the end; None for one that goes on without us."""

    def __init__(self, count: int, counts: Counts, listener: socket.socket | None) -> None:
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

    def __init__(self, place: int, counts: Counts) -> None:
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
        """Wait until the process has ended. It is killed at the time `end` of `time.monotonic`."""
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
