"""Two people in the background of a run: one who kills processes, one who mends suspensions."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from .machines import DemoFailed, Machine

KILL_PAUSE = (2.0, 6.0)
LOOK_PAUSE = 1.0
REASON = "demo: the link is bad by design, the partner is known to be up"


@dataclass(slots=True)
class Killer:
    """Kills a random web, worker or beat process with SIGKILL; its supervisor starts it again."""

    machines: list[Machine]
    dice: Random
    kills: list[str] = field(default_factory=list)

    async def work(self) -> None:
        while True:
            await asyncio.sleep(self.dice.uniform(*KILL_PAUSE))
            machine = self.dice.choice(self.machines)
            # On a busy computer a start takes long: what has not come back need not be killed.
            if await machine.whole():
                self.strike(machine)

    def strike(self, machine: Machine) -> None:
        pids = machine.pids()
        if not pids:
            return
        name = self.dice.choice(sorted(pids))
        try:
            os.kill(pids[name], signal.SIGKILL)
        except ProcessLookupError:
            return
        self.kills.append(f"{machine.name}/{name}")


@dataclass(slots=True)
class Operator:
    """Resumes every suspended link through the command line, as a person would."""

    machines: list[Machine]
    suspended: Callable[[Machine], tuple[str, ...]]
    """The partners to whom an MSH has suspended sending."""
    resumes: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    async def work(self) -> None:
        while True:
            await asyncio.sleep(LOOK_PAUSE)
            for machine in self.machines:
                for partner in self.suspended(machine):
                    await self.resume(machine, partner)

    async def resume(self, machine: Machine, partner: str) -> None:
        try:
            await machine.manage("resume", partner, "--reason", REASON)
        except DemoFailed as error:
            self.refusals.append(str(error).splitlines()[-1])
        else:
            self.resumes.append(f"{machine.name}/{partner}")
