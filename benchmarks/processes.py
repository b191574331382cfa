"""What an MSH takes while it runs: CPU when there is nothing to do, memory while it works."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from .exchange import Exchange
from .msh import megabytes
from .report import tell
from .spent import PROCESSES, by_spender
from .stage import EXCHANGING_PAIRS, Stage

_SETTLE = 5.0  # seconds until what an MSH does once, when it starts or when work ends, is over


class Idle:
    """CPU of one MSH, its PostgreSQL and Valkey included, that has nothing to do."""

    name = "idle"
    unit = "% of a core"
    at_most = 5.0

    def __init__(self, stage: Stage, seconds: float) -> None:
        self._stage = stage
        self._seconds = seconds
        self._by_role: dict[str, float] = {}

    def measure(self) -> float:
        msh = self._stage.sender
        with self._stage.only(msh):
            time.sleep(_SETTLE)
            before = by_spender(msh)
            time.sleep(self._seconds)
            after = by_spender(msh)
        self._by_role = {
            role: 100 * (spent - before[role]) / self._seconds for role, spent in after.items()
        }
        return self._by_role.pop("all")

    def facts(self) -> dict[str, Any]:
        rounded = {f"{role}_percent": round(spent, 2) for role, spent in self._by_role.items()}
        return {"seconds": self._seconds} | rounded


class Memory:
    """How much more the processes of both MSHs have after so many minutes of exchange_16 than after
    the first tenth of them. PostgreSQL and Valkey are not counted: they fill what they are given.
    """

    name = "memory"
    unit = "% more"
    at_most = 0.0

    def __init__(self, stage: Stage, minutes: float) -> None:
        self._stage = stage
        self._minutes = minutes
        self._exchange = Exchange(stage, EXCHANGING_PAIRS, messages=200, prototype_messages=1)
        self._samples: list[tuple[float, float]] = []
        """Minutes and megabytes."""
        self._ends: dict[str, dict[str, float]] = {}

    def measure(self) -> float:
        began, minutes = time.monotonic(), 0.0
        while minutes < self._minutes or len(self._samples) < 2:
            self._exchange.product()
            minutes = (time.monotonic() - began) / 60
            by_role = self._megabytes()
            total = sum(by_role.values())
            if minutes <= self._minutes / 10 or not self._ends:
                self._ends["first_mb"] = by_role
            self._ends["last_mb"] = by_role
            self._samples.append((round(minutes, 2), round(total, 1)))
            tell(f"memory: {total:,.0f} MB after {minutes:.1f} of {self._minutes:g} minutes")
        first, last = (sum(each.values()) for each in self._ends.values())
        return 100 * (last / first - 1)

    def facts(self) -> dict[str, Any]:
        messages = {"minutes": self._minutes, "messages": self._exchange.facts()["messages"]}
        return messages | self._ends | {"samples": self._samples}

    def _megabytes(self) -> dict[str, float]:
        return {
            f"{msh.folder.name} {role}": round(_total(megabytes, msh.processes_of(role)), 1)
            for msh in (self._stage.sender, self._stage.receiver)
            for role in PROCESSES
        }


def _total(measure: Callable[[int], float], pids: Iterable[int]) -> float:
    total = 0.0
    for pid in pids:
        with suppress(OSError):
            total += measure(pid)
    return total
