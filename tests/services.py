"""pytest plugin: a PostgreSQL and a Valkey for the run, and the settings of the MSH under test.

Loaded by `-p` in pyproject.toml, before pytest-django reads the settings. DATABASE_URL and
REDIS_URL, where given, are used instead. Under pytest-xdist the controller starts the servers
and the workers inherit them; pytest-django gives each worker a database, we REDIS_EACH Redis
databases. A Redis of REDIS_URL has 16, which are enough for four workers.
"""

import base64
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from msh.standalone.embedded import EmbeddedServers, ServerUnavailable

REDIS_EACH = 4  # Redis databases of a worker: its own, and those that its tests give to machines
_WORKERS = 64

_MSH_SETTINGS = {
    "MSH_URI": "http://msh.example/ebxml/",
    "MSH_ERROR_URI": "http://msh.example/ebxml/",
    "MSH_CONSUMER": "",
    "MSH_FROM_PARTY_HANDLER": "",
    "LOG_LEVEL": "WARNING",
}


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    # The processes that tests start, hundreds of them, find what the first of them has compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        os.environ["REDIS_URL"] = redis_of(os.environ["REDIS_URL"], worker)
    else:
        _start_servers(early_config)
        os.environ.pop("MSH_DATA", None)
        os.environ.update(_MSH_SETTINGS)
        _name_template(early_config)
        os.environ["SECRET_KEY"] = secrets.token_urlsafe(38)
        os.environ["MSH_FERNET_KEYS"] = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    return (yield)


def _start_servers(config: pytest.Config) -> None:
    folder = Path(tempfile.mkdtemp(prefix="msh-tests-"))
    os.environ["MSH_TESTS_FOLDER"] = str(folder)
    config.add_cleanup(lambda: shutil.rmtree(folder))
    servers = EmbeddedServers(folder, fsync=False, redis_databases=_WORKERS * REDIS_EACH)
    try:
        servers.start()
    except ServerUnavailable as unavailable:
        pytest.exit(str(unavailable), returncode=pytest.ExitCode.USAGE_ERROR)
    config.add_cleanup(servers.stop)
    os.environ.update(servers.settings)


def _name_template(config: pytest.Config) -> None:
    """tests/template.py makes it when the first test needs a database."""
    name = os.environ["MSH_TESTS_TEMPLATE"] = f"msh_tests_{secrets.token_hex(4)}"

    def drop() -> None:
        url = urlsplit(os.environ["DATABASE_URL"])._replace(path="/postgres").geturl()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}"')

    config.add_cleanup(drop)


def redis_of(url: str, worker: str) -> str:
    """Worker gw0 has the databases from 0, gw1 those from REDIS_EACH, and so on."""
    return urlsplit(url)._replace(path=f"/{int(worker.removeprefix('gw')) * REDIS_EACH}").geturl()


def spare_redis(url: str, number: int) -> str:
    """The address of a Redis database that only this worker uses; `number` from 1."""
    if not 1 <= number < REDIS_EACH:
        raise ValueError(f"{number} is not from 1 to {REDIS_EACH - 1}: give workers more databases")
    here = urlsplit(url)
    return here._replace(path=f"/{int(here.path.strip('/') or 0) + number}").geturl()
