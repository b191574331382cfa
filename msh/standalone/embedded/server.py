"""The base of both servers: a process on a free port of 127.0.0.1, which counts as started when it
answers."""

import importlib.util
import logging
import signal
import socket
import subprocess
import time
from pathlib import Path

from msh.processes import Restarts, stop

logger = logging.getLogger(__name__)

START_SECONDS = 60.0  # PostgreSQL that was killed replays its log first
_TRIES = 5  # a free port may be taken between our look and the server's


class ServerUnavailable(Exception):
    """A server is not there or does not start: one line that says so, with the cure."""


class Server:
    name: str
    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log" / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._has_ended = False  # and was not started again yet
        self._port = 0
        self._restarts = Restarts()

    @property
    def pid(self) -> int:
        """Its process id; 0 if it was not started."""
        return self._process.pid if self._process else 0

    def begin(self, port: int) -> subprocess.Popen[bytes]:
        raise NotImplementedError

    def answers(self, pid: int, port: int) -> bool:
        raise NotImplementedError

    def launch(self) -> int:
        """Start the process on a free port, wait until it answers there, return the port."""
        for _ in range(_TRIES):
            self._port = _free_port()
            self._restarts.note_start(time.monotonic())
            self._process = self.begin(self._port)
            if self._comes_up(self._process, self._port):
                return self._port
        raise self.failure("does not start")

    def watch(self) -> None:
        """Start it again on its port if it was launched and has ended. Never waits for it."""
        if self._process is None:
            return
        now = time.monotonic()
        status = self._process.poll()
        if status is not None and not self._has_ended:
            logger.warning("%s has ended (%d), starting it again", self.name, status)
            self._has_ended = True
            self._restarts.note_end(now)
        if self._has_ended and self._restarts.is_due(now):
            self._process = self.begin(self._port)
            self._has_ended = False
            self._restarts.note_start(now)

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process, by=self.stop_signal, seconds=30)
            self._process = None

    def failure(self, what: str) -> ServerUnavailable:
        return ServerUnavailable(f"{self.name} {what}; the end of {self.log} says why")

    def _comes_up(self, process: subprocess.Popen[bytes], port: int) -> bool:
        end = time.monotonic() + START_SECONDS
        while process.poll() is None:
            if self.answers(process.pid, port):
                return True
            if time.monotonic() > end:
                self.stop()
                raise self.failure(f"does not answer within {START_SECONDS:.0f} seconds")
            time.sleep(0.01)
        return False


def wheel_folder(package: str) -> Path | None:
    """Where a wheel lies, without importing it."""
    spec = importlib.util.find_spec(package)
    return Path(next(iter(spec.submodule_search_locations or ()))) if spec else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
