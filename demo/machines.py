"""The two MSHs of the demo: each `manage.py up` in a folder of its own, with its own database."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import psycopg
from psycopg import sql

from msh import processes
from msh.standalone import datafolder

from .http11 import HOST, NotUnderstoodError, Request, exchange

ROOT = Path(__file__).resolve().parent.parent
HTTP_DEADLINE = "2"
"""Seconds: an Ack that the proxy swallows in silence is given up as soon as a message is."""
READY_SECONDS = 120
STOP_SECONDS = 40
END_SECONDS = 30
KILLABLE = ("web", "worker", "beat", "smtpd")


class DemoFailed(Exception):
    """The demo could not be completed: one line that says why."""


@dataclass(slots=True)
class Machine:
    """One MSH. Use it from the main thread, to which its process is tied."""

    name: str
    folder: Path
    port: int
    smtp_port: int = 0
    """Of its mail server; 0: it has none."""
    mail_host_port: int = 0
    """Where it hands over its mail."""
    more: dict[str, str] = field(default_factory=dict)
    """Settings of its own."""
    _up: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def console(self) -> str:
        return f"http://127.0.0.1:{self.port}/admin/"

    @property
    def members(self) -> Sequence["Machine"]:
        """Those with a database of their own: itself, unless it is several that appear as one."""
        return [self]

    @property
    def proxy_host(self) -> str:
        """The proxy's address for its processes."""
        return HOST

    @property
    def database_url(self) -> str:
        return datafolder.read(self.folder, datafolder.SERVERS)["DATABASE_URL"]

    @property
    def password(self) -> str:
        """Of the console's user `admin`."""
        return (self.folder / "admin.password").read_text().strip()

    @property
    def environment(self) -> dict[str, str]:
        """For every process of this MSH: nothing of the MSH that runs the demo, if it is one."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("MSH_") and name not in ("SECRET_KEY", *_SERVERS)
        }
        return (
            inherited
            | own_servers(os.environ, self.name)
            | {
                "MSH_DATA": str(self.folder),
                "MSH_CONSUMER": "demo.application.consume",
                "MSH_HTTP_DEADLINE": HTTP_DEADLINE,
                "EMAIL_URL": f"smtp://127.0.0.1:{self.mail_host_port}",
                "DJANGO_SETTINGS_MODULE": "msh.settings",
                "PYTHONUNBUFFERED": "1",
            }
            | self.more
        )

    def start(self) -> None:
        make_database(os.environ, self.name)
        self._up = processes.spawn(
            [
                *(*_MANAGE, "up", "--data", self.folder, "--port", str(self.port)),
                *(["--smtp-port", str(self.smtp_port)] if self.smtp_port else []),
            ],
            log=self.folder / "log" / "up.log",
            death_signal=signal.SIGTERM,
            cwd=ROOT,
            env=self.environment,
        )

    def stop(self) -> None:
        if self._up is not None:
            processes.stop(self._up, seconds=STOP_SECONDS)
            self._up = None

    async def ready(self) -> None:
        """Wait until messages are taken. Raises DemoFailed when the MSH does not come up."""
        for _ in range(READY_SECONDS * 5):
            if self._up is None or self._up.poll() is not None:
                break
            if (await self.health()).get("ready"):
                return
            await asyncio.sleep(0.2)
        raise DemoFailed(f"MSH {self.name} did not come up: see {self.folder}/log")

    async def whole(self) -> bool:
        """Whether web, worker and beat all do their work, or did within the last seconds."""
        health = await self.health()
        return bool(health.get("ready")) and health.get("sweep") == "ok"

    async def health(self) -> dict[str, Any]:
        """What `/health/ready` says; nothing when nobody answers."""
        request = Request("GET", "/health/ready", (), b"")
        try:
            answer: dict[str, Any] = json.loads((await exchange(HOST, self.port, request)).body)
        except (OSError, NotUnderstoodError, ValueError):
            return {}
        return answer

    async def manage(self, *words: str) -> str:
        """Run one `manage.py` command for this MSH; returns what it printed."""
        return await run_python(["manage.py", *words], self.environment)

    async def set_up(self, document: Mapping[str, Any]) -> None:
        """Add partners and agreements."""
        file = self.folder / "setup.json"
        datafolder.write_secret(file, json.dumps(document, indent=2))
        await self.manage("setup", str(file))

    def pids(self) -> dict[str, int]:
        """The processes that may be killed, as far as they run just now."""
        found = {}
        for name in KILLABLE:
            file = self.folder / "run" / f"{name}.pid"
            try:
                found[name] = int(file.read_text())
            except (FileNotFoundError, ValueError):
                continue
        return found


_MANAGE = (sys.executable, str(ROOT / "manage.py"))
_SERVERS = ("DATABASE_URL", "REDIS_URL")


async def run_python(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run Python in the project's folder. Raises DemoFailed with what it said, if it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        await _end(process)
    if process.returncode:
        raise DemoFailed(f"{' '.join(words)}: {output.decode(errors='replace').strip()[-1500:]}")
    return output.decode()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let it end in order: a producer writes down what it has submitted."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def own_servers(given: Mapping[str, str], machine: str) -> dict[str, str]:
    """Of servers that were given: a database and a Redis database of this MSH's own."""
    settings = {}
    if given.get("DATABASE_URL"):
        database = _database_name(urlsplit(given["DATABASE_URL"]), machine)
        settings["DATABASE_URL"] = (
            urlsplit(given["DATABASE_URL"])._replace(path=f"/{database}").geturl()
        )
    if given.get("REDIS_URL"):
        url = urlsplit(given["REDIS_URL"])
        number = int(url.path.strip("/") or 0) + 1 + ord(machine) - ord("a")
        settings["REDIS_URL"] = url._replace(path=f"/{number}").geturl()
    return settings


def make_database(given: Mapping[str, str], machine: str) -> None:
    """On a server that was given: an empty database for this MSH."""
    if not given.get("DATABASE_URL"):
        return
    name = sql.Identifier(_database_name(urlsplit(given["DATABASE_URL"]), machine))
    with psycopg.connect(given["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(name))


def _database_name(url: SplitResult, machine: str) -> str:
    return f"{url.path.strip('/')}_demo_{machine}"
