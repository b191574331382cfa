"""Spark's programs as the audit starts them: each a driver of its own, with a log and a summary."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from demo.machines import ROOT, DemoFailed, Machine

from .killer import Killer

TELL_EVERY = 5.0
TASKS = {"SPARK_MASTER": "local[2,4]"}
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Each Java lives for a minute: optimising its code costs more than that code then saves."""
CONNECT = {"SPARK_REMOTE": "local[2]", "SPARK_TESTING": "1"}
"""A server of Spark Connect, which takes a port that is free."""


@dataclass(slots=True)
class Jobs:
    folder: Path
    console: Console
    environment: Mapping[str, str]
    """Of an MSH: nothing of the one that runs the audit, if it is one."""
    seconds: dict[str, float] = field(default_factory=dict)

    async def job(
        self,
        name: str,
        *words: str,
        step: str = "",
        killer: Killer | None = None,
        spark: Mapping[str, str] = TASKS,
    ) -> dict[str, Any]:
        """Run a job of the bridge; its summary. Raises DemoFailed if it could not be done."""
        step = step or name
        summary = self.folder / f"{step}.json"
        given = (*words, "--summary", str(summary))
        await self.python(step, f"spark_bridge.{name}", *given, killer=killer, spark=spark)
        report: dict[str, Any] = json.loads(summary.read_text())
        return report

    async def python(
        self,
        step: str,
        module: str,
        *words: str,
        killer: Killer | None = None,
        spark: Mapping[str, str] = TASKS,
    ) -> None:
        """Raises DemoFailed unless it was done, or its driver was killed as it should be."""
        self.console.print(f"Spark: {step.replace('_', ' ')}.")
        log = self.folder / f"{step}.log"
        async with self.timed(step):
            with log.open("w") as output:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", module, *words),
                    cwd=ROOT,
                    env={**self.environment, **QUICK_JAVA, **spark},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            status = await self._end(step, process, killer)
        # 1: it was done, and its summary says what is wrong
        if status not in (0, 1) and not (killer and killer.drivers and killer.killed):
            raise DemoFailed(f"{step}: {_last_line(log)} See {log}")

    async def _end(
        self, step: str, process: asyncio.subprocess.Process, killer: Killer | None
    ) -> int:
        killing = asyncio.create_task(killer.work(process.pid)) if killer else None
        try:
            return await self._wait(step, process)
        finally:
            if killing:
                killing.cancel()
            if process.returncode is None:
                process.terminate()
                await process.wait()

    async def _wait(self, step: str, process: asyncio.subprocess.Process) -> int:
        """Its exit status; until then a line every few seconds."""
        began = time.monotonic()
        ending = asyncio.create_task(process.wait())
        try:
            while not (await asyncio.wait([ending], timeout=TELL_EVERY))[0]:
                seconds = time.monotonic() - began
                self.console.print(f"{step}: {seconds:.0f} s so far", highlight=False)
        finally:
            ending.cancel()
        return ending.result()

    @asynccontextmanager
    async def timed(self, step: str) -> AsyncIterator[None]:
        began = time.monotonic()
        yield
        self.seconds[step] = round(time.monotonic() - began, 1)

    def token(self, machine: Machine) -> Path:
        return self.folder / f"{machine.name}.token"

    def options(self, machine: Machine) -> dict[str, str]:
        """Of format `ebxml`."""
        return {"url": f"http://127.0.0.1:{machine.port}", "tokenFile": str(self.token(machine))}

    def server(self, machine: Machine, prefix: str = "") -> tuple[str, ...]:
        """The same for a job."""
        given = self.options(machine)
        return f"--{prefix}url", given["url"], f"--{prefix}token-file", given["tokenFile"]


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing."
