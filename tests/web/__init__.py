"""The real web server in front of the test's database: no worker, no beat, no Redis."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from django.conf import settings

from demo.stage import free_port
from msh import processes
from msh.connections import SESSION_LIMITS
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def web_process(
    folder: Path,
    *,
    workers: int = 1,
    threads: int = 4,
    lock_timeout: str = SESSION_LIMITS["lock_timeout"],
    **environment: str,
) -> Iterator[int]:
    """Its port on 127.0.0.1. With one of the `threads`, requests come one after the other.

    Two requests that wait for each other need a longer `lock_timeout`: on a busy machine the first
    one may take longer, and the other one is answered by a 503."""
    port = free_port(0)
    database = settings.DATABASES["default"]
    server = "{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**database)
    options = quote(f"-c lock_timeout={lock_timeout}")
    process = processes.spawn(
        [
            *(sys.executable, "-m", "msh.web", "--port", str(port)),
            *("--workers", str(workers), "--threads", str(threads)),
        ],
        log=folder / "web.log",
        death_signal=signal.SIGTERM,
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": f"postgres://{server}?options={options}", **environment},
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
