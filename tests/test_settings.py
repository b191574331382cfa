"""Settings whose effect is in another program."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from kombu.exceptions import OperationalError

from msh.celery import WakeUpCelery
from msh.connections import database_settings
from msh.connections.base import DatabaseWrapper
from msh.standalone.embedded.valkey import Valkey


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "10s"),
        ("synchronous_commit", "on"),
    ],
)
def test_database_sessions_give_up_in_time(name: str, value: str) -> None:
    options = {"OPTIONS": database_settings("postgres:///msh")["OPTIONS"]}
    session = DatabaseWrapper(connection.settings_dict | options)  # the tests' own may idle longer
    try:
        with session.cursor() as cursor:
            cursor.execute(f"SHOW {name}")
            assert cursor.fetchone() == (value,)
    finally:
        session.close()


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[Valkey]:
    server = Valkey(tmp_path)
    yield server
    if server.pid:
        os.kill(server.pid, signal.SIGCONT)
    server.stop()


def test_wake_up_gives_up_soon_on_a_broker_that_hangs_or_is_gone(valkey: Valkey) -> None:
    app = WakeUpCelery(broker=valkey.start())

    def seconds_to_fail() -> float:
        begun = time.monotonic()
        with pytest.raises(OperationalError):
            app.send_task("look", ignore_result=True, retry=False)
        return time.monotonic() - begun

    app.send_task("look", ignore_result=True, retry=False)
    os.kill(valkey.pid, signal.SIGSTOP)
    assert seconds_to_fail() < 1  # 0.1 and what a busy machine adds; the default would be for ever
    os.kill(valkey.pid, signal.SIGKILL)
    assert seconds_to_fail() < 1
    app.close()
