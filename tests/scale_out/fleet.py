"""One MSH on many machines: a database, a broker, web nodes behind a load balancer, workers, beats.

Each is in a network namespace of its own; the load balancer (HAProxy) is here.
"""

import asyncio
import base64
import secrets
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.spent import cpu_seconds
from demo.machines import ROOT, DemoFailed, Machine
from msh import processes
from msh.standalone import datafolder
from tests.hosts.process_clock import Clock
from tests.hosts.server_clock import ServerClock, clock_folder
from tests.hosts.servers import Cache, Primary
from tests.scale_out.network import Node, Router

WEB_PORT = 8000
STARTS_WITHIN = 180  # seconds
CELERY = (sys.executable, "-m", "celery", "-A", "msh")
BALANCER = """
defaults
    mode http
    timeout connect 1s
    timeout client 70s
    timeout server 10s
    retries 2
    option redispatch
    option httpchk GET /health/ready
listen msh
    bind 127.0.0.1:{port}
    balance roundrobin
{servers}
"""
SESSIONS = """
SELECT host(client_addr), count(*) FROM pg_stat_activity WHERE client_addr IS NOT NULL GROUP BY 1
"""
INTERVALS = """
SELECT replace(task, 'msh.tasks.', ''), every
FROM django_celery_beat_periodictask entry
JOIN django_celery_beat_intervalschedule interval ON interval.id = entry.interval_id
"""


def haproxy() -> str:
    """Raises DemoFailed where there is none."""
    program = shutil.which("haproxy", path="/usr/sbin:/usr/bin:/usr/local/sbin")
    if not program:
        raise DemoFailed("HAProxy is missing: apt-get install haproxy")
    return program


class Alone(Primary):
    """A PostgreSQL without a standby, which writes to disk."""

    options = {"fsync": "on"}


@dataclass(frozen=True, slots=True)
class Size:
    """How many machines of each kind there are."""

    web: int = 2
    workers: int = 4
    beats: int = 2

    @property
    def names(self) -> list[str]:
        kinds = {"web": self.web, "worker": self.workers, "beat": self.beats}
        return [f"{kind}-{n}" for kind, count in kinds.items() for n in range(1, count + 1)]


class Fleet(Machine):
    """`off`: the clocks that are wrong, by node and in hours."""

    def __init__(
        self, name: str, folder: Path, port: int, size: Size, off: Mapping[str, float]
    ) -> None:
        super().__init__(name, folder, port)
        self.size = size
        self.nodes: dict[str, Node] = {}
        self._off = off
        self._stack = ExitStack()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    # --- as a machine of the demo ---------------------------------------------------------------
    @property
    def proxy_host(self) -> str:
        return self._router.us

    def start(self) -> None:
        self.folder.mkdir(parents=True)
        datafolder.write(self.folder, datafolder.SETTINGS, self._settings())
        datafolder.write_secret(self.folder / "admin.password", secrets.token_urlsafe(12))
        self._router = self._stack.enter_context(Router())
        self._start_servers()
        self._prepare()
        for name in self.size.names:
            self._start_node(name)
        self._start_balancer()

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            processes.stop(process, seconds=20)
        self._stack.close()

    async def ready(self) -> None:
        for _ in range(5 * STARTS_WITHIN):
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise DemoFailed(f"{name} has ended: see {self.folder}/log")
            if await self.whole():
                return
            await asyncio.sleep(0.2)
        raise DemoFailed(f"the MSH on many machines did not come up: see {self.folder}/log")

    async def set_up(self, document: Mapping[str, Any]) -> None:
        for partner in document["partners"]:
            partner["address"] = partner["address"].replace("127.0.0.1", self.proxy_host)
        await super().set_up(document)

    # --- what only many machines have -----------------------------------------------------------
    def sessions(self) -> dict[str, int]:
        """Of each machine, in the database."""
        names = {node.address: name for name, node in self.nodes.items()}
        with psycopg.connect(self.database_url) as connection:
            found: dict[str, int] = dict(connection.execute(SESSIONS).fetchall())
        return {names[address]: found[address] for address in found.keys() & names.keys()}

    def cpu_seconds(self) -> dict[str, float]:
        """Spent so far, by kind of machine; the load balancer is not one."""
        spent: dict[str, float] = defaultdict(float)
        for name, node in self.nodes.items():
            spent[name.partition("-")[0]] += cpu_seconds(node.processes)
        return dict(spent)

    def intervals(self) -> dict[str, int]:
        """Seconds between two runs, by task."""
        with psycopg.connect(self.database_url) as connection:
            return dict(connection.execute(INTERVALS).fetchall())

    @property
    def broker_url(self) -> str:
        return datafolder.read(self.folder, datafolder.SERVERS)["REDIS_URL"]

    def _settings(self) -> dict[str, str]:
        uri = f"http://127.0.0.1:{self.port}/ebxml/"
        return {
            "MSH_URI": uri,
            "MSH_ERROR_URI": uri,
            "SECRET_KEY": secrets.token_urlsafe(38),
            "MSH_FERNET_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        }

    def _start_servers(self) -> None:
        clock = ServerClock(self._stack.enter_context(clock_folder()), "servers")
        database = Alone(self.folder / "database", self._node("database"), clock)
        cache = Cache(self.folder / "broker", self._node("broker"), clock)
        for server in (database, cache):
            self._stack.callback(server.stop)
            server.start()
        urls = {"DATABASE_URL": database.url(), "REDIS_URL": cache.url()}
        datafolder.write(self.folder, datafolder.SERVERS, urls)

    def _node(self, name: str) -> Node:
        self.nodes[name] = self._stack.enter_context(Node(self._router))
        return self.nodes[name]

    def _start_node(self, name: str) -> None:
        kind = name.partition("-")[0]
        commands = {
            "web": (
                *(sys.executable, "-m", "msh.web", "--host", "0.0.0.0", "--port", str(WEB_PORT)),
                *("--workers", "1", "--threads", "8"),
            ),
            "worker": (
                *(*CELERY, "worker", "-n", f"{name}@fleet", "--pool", "threads", "-c", "8"),
                *("--without-gossip", "--without-mingle", "--without-heartbeat"),
                *("--loglevel", "WARNING"),
            ),
            "beat": (*CELERY, "beat", "--pidfile="),
        }
        environment = self._environment
        if hours := self._off.get(name):
            environment |= Clock(self.folder / f"{name}.clock", hours / 24).environment
        with self._node(name).inside():
            self._running[name] = self._spawn(name, commands[kind], environment)

    @property
    def _environment(self) -> dict[str, str]:
        kept = datafolder.read(self.folder, datafolder.SETTINGS)
        return self.environment | kept | datafolder.read(self.folder, datafolder.SERVERS)

    def _spawn(
        self, name: str, command: tuple[str, ...], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        log = self.folder / "log" / f"{name}.log"
        return processes.spawn(command, log=log, cwd=ROOT, env=environment)

    def _prepare(self) -> None:
        environment = self._environment | {"DJANGO_SUPERUSER_PASSWORD": self.password}
        if self._spawn("prepare", (sys.executable, "manage.py", "prepare"), environment).wait():
            raise DemoFailed(f"the database could not be prepared: see {self.folder}/log")

    def _start_balancer(self) -> None:
        servers = "\n".join(
            f"    server {name} {node.address}:{WEB_PORT} check inter 1s fall 2 rise 1"
            for name, node in self.nodes.items()
            if name.startswith("web")
        )
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(BALANCER.format(port=self.port, servers=servers))
        self._running["balancer"] = self._spawn(
            "balancer", (haproxy(), "-db", "-f", str(configuration)), self._environment
        )
