"""Child processes that never outlive us: on a clean end, on Ctrl-C, on kill -9. Standard library.

Ctrl-C reaches only the parent, for each child is its own session: the parent decides the order of
ending. On Linux the kernel ends a child whose parent was killed; elsewhere only the parent does.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

FIRST_WAIT = 0.1  # seconds from an end to the new start; doubled while it keeps ending at once
LONGEST_WAIT = 10.0  # seconds
SETTLED = 5.0  # seconds after which a process counts as started
CANNOT_START = 3
"""Exit status of a process that would fail the same way again."""
UNLIMITED_FILES = 1 << 20  # where the system has no limit
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h
_libc = ctypes.CDLL(None)  # loaded here: between fork and exec nothing may be imported


@dataclass(frozen=True, slots=True)
class User:
    """The user that a child process runs as."""

    uid: int
    gid: int


@dataclass(slots=True)
class Restarts:
    """When a process is started again. Times in seconds of `time.monotonic`."""

    wait: float = FIRST_WAIT
    start_at: float = 0.0
    _started_at: float = 0.0

    def is_due(self, now: float) -> bool:
        return self.start_at <= now

    def note_start(self, now: float) -> None:
        self._started_at = now

    def note_end(self, now: float) -> None:
        settled = now - self._started_at > SETTLED
        self.wait = FIRST_WAIT if settled else min(2 * self.wait, LONGEST_WAIT)
        self.start_at = now + self.wait


def die_with_parent(parent: int, death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send us `death_signal` when process `parent` is gone, or die now if it is.

    Runs between fork and exec too. A change of user clears it, so it comes after that.
    """
    if sys.platform != "linux":
        return
    _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal))
    if os.getppid() != parent:
        os._exit(1)


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    death_signal: signal.Signals = signal.SIGKILL,
    user: User | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `command`, its output appended to `log`, `stdin` (less than 4 KiB) for it to read. The
    files `keep` are open in it, by the same numbers.

    Call it from the main thread: the kernel ties the child to the thread that made it.
    """
    parent = os.getpid()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output, _readable(stdin) as given:
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=given,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent, death_signal),  # noqa: PLW1509
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
            pass_fds=keep,
        )


def stop(
    process: subprocess.Popen[bytes], *, by: signal.Signals = signal.SIGTERM, seconds: float = 10
) -> None:
    """End the process: asked by signal `by`, and after `seconds` killed with all its children."""
    if process.poll() is not None:
        return
    process.send_signal(by)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _readable(content: bytes) -> IO[bytes]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(content)
    return os.fdopen(reader, "rb")


def raise_file_limit() -> int:
    """Have this process open as many files, and so connections, as it may; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else UNLIMITED_FILES
