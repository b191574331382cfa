"""The MSH under test as in production: web, worker and beat apart, each with a clock of its own."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from django.db import connection, connections

from msh import processes
from msh.connections import database_settings
from tests.exchange.machine import ROOT, STARTS_WITHIN, Machine
from tests.hosts.process_clock import Clock
from tests.waiting import wait_until

CELERY = (sys.executable, "-m", "celery", "-A", "msh")


class Hosts(Machine):
    """An MSH whose processes nobody starts again; use it as `Machine`. Its database and its Redis
    are elsewhere, so they are not removed with it."""

    def __init__(self, folder: Path, database_url: str, redis_url: str) -> None:
        self._direct = self._database_url = database_url
        name = database_url.rpartition("/")[2]
        super().__init__(folder, name, redis_url=redis_url, settings={"DATABASE_URL": database_url})
        (folder / "log").mkdir(exist_ok=True)
        names = ("web", "worker", "beat")
        self.clocks = {name: Clock(folder / f"{name}.clock") for name in names}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @contextmanager
    def database(self) -> Iterator[None]:
        before = dict(connection.settings_dict)
        connections.close_all()
        connection.settings_dict.update(database_settings(self._database_url))
        try:
            yield
        finally:
            connections.close_all()
            connection.settings_dict.update(before)

    @contextmanager
    def through(self, database_url: str) -> Iterator[None]:
        """It and this process get at its database by another URL. What stays so until `restore`
        is the MSH, as a restart takes long."""
        self._use(database_url)
        with self.database():
            yield

    def restore(self) -> None:
        """Its first URL again."""
        if self._database_url != self._direct:
            self._use(self._direct)

    def _use(self, database_url: str) -> None:
        self.stop()
        self._database_url = self._settings["DATABASE_URL"] = database_url
        self._start_processes()

    def destroy(self) -> None:
        self.stop()

    def start(self) -> None:
        prepared = self._run("prepare", sys.executable, "manage.py", "prepare").wait()
        assert prepared == 0, f"see {self.folder}/log"
        self._start_processes()

    def _start_processes(self) -> None:
        for name in self.clocks:
            self.start_process(name)
        wait_until(self.is_ready, seconds=STARTS_WITHIN, what=f"an MSH in {self.folder}")

    def start_process(self, name: str) -> None:
        """Start one of web, worker and beat."""
        commands = {
            "web": (sys.executable, "-m", "msh.web", "--port", str(self._port)),
            "worker": (*CELERY, "worker", "--pool", "threads", "--without-mingle", "-c", "8"),
            "beat": (*CELERY, "beat", "--pidfile="),
        }
        clock = self.clocks[name].environment
        self._running[name] = self._run(name, *commands[name], environment=clock)

    def stop_process(self, name: str) -> None:
        processes.stop(self._running.pop(name))
        self.clocks[name].forget()

    def stop(self) -> None:
        for name in list(self._running):
            self.stop_process(name)

    def is_ready(self) -> bool:
        health = self._health()
        return health.get("ready") is True and health.get("sweep") == "ok"

    def _copied(self) -> str:
        """Its server has no template: the MSH migrates when it starts."""
        return ""

    def _administer(self, statement: str) -> None:
        with self.database():
            super()._administer(statement)

    def _run(
        self, name: str, *command: str, environment: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.Popen[bytes]:
        return processes.spawn(
            command,
            log=self.folder / "log" / f"{name}.log",
            cwd=ROOT,
            env={**self._environment, **environment},
        )
