"""The real web server in front of the test's database: no worker, no beat, no Redis."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from demo.stage import free_port
from msh import processes
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def web_process(
    folder: Path, *, workers: int = 1, threads: int = 4, **environment: str
) -> Iterator[int]:
    """Its port on 127.0.0.1. With one of the `threads`, requests come one after the other."""
    port = free_port(0)
    database = settings.DATABASES["default"]
    server = "{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**database)
    process = processes.spawn(
        [
            *(sys.executable, "-m", "msh.web", "--port", str(port)),
            *("--workers", str(workers), "--threads", str(threads)),
        ],
        log=folder / "web.log",
        death_signal=signal.SIGTERM,
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": f"postgres://{server}", **environment},
    )
    try:
        wait_until(lambda: _answers(port), what="the web server")
        yield port
    finally:
        processes.stop(process)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
