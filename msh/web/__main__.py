"""`python -m msh.web`: the web processes, kept running until SIGTERM or SIGINT.

The parent only starts them: it loads nothing of Django.
"""

import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from types import FrameType

from msh.processes import Restarts, die_with_parent, stop

WORKERS = 2
THREADS = 8
CANNOT_START = 3
"""Exit status of a process that would fail the same way again."""
STOP_SECONDS = 10.0  # more than serve.GRACEFUL: requests under way end first


def main() -> int:
    given = _arguments()
    return _work(given) if given.worker else Parent(given).run()


def _arguments() -> Namespace:
    parser = ArgumentParser("python -m msh.web", description="Serve partners, API and console.")
    parser.add_argument("--host", default="127.0.0.1", help="an IP address (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="(8000)")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"processes ({WORKERS})")
    parser.add_argument("--threads", type=int, default=THREADS, help=f"of each ({THREADS})")
    parser.add_argument("--worker", type=int, help="be one: the process id of the parent")
    return parser.parse_args()


class Parent:
    def __init__(self, given: Namespace) -> None:
        self._command = [
            *(sys.executable, "-m", "msh.web", "--host", given.host, "--port", str(given.port)),
            *("--threads", str(given.threads), "--worker", str(os.getpid())),
        ]
        self._count = given.workers
        self._ends = False

    def run(self) -> int:
        """The exit status: 1 if they cannot be started."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        children = [Worker(self._command) for _ in range(self._count)]
        try:
            while not self._ends:
                for child in children:
                    if child.watch() == CANNOT_START:
                        return 1
                time.sleep(0.05)
            return 0
        finally:
            for child in children:
                child.ask_to_end()
            for child in children:
                child.stop()

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ends = True


class Worker:
    """One process, started again when it ends."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._restarts = Restarts()

    def watch(self) -> int | None:
        """Start it if it is time to. Its exit status, if it has just ended."""
        now = time.monotonic()
        status = self._process.poll() if self._process else None
        if status is not None:
            self._restarts.note_end(now)
            self._process = None
        if self._process is None and self._restarts.is_due(now) and status != CANNOT_START:
            self._process = subprocess.Popen(self._command)
            self._restarts.note_start(now)
        return status

    def ask_to_end(self) -> None:
        if self._process:
            self._process.terminate()

    def stop(self) -> None:
        if self._process:
            stop(self._process, seconds=STOP_SECONDS)


def _work(given: Namespace) -> int:
    die_with_parent(given.worker)
    from django.core.exceptions import ImproperlyConfigured  # noqa: PLC0415  not in the parent

    try:
        from msh.wsgi import application  # noqa: PLC0415, I001  sets Django up

        from msh import checks  # noqa: PLC0415

        from .serve import listen, serve  # noqa: PLC0415  needs Django set up

        checks.require()
        listener = listen(given.host, given.port)
    except (ImproperlyConfigured, OSError) as problem:
        print(f"the web server cannot start: {problem}", file=sys.stderr, flush=True)  # noqa: T201
        return CANNOT_START
    serve(application, listener, given.threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
