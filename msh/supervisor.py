"""Keeps a set of child processes running: one that ends is started again after a short wait."""

import logging
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from msh.processes import spawn, stop

logger = logging.getLogger(__name__)

FIRST_WAIT = 0.1  # seconds from an end to the new start; doubled while it keeps ending at once
LONGEST_WAIT = 10.0
SETTLED = 5.0  # seconds after which a process counts as started
STOP_SECONDS = 10.0


@dataclass(slots=True)
class Child:
    """One process to keep running. `pid_file` and `log` are files; `name` is for people."""

    name: str
    command: Sequence[str]
    pid_file: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    wait: float = FIRST_WAIT


class Supervisor:
    """Use it as a context, from the main thread; `watch` now and then restarts what has ended.

    Leaving the context ends the children.
    """

    def __init__(self, children: Sequence[Child], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._children = children
        self._cwd = cwd
        self._env = env

    def watch(self) -> None:
        """Start what has to be started. Never waits."""
        now = time.monotonic()
        for child in self._children:
            status = child.process.poll() if child.process else None
            if status is not None:
                self._note_end(child, status, now)
            if child.process is None and child.start_at <= now:
                self._start(child, now)

    def __enter__(self) -> Self:
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
        child.process = spawn(child.command, log=child.log, cwd=self._cwd, env=self._env)
        child.started_at = now
        new = child.pid_file.with_suffix(".new")  # a reader finds the old number or the new one
        new.write_text(f"{child.process.pid}\n")
        new.replace(child.pid_file)

    def _note_end(self, child: Child, status: int, now: float) -> None:
        settled = now - child.started_at > SETTLED
        child.wait = FIRST_WAIT if settled else min(2 * child.wait, LONGEST_WAIT)
        child.start_at = now + child.wait
        logger.warning("%s has ended (%d), starting it again", child.name, status)
        child.process = None
