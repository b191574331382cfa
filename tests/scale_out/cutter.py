"""Cuts machines off in the middle of work, one after the other: packets are dropped, and no
connection is closed."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.scale_out.fleet import Fleet

BETWEEN = 5.0
"""Seconds in which all machines can be reached."""


@dataclass
class Cutter:
    fleet: Fleet
    names: Sequence[str]
    seconds: float
    """That each is cut off; the servers take a machine for lost after 8."""
    may_begin: Callable[[], bool]
    """Asked until it says so: only what is at work is worth cutting off."""
    done: list[str] = field(default_factory=list)

    @property
    def plan_seconds(self) -> float:
        return len(self.names) * (self.seconds + BETWEEN)

    async def work(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            if self.may_begin():
                break
        for name in self.names:
            await asyncio.sleep(BETWEEN)
            node = self.fleet.nodes[name]
            node.vanish()
            try:
                await asyncio.sleep(self.seconds)
            finally:
                node.come_back()
            self.done.append(name)
        await asyncio.Event().wait()
