"""A worker process runs each of its loops, and begins one again that has ended."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection

from msh import processes
from msh.connections import redis_client
from msh.flows.wake_up import WakeUp
from tests.exchange.machine import ROOT
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

WORKER = """
import sys
import django
django.setup()
from celery.__main__ import main
from msh import tasks
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.worker_loop import WorkerLoop
tasks.LOOK_EVERY = 0.2
run, rounds = WorkerLoop.run, []
def telling(loop):
    print(loop.kind, file=sys.__stdout__, flush=True)  # Celery redirects the other
    run(loop)
def raising(loop, names):
    rounds.append(names)
    if len(rounds) == 2:
        raise RuntimeError("what nobody has thought of")
    return False
WorkerLoop.run, SendingLoop.round = telling, raising
sys.argv = ["celery", "-A", "msh", "worker", "-n", sys.argv[1], "--without-mingle"]
main()
"""


class Worker:
    """A worker process, and which of its loops have been run."""

    def __init__(self, name: str, log: Path) -> None:
        here = urlsplit(os.environ["DATABASE_URL"])
        database = here._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
        self._log = log
        self._process = processes.spawn(
            [sys.executable, "-c", WORKER, f"{name}@here"],
            log=log,
            cwd=ROOT,
            env=os.environ | {"DATABASE_URL": database, "DJANGO_SETTINGS_MODULE": "msh.settings"},
        )

    def ran(self) -> list[str]:
        told = self._log.read_text()
        assert self._process.poll() is None, told
        return [line for line in told.splitlines() if line in set(WakeUp)]

    def stop(self) -> None:
        processes.stop(self._process, seconds=40)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Worker]]:
    """Two, of one MSH."""
    with redis_client(settings.REDIS_URL) as client, ExitStack() as stack:
        client.flushdb()
        started = [Worker(name, tmp_path / name) for name in ("one", "other")]
        for worker in started:
            stack.callback(worker.stop)
        yield started


def test_each_worker_runs_its_loops_and_those_that_have_ended_again(
    workers: list[Worker],
) -> None:
    wait_until(lambda: all(set(worker.ran()) == set(WakeUp) for worker in workers), seconds=60)
    wait_until(
        lambda: all(worker.ran().count(WakeUp.TRANSMIT) > 1 for worker in workers), seconds=60
    )
