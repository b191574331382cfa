"""One whole MSH on one machine, in one folder: embedded servers, web, worker and beat.

Production runs the same three processes apart, against a PostgreSQL and a Redis of its own.
"""

import base64
import http.client
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from msh.processes import spawn, stop
from msh.standalone import datafolder
from msh.standalone.embedded import EmbeddedServers
from msh.standalone.supervisor import Child, Supervisor
from msh.standalone.waiting import Waiting

READY_SECONDS = 120  # the first start makes the tables
WEB_WORKERS = 2
WEB_THREADS = 8
WORKER_THREADS = 8
BACKLOG = 100
"""Connections that wait while web starts; web sets its own."""
_MSH = (sys.executable, "-m", "msh.standalone")
_PROJECT = Path(__file__).resolve().parents[2]
_CWD = _PROJECT if (_PROJECT / "manage.py").exists() else None
"""A checkout is imported from its folder. Where the wheel is installed, the modules of consumers
may be in the folder in which `up` was started."""


class StandaloneError(Exception):
    """It does not run, or runs no longer: one line that says why."""


@dataclass(frozen=True, slots=True)
class Running:
    """The information for the person who started it. `new_password` is empty except the first
    time."""

    console: str
    user: str
    new_password: str
    password_file: str


def run(
    folder: Path,
    port: int,
    *,
    on_ready: Callable[[Running], None],
    on_wait: Callable[[str], None],
    smtp_port: int | None = None,
) -> None:
    """Run until SIGINT or SIGTERM; then nothing is left running. With `smtp_port` it takes mail.
    `on_wait` is called now and then with a line about what takes so long.

    Call it from the main thread. Raises ServerUnavailable and StandaloneError.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    with (
        suppress(KeyboardInterrupt),
        _listening(port, "--port") as web,
        _listening(smtp_port, "--smtp-port") if smtp_port else nullcontext() as mail,
        Waiting(on_wait, "PostgreSQL and Valkey start") as waiting,
        EmbeddedServers(folder) as servers,
        _process_file(folder),
    ):
        first_time = not (folder / "admin.password").exists()
        password = _password(folder)
        kept = _settings(folder, port) | {"MSH_DISK_PATH": str(folder)}
        env = kept | os.environ | servers.settings
        datafolder.write(folder, datafolder.SERVERS, servers.settings)
        waiting.goes_on_with("the database is being prepared")
        _prepare(folder, env | {"DJANGO_SUPERUSER_PASSWORD": password})
        with Supervisor(_children(folder, web, mail), cwd=_CWD, env=env) as supervisor:
            waiting.goes_on_with("the web process starts")
            _await_ready(supervisor, servers, folder, port)
            waiting.over()
            on_ready(
                Running(
                    console=f"http://127.0.0.1:{port}/admin/",
                    user="admin",
                    new_password=password if first_time else "",
                    password_file=str(folder / "admin.password"),
                )
            )
            _watch(supervisor, servers)


def _watch(supervisor: Supervisor, servers: EmbeddedServers) -> NoReturn:
    while True:
        servers.watch()
        supervisor.watch()
        time.sleep(0.1)


def _children(folder: Path, web: socket.socket, mail: socket.socket | None) -> list[Child]:
    celery = [sys.executable, "-m", "celery", "-A", "msh"]
    commands = {
        "web": [
            *(sys.executable, "-m", "msh.web", *_serving(web)),
            *("--workers", str(WEB_WORKERS), "--threads", str(WEB_THREADS)),
        ],
        "worker": [
            *(*celery, "worker", "--pool", "threads", "--concurrency", str(WORKER_THREADS)),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            *("--loglevel", "WARNING"),
        ],
        "beat": [*celery, "beat", "--pidfile=", "--loglevel", "WARNING"],
    }
    if mail:
        commands["smtpd"] = [*_MSH, "smtpd", *_serving(mail)]
    children = {
        name: Child(name, command, folder / "run" / f"{name}.pid", folder / "log" / f"{name}.log")
        for name, command in commands.items()
    }
    for name in ("worker", "beat"):
        # What is sent while nothing takes its Acknowledgement goes again only after a Timeout.
        children[name].may_start = lambda: _takes_acks(web, mail)
    children["web"].listener = web
    if mail:
        children["smtpd"].listener = mail
    return list(children.values())


def _serving(listener: socket.socket) -> tuple[str, ...]:
    return ("--port", str(_port(listener)), "--fd", str(listener.fileno()))


def _port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def _takes_acks(web: socket.socket, mail: socket.socket | None) -> bool:
    return _is_ready(_port(web)) and (mail is None or _takes_mail(_port(mail)))


def _settings(folder: Path, port: int) -> dict[str, str]:
    """Return the settings that last: identity and keys, made at the first start and kept from then
    on.

    An identity that the environment names is kept too, for the commands that come later.
    """
    uri = os.environ.get("MSH_URI") or f"http://127.0.0.1:{port}/ebxml/"
    made = {
        "MSH_URI": uri,
        "MSH_ERROR_URI": os.environ.get("MSH_ERROR_URI") or uri,
        "SECRET_KEY": secrets.token_urlsafe(38),
        "MSH_FERNET_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    }
    kept = datafolder.read(folder, datafolder.SETTINGS)
    given = {name: os.environ[name] for name in made if os.environ.get(name)}
    settings = made | kept | given
    if settings != kept:
        datafolder.write(folder, datafolder.SETTINGS, settings)
    return settings


def _password(folder: Path) -> str:
    file = folder / "admin.password"
    if not file.exists():
        datafolder.write_secret(file, secrets.token_urlsafe(12) + "\n")
    return file.read_text().strip()


def _prepare(folder: Path, env: Mapping[str, str]) -> None:
    log = folder / "log" / "prepare.log"
    process = spawn([*_MSH, "prepare"], log=log, cwd=_CWD, env=env)
    try:
        if process.wait() != 0:
            raise StandaloneError(f"the database could not be prepared; {log} says why")
    finally:
        stop(process)


def _await_ready(supervisor: Supervisor, servers: EmbeddedServers, folder: Path, port: int) -> None:
    end = time.monotonic() + READY_SECONDS
    while not _is_ready(port):
        if time.monotonic() > end:
            raise StandaloneError(f"not ready in {READY_SECONDS} s; {folder}/log/web.log says why")
        servers.watch()
        supervisor.watch()
        time.sleep(0.05)
    supervisor.watch()  # the processes that waited for it


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _takes_mail(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        return connection.recv(3) == b"220"
    return False


def _listening(port: int, option: str) -> socket.socket:
    """Held until all has ended, also while its process is started again: nobody else can take the
    port. A web of a killed predecessor may need a moment to go."""
    end = time.monotonic() + 2
    while True:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            if time.monotonic() > end:
                message = (
                    f"port {port} cannot be used ({error.strerror}): choose another with {option}"
                )
                raise StandaloneError(message) from None
        else:
            return listener
        time.sleep(0.05)


@contextmanager
def _process_file(folder: Path) -> Iterator[None]:
    file = folder / "run" / "up.pid"
    file.parent.mkdir(exist_ok=True)
    for left in file.parent.glob("*.pid"):  # by a predecessor that was killed
        left.unlink()
    file.write_text(f"{os.getpid()}\n")
    try:
        yield
    finally:
        file.unlink()
        (folder / datafolder.SERVERS).unlink(missing_ok=True)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    """Unwind once: a second Ctrl-C does not break into the cleaning up."""
    for handled in (signal.SIGINT, signal.SIGTERM):
        signal.signal(handled, signal.SIG_IGN)
    raise KeyboardInterrupt
