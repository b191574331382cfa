"""Embedded servers start anywhere, keep what was committed, and never outlive their owner."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import redis

from msh.standalone.embedded import EmbeddedServers, ServerUnavailable
from msh.standalone.embedded.postgresql import find_postgresql
from tests.waiting import children, descendants, is_running, wait_until

ROOT = Path(__file__).resolve().parents[2]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change its user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that only its owner may enter, with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="msh-closed-"))
    yield folder
    shutil.rmtree(folder)


@contextmanager
def owner(
    folder: Path, *, python: str = sys.executable, **identity: Any
) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Another process that runs the servers in `folder`, and their settings."""
    process = subprocess.Popen(
        [python, "-m", "tests.embedded.owner", str(folder)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **identity,
    )
    with process:
        assert process.stdout
        yield process, json.loads(process.stdout.readline())


def store_document(settings: dict[str, str]) -> None:
    with psycopg.connect(settings["DATABASE_URL"]) as connection:
        connection.execute("CREATE TABLE document (text text)")
        connection.execute("INSERT INTO document VALUES ('kept')")


def stored_documents(settings: dict[str, str]) -> list[tuple[str]]:
    with psycopg.connect(settings["DATABASE_URL"]) as connection:
        return connection.execute("SELECT text FROM document").fetchall()


def test_servers_answer_keep_what_was_committed_and_are_gone_after_stop(folder: Path) -> None:
    with EmbeddedServers(folder, given={}) as servers:
        store_document(servers.settings)
        assert redis.Redis.from_url(servers.settings["REDIS_URL"]).ping()
        pids = [pid for pid in descendants(os.getpid()) if runs_in_or_for(pid, folder)]
    assert not any(is_running(pid) for pid in pids)

    with EmbeddedServers(folder, given={}) as servers:
        assert stored_documents(servers.settings) == [("kept",)]


def test_valkey_has_as_many_databases_as_asked_for(folder: Path) -> None:
    with EmbeddedServers(folder, given={"DATABASE_URL": "x"}, redis_databases=20) as servers:
        cache = redis.Redis.from_url(servers.settings["REDIS_URL"])
        assert cache.config_get("databases") == {"databases": "20"}


def test_killed_server_restarts_on_its_port_with_its_data(
    folder: Path,
) -> None:
    with EmbeddedServers(folder, given={}) as servers:
        store_document(servers.settings)
        idle = psycopg.connect(servers.settings["DATABASE_URL"])  # its backend outlives the server
        cache = redis.Redis.from_url(servers.settings["REDIS_URL"], retry=None)
        killed = [int(lock_file(folder)[0]), int(cache.info("server")["process_id"])]
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

        def answer_again() -> bool:
            servers.watch()
            with suppress(psycopg.OperationalError, redis.ConnectionError):
                return stored_documents(servers.settings) == [("kept",)] and bool(cache.ping())
            return False

        wait_until(answer_again)
        assert not any(is_running(pid) for pid in killed)
        idle.close()


def lock_file(folder: Path) -> list[str]:
    """What PostgreSQL has written there of itself: its process id first."""
    return (folder / "postgresql/postmaster.pid").read_text().splitlines()


def runs_in_or_for(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/fd/1").readlink().is_relative_to(folder)
    except OSError:
        return False


def test_given_urls_are_used_and_nothing_is_started(folder: Path) -> None:
    given = {"DATABASE_URL": "postgres://elsewhere/msh", "REDIS_URL": "redis://elsewhere/3"}
    with EmbeddedServers(folder, given=given) as servers:
        assert servers.settings == given
        assert [path.name for path in folder.iterdir()] == ["lock"]


def test_servers_refuse_who_has_no_password(folder: Path) -> None:
    with EmbeddedServers(folder, given={}) as servers:
        database = urlsplit(servers.settings["DATABASE_URL"])
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgres://postgres:guess@127.0.0.1:{database.port}/postgres")
        port = urlsplit(servers.settings["REDIS_URL"]).port
        with pytest.raises(redis.AuthenticationError):
            redis.Redis.from_url(f"redis://127.0.0.1:{port}/0", retry=None).ping()


def test_servers_end_with_a_killed_owner_and_restart(folder: Path) -> None:
    with owner(folder) as (process, settings):
        store_document(settings)
        servers = descendants(process.pid)
        assert servers
        process.kill()
        process.wait()
        with EmbeddedServers(folder, given={}) as successor:  # they may still be ending
            assert stored_documents(successor.settings) == [("kept",)]
        wait_until(lambda: not any(is_running(pid) for pid in servers), what="servers gone")


def test_lock_file_of_a_killed_server_whose_number_is_in_use_again(folder: Path) -> None:
    with EmbeddedServers(folder, given={}) as servers:
        store_document(servers.settings)
        lock_file = (folder / "postgresql/postmaster.pid").read_text().splitlines()
    with subprocess.Popen(["sleep", "600"], **user_of_servers()) as stranger:
        stale = "\n".join([str(stranger.pid), *lock_file[1:]])
        (folder / "postgresql/postmaster.pid").write_text(stale + "\n")
        try:
            with EmbeddedServers(folder, given={}) as servers:
                assert stored_documents(servers.settings) == [("kept",)]
            assert stranger.poll() is None
        finally:
            stranger.kill()


def user_of_servers() -> dict[str, Any]:
    """Arguments of Popen for a process of the user that PostgreSQL runs as."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def test_folder_in_use_is_refused_in_one_line(folder: Path) -> None:
    with (
        EmbeddedServers(folder, given={"DATABASE_URL": "x", "REDIS_URL": "x"}),
        pytest.raises(ServerUnavailable, match=r"is in use by a running MSH: stop it, or choose"),
    ):
        EmbeddedServers(folder, given={}).start()


def test_programs_that_are_not_there_are_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_BINDIR", "/nowhere")
    with pytest.raises(ServerUnavailable, match="PG_BINDIR is /nowhere, where there is no initdb"):
        EmbeddedServers(folder, given={}).start()
    monkeypatch.setenv("REDIS_SERVER", "/nowhere")
    with pytest.raises(ServerUnavailable, match="REDIS_SERVER is /nowhere"):
        EmbeddedServers(folder, given={"DATABASE_URL": "x"}).start()


def test_server_that_does_not_start_says_where_to_look(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_SERVER", "/bin/false")
    with pytest.raises(ServerUnavailable, match=r"valkey does not start; the end of .*valkey\.log"):
        EmbeddedServers(folder, given={"DATABASE_URL": "x"}).start()


@as_root
def test_root_runs_postgresql_as_nobody_from_programs_in_a_closed_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = find_postgresql().parent
    libraries = installation.parent.with_name(f"{installation.parent.name}.libs")
    if not libraries.exists():
        pytest.skip("only the wheel's programs are ever copied")
    closed = folder / "venv"
    package = closed / installation.parent.name
    shutil.copytree(installation, package / installation.name, symlinks=True)
    shutil.copytree(libraries, closed / libraries.name, symlinks=True)
    monkeypatch.setenv("PG_BINDIR", str(package / installation.name / "bin"))

    with EmbeddedServers(folder / "data", given={"REDIS_URL": "x"}) as servers:
        store_document(servers.settings)
        pid = int((folder / "data/postgresql/postmaster.pid").read_text().splitlines()[0])
        assert Path(f"/proc/{pid}").stat().st_uid == pwd.getpwnam("nobody").pw_uid
        copy = (folder / "data/postgresql.binaries").readlink()
        assert Path(f"/proc/{pid}/exe").readlink().is_relative_to(copy)
        assert folder.stat().st_mode & 0o777 == 0o700  # nothing was opened on the way
    assert not copy.exists()


@as_root
def test_ordinary_user_runs_the_servers_too(folder: Path) -> None:
    identity = user_of_servers()
    os.chown(folder, identity["user"], identity["group"])
    python = python_of_everybody(identity)
    with owner(folder, python=python, **identity) as (process, settings):
        store_document(settings)
        users = {Path(f"/proc/{pid}").stat().st_uid for pid in children(process.pid)}
        assert users == {identity["user"]}


def python_of_everybody(identity: dict[str, Any]) -> str:
    """An interpreter that the user can run here: ours may be in a closed folder, as we may be."""
    probe = "import sys, msh.standalone.embedded; assert sys.version_info >= (3, 11)"
    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError, subprocess.CalledProcessError):
            subprocess.run([python, "-c", probe], check=True, cwd=ROOT, **identity)
            return python
    pytest.skip("this checkout is closed to other users")
