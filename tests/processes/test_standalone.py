"""`manage.py up`, run as a user does: it starts everything, keeps it running, leaves nothing.

It is started twice: in a new folder, and in the one that it leaves.
"""

import http.client
import json
import os
import shutil
import signal
import smtplib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import redis

from msh.standalone import datafolder
from tests.waiting import children, descendants, is_running, wait_until

ROOT = Path(__file__).resolve().parents[2]
OURS = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")


@dataclass
class Up:
    process: subprocess.Popen[str]
    folder: Path
    port: int
    mail_port: int

    def ready(self) -> dict[str, object]:
        """What it says when it is ready."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "it ended before it was ready"
        said: dict[str, object] = json.loads(line)
        return said

    def pid(self, name: str) -> int:
        return int((self.folder / "run" / f"{name}.pid").read_text())

    def get(self, path: str) -> tuple[int, str]:
        """Status and body; 0 while no web answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        return 0, ""

    def report(self) -> dict[str, object]:
        """What /health/ready says; nothing while no web answers."""
        _, body = self.get("/health/ready")
        return json.loads(body) if body else {}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="msh-up-"))
    yield folder
    shutil.rmtree(folder)


def environment() -> dict[str, str]:
    """Ours without the settings of the MSH under test."""
    return {n: v for n, v in os.environ.items() if n not in OURS and not n.startswith("MSH_")}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def manage(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def starting(folder: Path) -> Iterator[Up]:
    """An MSH that has just been started."""
    port, mail_port = free_port(), free_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "manage.py", "up", "--data", folder, "--port", str(port), "--json"),
            *("--smtp-port", str(mail_port)),
        ],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Up(process, folder, port, mail_port)
        finally:
            process.terminate()


def are_gone(pids: list[int]) -> bool:
    return not any(map(is_running, pids))


def servers(msh: Up) -> list[int]:
    """Process ids of its PostgreSQL and its Valkey, as far as they run."""
    commands = {pid: Path(f"/proc/{pid}/cmdline") for pid in children(msh.process.pid)}
    return [
        pid
        for name in ("/postgres", "/valkey-server")
        for pid, command in commands.items()
        if name in command.read_text().split("\0")[0]
    ]


def test_up_runs_all_restarts_what_is_killed_and_leaves_nothing(folder: Path) -> None:
    with starting(folder) as msh:
        assert_nobody_else_gets_the_port(msh)
        assert msh.ready() == {
            "ready": True,
            "console": f"http://127.0.0.1:{msh.port}/admin/",
            "user": "admin",
            "password_file": str(folder / "admin.password"),
        }
        assert msh.get("/admin/login/")[0] == 200
        wait_until(lambda: msh.report().get("sweep") == "ok", what="beat, broker and worker")

        for name in ("web", "worker", "beat"):
            killed = msh.pid(name)
            below = descendants(killed)
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda name=name, killed=killed: msh.pid(name) != killed)  # type: ignore[misc]
            wait_until(partial(are_gone, below))
        wait_until(lambda: msh.report().get("ready"), what="web answers again")

        assert_servers_start_again(msh)
        family = descendants(msh.process.pid)
        msh.process.send_signal(signal.SIGTERM)
        assert msh.process.wait(30) == 0
        assert are_gone(family)
        assert not list((folder / "run").iterdir())
        assert not (folder / datafolder.SERVERS).exists()


def assert_nobody_else_gets_the_port(msh: Up) -> None:
    """While the database is prepared."""
    wait_until((msh.folder / "log" / "prepare.log").exists)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", msh.port))


def assert_servers_start_again(msh: Up) -> None:
    """Each on its port, while the other processes go on: they connect again."""
    await_work(msh)
    others = {name: msh.pid(name) for name in ("web", "worker", "beat")}
    for killed in servers(msh):
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda killed=killed: not is_running(killed))  # type: ignore[misc]
        await_work(msh)
    assert {name: msh.pid(name) for name in others} == others
    assert all(map(is_running, others.values()))


def await_work(msh: Up) -> None:
    """Return when web, database, broker, beat and worker have all worked since the call."""
    url = datafolder.read(msh.folder, datafolder.SERVERS)["REDIS_URL"]

    def forgotten() -> bool:
        with redis.Redis.from_url(url, retry=None) as client, suppress(redis.RedisError):
            client.delete("msh:beaten", "msh:swept")
            return True
        return False

    def worked() -> bool:
        with redis.Redis.from_url(url, retry=None) as client, suppress(redis.RedisError):
            return bool(client.exists("msh:beaten", "msh:swept") == 2)
        return False

    wait_until(forgotten, what="Valkey answers where it was")
    wait_until(worked, what="beat and worker work")
    wait_until(lambda: msh.report().get("ready"), what="web and database work")


Kept = tuple[dict[str, str], str]


def kept_by(folder: Path) -> Kept:
    """Identity and keys, and the password of the first user."""
    settings = datafolder.read(folder, datafolder.SETTINGS)
    return settings, (folder / "admin.password").read_text()


@pytest.fixture(scope="module")
def kept(folder: Path) -> Kept:
    """Of an MSH that has been up: with `-k`, the test above was not run."""
    if not (folder / datafolder.SETTINGS).exists():
        with starting(folder) as msh:
            msh.ready()
            msh.process.send_signal(signal.SIGTERM)
            msh.process.wait(30)
    return kept_by(folder)


@pytest.fixture(scope="module")
def again(folder: Path, kept: Kept) -> Iterator[Up]:
    """Started in the same folder; its worker or its beat has just been started."""
    with starting(folder) as msh:
        wait_until(lambda: any(map(Path.exists, waiting(msh))), seconds=150)
        yield msh


def waiting(msh: Up) -> list[Path]:
    """Files of the processes that wait for the others."""
    return [msh.folder / "run" / f"{name}.pid" for name in ("worker", "beat")]


def test_worker_and_beat_wait_for_web(again: Up) -> None:
    assert again.report().get("ready") is True
    wait_until(lambda: all(map(Path.exists, waiting(again))))
    assert again.ready()["ready"] is True


def test_up_again_has_the_same_identity_keys_and_password(again: Up, kept: Kept) -> None:
    folder = again.folder
    assert kept_by(folder) == kept

    assert manage("links", "--data", str(folder), "--json").stdout == "[]\n"

    second = manage("up", "--data", str(folder), "--port", str(free_port()))
    assert second.returncode == 1
    assert "is in use by a running MSH" in second.stderr


def test_clients_wait_while_their_server_is_started_again(again: Up) -> None:
    os.kill(again.pid("smtpd"), signal.SIGKILL)
    with smtplib.SMTP("127.0.0.1", again.mail_port, timeout=60) as client:
        assert client.noop()[0] == 250
    for end in (signal.SIGKILL, signal.SIGTERM):
        before = again.pid("web")
        family = [before, *descendants(before)]
        os.kill(before, end)
        wait_until(partial(are_gone, family))
        assert again.get("/health/live")[0] == 200
        assert again.pid("web") != before


def test_all_end_with_up(again: Up) -> None:
    """The last one that uses it."""
    family = descendants(again.process.pid)
    again.process.kill()
    again.process.wait()
    wait_until(partial(are_gone, family))


def test_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        finished = manage("up", "--data", str(tmp_path), "--port", str(port))
    assert finished.returncode == 1
    assert finished.stderr == (
        f"CommandError: port {port} cannot be used (Address already in use): "
        "choose another with --port\n"
    )


def test_command_for_an_msh_that_does_not_run_is_one_line(tmp_path: Path) -> None:
    finished = manage("links", "--data", str(tmp_path))
    assert finished.returncode == 1
    assert finished.stderr == (
        f"No MSH runs in {tmp_path}: start it with manage.py up --data {tmp_path}\n"
    )
