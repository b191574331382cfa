"""The process of the hostile partner, as the siege orders it about."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Self

from demo.machines import ROOT, DemoFailed

from .messages import Account

END_WITHIN = 30.0


class Attacker:
    def __init__(self, folder: Path) -> None:
        self._plan = folder / "hostile.json"
        self._log = folder / "hostile.log"
        self._process: asyncio.subprocess.Process | None = None

    @asynccontextmanager
    async def running(
        self, port: int, targets: Sequence[Mapping[str, Account]]
    ) -> AsyncIterator[Self]:
        """It listens at `port`; `targets` are its agreements with each MSH, by scenario."""
        accounts = [{name: asdict(one) for name, one in target.items()} for target in targets]
        self._plan.touch(mode=0o600)
        self._plan.write_text(json.dumps({"port": port, "targets": accounts}))
        with self._log.open("wb") as log:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "demo.siege.hostile", str(self._plan)),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            yield self
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def order(self, scenarios: Sequence[str]) -> None:
        """Run these from now on, and nothing else."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{' '.join(scenarios)}\n".encode())

    async def end(self) -> dict[str, int]:
        """What it did and what came back. Raises DemoFailed if it does not say."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()  # communicate() does not, without input
        try:
            async with asyncio.timeout(END_WITHIN):
                output, _ = await process.communicate()
            counts: dict[str, int] = json.loads(output)
        except (TimeoutError, ValueError):
            log = self._log.read_text(errors="replace")[-1000:]
            raise DemoFailed(
                f"The hostile partner ended with {process.returncode}: {log}"
            ) from None
        return counts
