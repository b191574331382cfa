"""The processes of a Spark that runs on this machine, by the tables of the kernel."""

from collections.abc import Iterator
from pathlib import Path


def tasks_of(driver: int) -> Iterator[int]:
    """The Python processes that the daemon of PySpark has forked for the tasks of a driver."""
    for pid in descendants(driver):
        if _is_daemon(pid):
            yield from (child for child in children(pid) if _is_daemon(child))


def descendants(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from descendants(child)


def children(pid: int) -> list[int]:
    """None of a process that is gone."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        texts = [(thread / "children").read_text() for thread in threads]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(word) for text in texts for word in text.split()]


def program(pid: int) -> list[bytes]:
    """Its command line; nothing of a process that is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_daemon(pid: int) -> bool:
    words = program(pid)
    return b"pyspark.daemon" in words and b"pyspark.worker" in words
