"""PgBouncer between the MSH and PostgreSQL."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msh import processes
from tests.hosts.network import HostsMissing
from tests.hosts.servers import Primary
from tests.waiting import wait_until

NO_POOLER = "tests/hosts needs PgBouncer: apt-get install pgbouncer."
# Few connections, so that the threads of the MSH share them. Who comes in does not matter here.
_CONFIGURATION = """
[databases]
{database} = host={host} port={port} dbname={database} user=postgres password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = options
"""


@contextmanager
def pooler(server: Primary, database: str) -> Iterator[str]:
    """Its DATABASE_URL. Raises HostsMissing."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if not program:
        raise HostsMissing(NO_POOLER)
    folder = Path(tempfile.mkdtemp(prefix="msh-pooler-"))
    try:
        process, port = _start(program, folder, server, database)
        try:
            yield f"postgres://postgres@127.0.0.1:{port}/{database}"
        finally:
            processes.stop(process, by=signal.SIGINT)
    finally:
        shutil.rmtree(folder)


def _start(
    program: str, folder: Path, server: Primary, database: str
) -> tuple[subprocess.Popen[bytes], int]:
    """As nobody: it does not run as root."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    host, _, its_port = server.address.partition(":")
    names = {"database": database, "host": host, "port": its_port, "password": server.password}
    file = folder / "pgbouncer.ini"
    file.write_text(_CONFIGURATION.format(own_port=port, **names))
    nobody = pwd.getpwnam("nobody")
    for path in (folder, file):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    process = processes.spawn(
        [program, file],
        log=server.log.with_name("pgbouncer.log"),
        user=processes.User(nobody.pw_uid, nobody.pw_gid),
        cwd=folder,
    )
    wait_until(lambda: _answers(port), what=f"PgBouncer on port {port}")
    return process, port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
