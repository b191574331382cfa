"""Keeps a set of child processes running: one that ends is started again after a short wait."""

import logging
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from msh.processes import Restarts, spawn, stop

logger = logging.getLogger(__name__)

STOP_SECONDS = 10.0
LONGEST_HOLD = 60.0  # seconds that `may_start` can delay a start


def _always() -> bool:
    return True


@dataclass(slots=True)
class Child:
    """One process to keep running. `pid_file` and `log` are files; `name` is for people.

    `may_start` is asked before each start. Where it says no for LONGEST_HOLD, the process is
    started all the same. `listener` is open in it, by the same number.
    """

    name: str
    command: Sequence[str]
    pid_file: Path
    log: Path
    may_start: Callable[[], bool] = _always
    listener: socket.socket | None = None
    process: subprocess.Popen[bytes] | None = None
    restarts: Restarts = field(default_factory=Restarts)


class Supervisor:
    """Use it as a context, from the main thread; `watch` now and then restarts what has ended.

    Leaving the context ends the children.
    """

    def __init__(
        self, children: Sequence[Child], *, cwd: Path | None, env: Mapping[str, str]
    ) -> None:
        self._children = children
        self._cwd = cwd
        self._env = env

    def watch(self) -> None:
        """Start what has to be started. Waits for nothing but the answers of `may_start`."""
        now = time.monotonic()
        for child in self._children:
            status = child.process.poll() if child.process else None
            if status is not None:
                logger.warning("%s has ended (%d), starting it again", child.name, status)
                child.restarts.note_end(now)
                child.process = None
            if child.process is None and child.restarts.is_due(now) and _is_let(child, now):
                self._start(child, now)

    def __enter__(self) -> Self:
        now = time.monotonic()
        for child in self._children:
            child.restarts.start_at = now
        self.watch()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        running = [child.process for child in self._children if child.process]
        for process in running:
            process.terminate()
        for process in running:
            stop(process, seconds=STOP_SECONDS)
        for child in self._children:
            child.pid_file.unlink(missing_ok=True)

    def _start(self, child: Child, now: float) -> None:
        keep = [child.listener.fileno()] if child.listener else []
        child.process = spawn(child.command, log=child.log, cwd=self._cwd, env=self._env, keep=keep)
        child.restarts.note_start(now)
        new = child.pid_file.with_suffix(".new")  # a reader finds the old number or the new one
        new.write_text(f"{child.process.pid}\n")
        new.replace(child.pid_file)


def _is_let(child: Child, now: float) -> bool:
    if child.may_start():
        return True
    held = now - child.restarts.start_at
    if held < LONGEST_HOLD:
        return False
    logger.warning(
        ("%s has waited %.0f s for the process that it depends on, starting it"), child.name, held
    )
    return True
