"""Waiting for a condition, and looking at processes."""

import time
from collections.abc import Callable
from pathlib import Path


def wait_until(
    condition: Callable[[], object], *, seconds: float = 60, what: str | Callable[[], str] = ""
) -> None:
    """Return as soon as `condition()` holds; fail if it does not within `seconds`, and say `what`
    was waited for, and perhaps what there is instead by then."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            said = what() if callable(what) else what
            raise AssertionError(f"not within {seconds} seconds: {said or condition}")
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process is there and not just waiting for its parent to take note of its end."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def children(pid: int) -> list[int]:
    """Process ids of its direct children."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [
            int(word) for thread in threads for word in (thread / "children").read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid: int) -> list[int]:
    """Process ids of its children, their children, and so on."""
    return [p for child in children(pid) for p in (child, *descendants(child))]
