"""A complete MSH under test, run the way everyone runs one: `manage.py up`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from msh.processes import spawn, stop
from msh.standalone import datafolder

ROOT = Path(__file__).resolve().parent.parent
_READY_WITHIN = 120.0  # seconds
_GONE_WITHIN = 30.0


def megabytes(pid: int) -> float:
    """Its resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


@dataclass
class Msh:
    """One MSH in a folder of its own, with servers of its own, on a free port."""

    folder: Path
    port: int = field(default_factory=free_port)
    more: dict[str, str] = field(default_factory=dict)
    """Settings that others do not have."""
    _process: "subprocess.Popen[bytes] | None" = None
    _connection: "psycopg.Connection[Any] | None" = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}/ebxml/"

    @property
    def environment(self) -> dict[str, str]:
        """For commands and producers of this MSH: its own folder, nobody else's servers. One token
        may ask as often as it can."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in {"DATABASE_URL", "REDIS_URL", "MSH_URI"}
        }
        return inherited | {"MSH_DATA": str(self.folder), "MSH_API_RATE": ""} | self.more

    def start(self) -> None:
        """Returns when /health/ready says so; raises RuntimeError with the end of the log."""
        self.folder.mkdir(parents=True, exist_ok=True)  # its keys may be there
        command = ["up", "--data", str(self.folder), "--port", str(self.port)]
        self._process = spawn(
            [sys.executable, "manage.py", *command],
            log=self._log,
            death_signal=signal.SIGTERM,
            cwd=ROOT,
            env=self.environment,
        )
        deadline = time.monotonic() + _READY_WITHIN
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"no MSH:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            stop(self._process, seconds=_GONE_WITHIN)

    def manage(self, *arguments: str) -> str:
        """The output of one command of this MSH; raises RuntimeError with what it complained of."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"manage.py {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def set_up(self, partners: list[dict[str, Any]]) -> None:
        configuration = self.folder / "setup.json"
        configuration.write_text(
            json.dumps({"msh_uri": self.uri, "error_uri": self.uri, "partners": partners})
        )
        self.manage("setup", str(configuration))

    @property
    def database_url(self) -> str:
        return datafolder.read(self.folder, datafolder.SERVERS)["DATABASE_URL"]

    @property
    def valkey_url(self) -> str:
        return datafolder.read(self.folder, datafolder.SERVERS)["REDIS_URL"]

    def beside(self, name: str) -> str:
        """Address of another database on this MSH's own server, for the floors: empty when it is
        asked for first. To drop it again would cost a checkpoint, after which the product writes
        whole pages: twice as much as in a usual minute."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            known = "SELECT FROM pg_database WHERE datname = %s"
            if connection.execute(known, [name]).rowcount == 0:
                create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
                connection.execute(create)
        address, _, options = self.database_url.partition("?")
        return f"{address.rpartition('/')[0]}/{name}" + (f"?{options}" if options else "")

    @contextmanager
    def paused(self, *names: str) -> Iterator[None]:
        """The processes with these names stand still and go on afterwards; without names all of
        them, its servers too."""
        if names:
            pids = [pid for name in names for pid in self.processes_of(name)]
        else:
            pids = self.processes()
        _signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pids, signal.SIGCONT)

    def web_processes(self) -> list[int]:
        """Those that serve: children of the one that was started."""
        parent = int((self.folder / "run" / "web.pid").read_text())
        return _children(parent)

    def processes_of(self, name: str) -> list[int]:
        """Those of "web", "worker" or "beat"."""
        return _with_children([int((self.folder / "run" / f"{name}.pid").read_text())])

    def processes(self) -> list[int]:
        """All of them, its servers' too."""
        assert self._process is not None
        return _with_children([self._process.pid])

    def value(self, query: str) -> Any:
        """The one value that a query of this MSH's database returns. Its connection is kept: what
        asks again and again costs the product as little as it can."""
        if self._connection is None:
            self._connection = psycopg.connect(
                self.database_url, autocommit=True, row_factory=scalar_row, prepare_threshold=0
            )
        return self._connection.execute(query.encode()).fetchone()

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            connection.execute(statement.encode())

    @property
    def _log(self) -> Path:
        return self.folder.with_suffix(".log")

    def _ready(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def _with_children(pids: Iterable[int]) -> list[int]:
    """Parents first. One that ends meanwhile has none."""
    found = list(pids)
    for pid in found:  # grows while it is read
        with suppress(OSError):
            found += _children(pid)
    return found


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # PostgreSQL's come and go
            os.kill(pid, number)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
