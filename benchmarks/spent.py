"""CPU that MSHs take for a message, by what spends it: their processes and their servers. What
produces the load, and the floors, are not in it."""

import os
import statistics
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .msh import Msh

PROCESSES = ("web", "worker", "beat")
SERVERS = {"postgres": "PostgreSQL", "valkey-server": "Valkey", "redis-server": "Valkey"}
_TICKS = os.sysconf("SC_CLK_TCK")


class Spent:
    """Milliseconds of CPU for one message, the median of the rounds."""

    def __init__(self, *mshs: Msh) -> None:
        self._mshs = mshs
        self._before: Counter[str] = Counter()
        self._rounds: list[dict[str, float]] = []

    def begin(self) -> None:
        self._before = self._seconds()

    def end(self, messages: int) -> None:
        """A round is over in which the MSHs did nothing but so many messages."""
        spent = self._seconds()
        self._rounds.append(
            {name: 1000 * (spent[name] - self._before[name]) / messages for name in spent}
        )

    def facts(self) -> dict[str, Any]:
        names = self._rounds[0] if self._rounds else ()
        return {
            "cpu_ms": {
                name: round(statistics.median(each[name] for each in self._rounds), 4)
                for name in names
            }
        }

    def _seconds(self) -> Counter[str]:
        found = Counter[str]()
        for msh in self._mshs:
            found.update(by_spender(msh))
        return found


def by_spender(msh: Msh) -> dict[str, float]:
    """Seconds of CPU so far, and of "all"."""
    found = {name: cpu_seconds(msh.processes_of(name)) for name in PROCESSES}
    found |= dict.fromkeys(SERVERS.values(), 0.0)
    for pid in (pids := msh.processes()):
        with suppress(OSError):  # it has ended
            if server := SERVERS.get(Path(f"/proc/{pid}/comm").read_text().strip()):
                found[server] += cpu_seconds([pid])
    return found | {"all": cpu_seconds(pids)}


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time, that of children which have ended included."""
    ticks = 0
    for pid in pids:
        with suppress(OSError):  # it has ended: its parent has its time
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS
