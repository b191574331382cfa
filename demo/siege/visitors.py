"""Who else is at the MSHs during a siege: a monitor, an operator in the console, an application."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from demo.machines import DemoFailed, Machine

from . import watch
from .cast import BEST_EFFORT, LARGE_LANES, LARGE_SIZE, PREFIX, WINDOWS, Side
from .console import Client, Look, submission, submissions

MONITOR_EVERY = 1.0
VISIT_EVERY = 3.0


class Visitors:
    """`looks` are all their requests."""

    def __init__(self, machines: Sequence[Machine], scenarios: Sequence[str]) -> None:
        self.machines = machines
        self.scenarios = scenarios
        self._asked: dict[str, float] = {}
        self._monitors = {one.name: Client(one.port) for one in machines}
        self._operators = {one.name: Client(one.port) for one in machines}
        self._applications = {one.name: Client(one.port) for one in machines}
        self._filled = False

    @property
    def looks(self) -> list[Look]:
        clients = (*self._monitors.values(), *self._operators.values())
        return [look for one in (*clients, *self._applications.values()) for look in one.looks]

    async def prepare(self) -> None:
        """Log in, and make a token: the MSHs have to run."""
        for machine in self.machines:
            secret = await machine.manage("token", "siege", "--scopes", "send,read")
            self._applications[machine.name].token = secret.strip()
            operator = self._operators[machine.name]
            if not await asyncio.to_thread(operator.log_in, "admin", machine.password):
                raise DemoFailed(f"No log-in at {machine.console}: {operator.looks}")

    def slowest_health(self) -> float:
        """Seconds that the last answers of /health/live took, or that one is waited for."""
        answered = [one.looks[-1].seconds for one in self._monitors.values() if one.looks]
        waited = [time.monotonic() - asked for asked in self._asked.values()]
        return max([*answered, *waited], default=0.0)

    async def monitor(self) -> None:
        """Ask for the health, the log-in page and the dashboard, for ever."""
        await asyncio.gather(*(self._monitor(machine.name) for machine in self.machines))

    async def _monitor(self, name: str) -> None:
        while True:
            monitor, operator = self._monitors[name], self._operators[name]
            self._asked[name] = time.monotonic()
            await asyncio.to_thread(monitor.get, "health", "/health/live")
            del self._asked[name]
            await asyncio.to_thread(operator.get, "dashboard", "/admin/")
            await asyncio.sleep(MONITOR_EVERY)

    async def visit(self, scenarios: Sequence[str], sides: Sequence[Side]) -> None:
        """Do what goes with the scenarios, until it is cancelled."""
        await asyncio.gather(*(self._visit(scenarios, side) for side in sides))

    async def _visit(self, scenarios: Sequence[str], side: Side) -> None:
        url = next(one for one in self.machines if one.name == side.machine).database_url
        if WINDOWS in scenarios and not self._filled:
            await self._fill(side)
        while scenarios:
            await asyncio.sleep(VISIT_EVERY)
            if "charset" in scenarios:
                await self._open(side, url, "charset", "payload page", "/payload/1/")
            if "copies" in scenarios:
                await self._open(side, url, "copies", "message page", "/change/")
                await self._history(side, url)

    async def _open(self, side: Side, url: str, scenario: str, what: str, end: str) -> None:
        found = await asyncio.to_thread(watch.newest, url, f"{PREFIX}{scenario}")
        if found:
            path = f"/admin/msh/inboundmessage/{found[0]}{end}"
            await asyncio.to_thread(self._operators[side.machine].get, what, path)

    async def _history(self, side: Side, url: str) -> None:
        found = await asyncio.to_thread(watch.newest, url, f"{PREFIX}copies")
        if found:
            path = f"/api/v1/messages/{found[1]}/history"
            await asyncio.to_thread(self._applications[side.machine].get, "history by API", path)

    async def _fill(self, side: Side) -> None:
        """Queue more for the hostile partner than one look of the product takes."""
        application = self._applications[side.machine]
        lines = b"".join(
            submissions(f"tpa-{PREFIX}best-effort", f"{PREFIX}best-effort-", BEST_EFFORT)
        )
        post = application.post
        bulk = ("/api/v1/messages/bulk", lines, "application/x-ndjson")
        await asyncio.to_thread(post, "submit in bulk", *bulk)
        for number in range(LARGE_LANES):
            name = f"{PREFIX}large-{number}"
            body = submission(f"tpa-{name}", f"{name}-1", LARGE_SIZE)
            single = ("/api/v1/messages", body, "application/json")
            with suppress(OSError):
                await asyncio.to_thread(post, "submit", *single)
        self._filled = True
