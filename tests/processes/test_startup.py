"""Every process of an MSH asks for its store before it starts, and says what is wrong with it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests.exchange.machine import ROOT

CELERY = ("-m", "celery", "-A", "msh")
PROCESSES = {
    "web": ("-m", "msh.web", "--port", "0", "--workers", "1"),
    "worker": (*CELERY, "worker"),
    "beat": (*CELERY, "beat", "--pidfile="),
    "smtpd": ("manage.py", "smtpd", "--port", "0"),
    "links": ("manage.py", "links"),
}


@pytest.fixture(scope="module")
def empty_database(django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """The URL of a database in which nothing was prepared."""
    name = f"{connection.settings_dict['NAME']}_empty_{os.getpid()}"
    with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
        yield urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
        cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def start(process: str, database: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *PROCESSES[process]],
        cwd=ROOT,
        env=os.environ | {"DATABASE_URL": database},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.requirement("002-12")
@pytest.mark.parametrize("process", PROCESSES)
def test_process_does_not_start_without_the_document_history(
    process: str, empty_database: str
) -> None:
    started = start(process, empty_database)
    assert started.returncode != 0
    assert "The document history is missing" in started.stderr
    assert "manage.py prepare" in started.stderr


@pytest.mark.requirement("002-12")
def test_process_does_not_start_without_its_database() -> None:
    """What each of them asks for is asked in one place: msh/checks.py."""
    started = start("worker", "postgres://nobody@127.0.0.1:1/none")
    assert started.returncode != 0
    # An id of its own: E005 is a folder that is not there.
    assert "(msh.E010) The database cannot be reached" in started.stderr
