"""The memory of an MSH's processes over time, by the tables of the kernel."""

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PRODUCT = ("web", "worker", "beat", "up")
SUPERVISOR = "up"


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident memory of one process with all that it has started, of `up` alone."""

    name: str
    at: float
    """Monotonic, seconds."""
    megabytes: float
    pid: int


def samples(machine: str, folder: Path) -> Iterator[Sample]:
    """Of every process whose pid file is there: `machine/name`."""
    children = _children()
    for file in sorted((folder / "run").glob("*.pid")):
        try:
            pid = int(file.read_text())
        except (OSError, ValueError):
            continue
        alone = file.stem == SUPERVISOR  # all others are its children
        megabytes = sum(map(_resident, [pid] if alone else _family(pid, children)))
        if megabytes:
            yield Sample(f"{machine}/{file.stem}", time.monotonic(), megabytes, pid)


def by_name(taken: Sequence[Sample]) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in taken:
        found[sample.name].append(sample)
    return dict(found)


def _family(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    yield pid
    for child in children.get(pid, ()):
        yield from _family(child, children)


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        parent = int(text.rpartition(")")[2].split()[1])
        found[parent].append(int(stat.parent.name))
    return found


def _resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
