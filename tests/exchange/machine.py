"""The MSH under test: `manage.py up` on a database of its own, as a user would run it."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from django.db import connection, connections

from demo.stage import free_port
from msh import processes
from tests.exchange import application
from tests.template import template
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
STARTS_WITHIN = 180  # seconds: `up` itself gives up after 120, and says why


class Machine:
    """Web, worker and beat under their supervisor. Use it from the main thread.

    `uri` is who it is in a RoutingHeader, `url` where its endpoint listens. `settings` are added to
    its environment.
    """

    def __init__(
        self,
        folder: Path,
        database: str,
        uri: str = "",
        redis_url: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.uri = uri or os.environ["MSH_URI"]
        self._redis_url = redis_url or os.environ["REDIS_URL"]
        self._database = database
        self._settings = dict(settings or {})
        self._port = free_port(0)
        self._up: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/ebxml/"

    @property
    def console(self) -> str:
        return f"http://127.0.0.1:{self._port}/admin/"

    # --- life -----------------------------------------------------------------------------------
    def create(self) -> None:
        """Make its database, which is migrated and empty, and its Redis."""
        self._administer(f'DROP DATABASE IF EXISTS "{self._database}" WITH (FORCE)')
        self._administer(f'CREATE DATABASE "{self._database}" {self._copied()}')
        with self.database(), connection.cursor() as cursor:
            cursor.execute("CREATE TABLE exchange_taken (serial bigserial, message_id text)")
        self.wipe_redis()

    def _copied(self) -> str:
        return f'TEMPLATE "{template()}"'

    def destroy(self) -> None:
        self.stop()
        self._administer(f'DROP DATABASE IF EXISTS "{self._database}" WITH (FORCE)')
        self._administer(f'DROP DATABASE IF EXISTS "{self._backup}" WITH (FORCE)')

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self._up = processes.spawn(
            [
                *(sys.executable, ROOT / "manage.py", "up"),
                *("--data", self.folder, "--port", str(self._port)),
            ],
            log=self.folder / "log" / "up.log",
            death_signal=signal.SIGTERM,
            cwd=ROOT,
            env=self._environment,
        )
        wait_until(self.is_ready, seconds=STARTS_WITHIN, what=f"an MSH in {self.folder}")

    def stop(self) -> None:
        """As an operator ends it."""
        if self._up is not None:
            processes.stop(self._up, seconds=40)

    def cut_power(self) -> None:
        """End all of its processes by SIGKILL."""
        assert self._up is not None
        pids = [self._up.pid, *self.pids().values()]
        for pid in pids:
            with suppress(ProcessLookupError):  # what the kernel has ended with the first of them
                os.kill(pid, signal.SIGKILL)
        self._up.wait()

    def kill(self, *names: str) -> None:
        """SIGKILL its web, worker or beat, and wait until the supervisor has started it again."""
        before = self.pids()
        for name in names:
            os.kill(before[name], signal.SIGKILL)
        wait_until(
            lambda: all(self.pids().get(name, before[name]) != before[name] for name in names)
        )
        wait_until(self.is_ready, seconds=STARTS_WITHIN)

    def pids(self) -> dict[str, int]:
        """Process ids of web, worker and beat, as far as they run."""
        files = {name: self.folder / "run" / f"{name}.pid" for name in ("web", "worker", "beat")}
        return {name: int(file.read_text()) for name, file in files.items() if file.exists()}

    def is_ready(self) -> bool:
        """Whether web, database, broker, beat and worker all work."""
        assert self._up is not None
        assert self._up.poll() is None, f"the MSH has ended: see {self.folder}/log"
        health = self._health()
        return health.get("ready") is True and health.get("sweep") == "ok"

    def start_python(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Another process that works on its database, such as an application's."""
        return subprocess.Popen(
            [sys.executable, *arguments], cwd=ROOT, env=self._environment, stdout=subprocess.PIPE
        )

    # --- what it keeps --------------------------------------------------------------------------
    @contextmanager
    def database(self) -> Iterator[None]:
        """Django in this process works on its database meanwhile."""
        before = connection.settings_dict["NAME"]
        connections.close_all()
        connection.settings_dict["NAME"] = self._database
        try:
            yield
        finally:
            connections.close_all()
            connection.settings_dict["NAME"] = before

    def cut_database(self) -> None:
        """Nobody gets at its database until `unlock_database`."""
        connections.close_all()
        self._administer(f'ALTER DATABASE "{self._database}" ALLOW_CONNECTIONS false')
        self._administer(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{self._database}'"
        )

    def unlock_database(self) -> None:
        self._administer(f'ALTER DATABASE "{self._database}" ALLOW_CONNECTIONS true')

    def wipe_redis(self) -> None:
        """Everything that waits in Redis is gone."""
        with redis.Redis.from_url(self._redis_url) as client:
            client.flushdb()

    def back_up(self) -> None:
        """Copy its database as it is now. Its processes go on, without it for a moment."""
        self._administer(f'DROP DATABASE IF EXISTS "{self._backup}" WITH (FORCE)')
        self._cut_off()
        self._administer(f'CREATE DATABASE "{self._backup}" TEMPLATE "{self._database}"')
        self._administer(f'ALTER DATABASE "{self._database}" ALLOW_CONNECTIONS true')

    def restore(self) -> None:
        """Everything since `back_up` is forgotten."""
        self._cut_off()
        self._administer(f'DROP DATABASE "{self._database}" WITH (FORCE)')
        self._administer(f'CREATE DATABASE "{self._database}" TEMPLATE "{self._backup}"')

    def _cut_off(self) -> None:
        """Nobody is connected to its database, and nobody can."""
        self._administer(f'ALTER DATABASE "{self._database}" ALLOW_CONNECTIONS false')
        with connection._nodb_cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s",
                [self._database],
            )

    @property
    def _backup(self) -> str:
        return f"{self._database}_backup"

    def taken(self, message_id: str) -> int:
        """How often the application's own table has a message: its effects, duplicates too."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT FROM exchange_taken WHERE message_id = %s", [message_id])
            return len(cursor.fetchall())

    def journal(self, message_id: str) -> list[str]:
        """What the applications were given of a message: "delivered" or the kind of an event."""
        return [entry["kind"] for entry in self._entries() if entry["message_id"] == message_id]

    def delivered(self, message_ids: Collection[str]) -> list[str]:
        """Those of these messages that a consumer was called with, in the order of the calls."""
        ids = [one["message_id"] for one in self._entries() if one["kind"] == "delivered"]
        return [one for one in ids if one in message_ids]

    def calls(self, prefixes: tuple[str, ...]) -> int:
        """How often consumers were called with messages whose ids begin so."""
        ids = [one["message_id"] for one in self._entries() if one["kind"] == "delivered"]
        return sum(message_id.startswith(prefixes) for message_id in ids)

    def _entries(self) -> list[dict[str, Any]]:
        return application.entries(self._journal)

    @property
    def crash_file(self) -> Path:
        """Where a test writes the point at which the next process is to die."""
        return self.folder / "crash"

    @property
    def _journal(self) -> Path:
        return self.folder / "journal"

    @property
    def _environment(self) -> dict[str, str]:
        database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{self._database}")
        return os.environ | {
            "DATABASE_URL": database.geturl(),
            "REDIS_URL": self._redis_url,
            "MSH_URI": self.uri,
            "MSH_ERROR_URI": self.uri,
            "MSH_CONSUMER": "tests.exchange.application.consume",
            "MSH_FROM_PARTY_HANDLER": "tests.exchange.application.hear",
            application.JOURNAL: str(self._journal),
            "MSH_CRASH_FILE": str(self.crash_file),
            **self._settings,
        }

    def _health(self) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/health/ready")
            report: dict[str, Any] = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return {}
        else:
            return report
        finally:
            connection.close()

    def _administer(self, statement: str) -> None:
        with connection._nodb_cursor() as cursor:
            cursor.execute(statement)
