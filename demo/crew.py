"""What runs beside the exchange: a killer of processes, and an operator that resumes links."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .http11 import HOST, NotUnderstoodError, Request, exchange
from .machines import DemoFailed, Machine
from .watch import Held

KILL_PAUSE = (2.0, 6.0)
LOOK_PAUSE = 1.0
REASON = "demo: the link is bad by design, the partner is known to be up"
_SUSPENDED = "/api/v1/links?state=suspended"
_RESUMED_AT_ONCE = 4


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


class RefusedError(Exception):
    """The API did not do what was asked: one line that says why."""


@dataclass(slots=True)
class Operator:
    """Resumes every suspended link through the REST API, as a program of the operators would, and
    every message held by a command, for the API has none for it."""

    machines: list[Machine]
    any_suspended: Callable[[Machine], bool]
    """Whether it is worth asking an MSH."""
    cares_for: Callable[[str], bool] = lambda partner: True
    """Whether the link to this partner is to be resumed."""
    held: Callable[[Machine], Sequence[Held]] = lambda machine: ()
    """Messages of an MSH that wait for an operator."""
    resumes: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    _tokens: dict[str, str] = field(default_factory=dict)

    async def work(self) -> None:
        """Needs MSHs that run. Goes on until it is cancelled."""
        await asyncio.gather(*(self._work_at(machine) for machine in self.machines))

    async def _work_at(self, machine: Machine) -> None:
        words = ("token", "demo-operator", "--scopes", "operate", "--user", "admin")
        self._tokens[machine.name] = (await machine.manage(*words)).strip()
        while True:
            await asyncio.sleep(LOOK_PAUSE)
            if self.any_suspended(machine):
                await self.resume_all(machine)
            for partner, message_id in self.held(machine):
                await self._resume_message(machine, partner, message_id)

    async def _resume_message(self, machine: Machine, partner: str, message_id: str) -> None:
        name = f"{machine.name}/{partner}/{message_id}"
        try:
            await machine.manage("resume", partner, "--message", message_id, "--reason", REASON)
        except DemoFailed as refused:
            self.refusals.append(f"{name}: {refused}")
        else:
            self.resumes.append(name)

    async def resume_all(self, machine: Machine) -> None:
        """Resume what is suspended just now. What is refused, the next look meets again."""
        try:
            links = (await self._ask(machine, "GET", _SUSPENDED))["results"]
        except RefusedError as refused:
            self.refusals.append(f"{machine.name}: {refused}")
            return
        turns = asyncio.Semaphore(_RESUMED_AT_ONCE)
        ours = [link for link in links if self.cares_for(link["partner"])]
        await asyncio.gather(*(self._resume(machine, link, turns) for link in ours))

    async def _resume(
        self, machine: Machine, link: dict[str, Any], turns: asyncio.Semaphore
    ) -> None:
        name = f"{machine.name}/{link['partner']}"
        try:
            async with turns:
                await self._ask(machine, "POST", f"/api/v1/links/{link['id']}/resume", REASON)
        except RefusedError as refused:
            self.refusals.append(f"{name}: {refused}")
        else:
            self.resumes.append(name)

    async def _ask(self, machine: Machine, method: str, path: str, reason: str = "") -> Any:
        body = json.dumps({"reason": reason}).encode() if reason else b""
        headers = (
            ("Authorization", f"Bearer {self._tokens[machine.name]}"),
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
        )
        try:
            answer = await exchange(HOST, machine.port, Request(method, path, headers, body))
            document = json.loads(answer.body)
        except (OSError, NotUnderstoodError, ValueError) as error:
            raise RefusedError(f"{type(error).__name__}: {error}") from error
        if answer.status != 200:
            raise RefusedError(f"{answer.status} {document.get('detail', '')}")
        return document
