"""A process that was asked to end does end, whatever it waits for."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Barrier, BrokenBarrierError, Thread
from urllib.parse import urlsplit

import pytest
from celery.signals import beat_init
from django.db import connection

from msh import memory, processes, stopping, tasks
from msh.flows.sending.sending_loop import SendingLoop
from tests.exchange.machine import ROOT
from tests.waiting import wait_until

STUCK = """
import ctypes, signal, sys
from msh import stopping
stopping.LIMIT = 0.2
signal.signal(signal.SIGTERM, lambda *_: None)
stopping.limit(lambda: print("stopping", flush=True))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # as a call in C that is begun again
print("ready", flush=True)
ctypes.CDLL(None).sleep(100)
"""
ENDS_BY_ITSELF = """
import signal, sys, time
from msh import stopping
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
stopping.limit()
print("ready", flush=True)
time.sleep(100)
"""
ENDING = """
import threading
from msh import stopping
stopping.LIMIT = 0.2
stopping.begin()
threading.Thread(target=threading.Event().wait, name="waits for ever").start()
"""
WORKER = """
import sys
from celery.__main__ import main
from msh import stopping
stopping.LIMIT = 0.2
sys.argv = "celery -A msh worker --pool threads --concurrency 8".split()
main()
"""


@contextmanager
def running(program: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_process_that_is_stuck_ends_and_says_where_it_was() -> None:
    with running(STUCK) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        said, complained = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "stopping\n")
        line = json.loads(complained)
        assert line["event"].startswith("ended 0.2 s after it was asked to")
        assert line["waited_for"]["MainThread"].startswith("<module>")
        assert "msh-stop" not in line["waited_for"]


def test_process_that_ends_by_itself_says_nothing() -> None:
    with running(ENDS_BY_ITSELF) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 3


def test_process_with_a_thread_that_does_not_end_ends() -> None:
    with running(ENDING) as process:
        _, complained = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "waits for ever" in json.loads(complained)["waited_for"]


@pytest.mark.django_db
def test_worker_whose_broker_does_not_answer_ends() -> None:
    """Its main thread reads from the broker for 10 s, a few times, before it looks."""
    here = urlsplit(os.environ["DATABASE_URL"])
    database = here._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    with socket.create_server(("127.0.0.1", 0)) as broker:
        url = f"redis://127.0.0.1:{broker.getsockname()[1]}/0"
        with running(WORKER, REDIS_URL=url, DATABASE_URL=database) as process:
            broker.settimeout(60)
            kept, _ = broker.accept()
            with kept:
                process.send_signal(signal.SIGTERM)
                _, complained = process.communicate(timeout=60)
            assert process.returncode == 0
            assert "ended 0.2 s after it was asked to" in complained


def test_end_of_beat_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    limited: list[bool] = []
    monkeypatch.setattr(stopping, "limit", lambda: limited.append(True))
    monkeypatch.setattr(memory, "freeze", lambda: None)
    monkeypatch.setattr(processes, "raise_file_limit", lambda: 0)
    beat_init.send(None)
    assert limited == [True]


def test_threads_that_ask_first_get_the_same_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody stops would be waited for."""
    monkeypatch.setattr(tasks, "_loops", {})
    together = Barrier(2)
    found: list[object] = []

    class Slow(SendingLoop):
        def __init__(self) -> None:
            super().__init__()
            with suppress(BrokenBarrierError):
                together.wait(0.2)  # for the other, if it makes one too

    threads = [Thread(target=lambda: found.append(tasks.loop_of(Slow))) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(found) == 2)
    assert found[0] is found[1]
