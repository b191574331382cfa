"""How the loop of a worker ends, whatever it works on."""

import os
import select
import threading
import time
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from msh import stopping
from msh.flows import worker_loop
from msh.flows.events import Events
from msh.flows.hints import NOTHING, Hints
from msh.flows.wake_up import WakeUp
from msh.flows.wake_up_listener import WakeUpListener
from msh.flows.worker_loop import WorkerLoop
from msh.store.engine import Key, Statement, run
from tests.waiting import wait_until


class Scripted(WorkerLoop):
    """Has something under way until its end is put into the events."""

    kind = WakeUp.FORWARD

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[Any] = []
        self.rounds = 0
        self.polls = 0
        self.hints = NOTHING

    def take(self, event: Any) -> bool:
        self.taken.append(event)
        return True

    def round(self, hints: Hints) -> bool:
        self.rounds += 1
        self.polls += hints.all
        self.hints |= hints
        return False

    def is_busy(self) -> bool:
        return not self.taken


def test_stopped_loop_waits_for_what_is_under_way() -> None:
    loop = Scripted()
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: loop.polls)

    loop.stop()
    rounds = loop.rounds
    wait_until(lambda: loop.rounds > rounds + 1)
    polls = loop.polls
    assert thread.is_alive()
    loop._events.put("the end of it")
    thread.join(timeout=60)

    assert not thread.is_alive()
    assert loop.taken == ["the end of it"]
    assert loop.polls == polls


def test_stopped_loop_ends_though_something_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_loop, "WIND_UP", 0.5)
    loop = Scripted()
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: loop.polls)

    loop.stop()
    thread.join(timeout=60)

    assert not thread.is_alive()
    assert loop.is_busy()


def test_loop_that_was_stopped_does_not_begin() -> None:
    loop = Scripted()
    loop.stop()
    loop.run()
    assert loop.rounds == 0
    assert loop.is_busy()


class SlowToEnd(Scripted):
    """Its stop was asked for so long ago that little is left of the time that a process has."""

    def stop(self) -> None:
        super().stop()
        self._stopped_at -= stopping.LIMIT - 5.0


def test_stopped_loop_waits_nearly_as_long_as_its_process_may() -> None:
    """What a POST brings after that, nobody records."""
    loop = SlowToEnd()
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: loop.polls)

    loop.stop()
    rounds = loop.rounds
    wait_until(lambda: loop.rounds > rounds + 1 or not thread.is_alive())
    loop._events.put("the end of it")
    thread.join(timeout=60)

    assert not thread.is_alive()
    assert loop.taken == ["the end of it"]
    assert worker_loop.WIND_UP < stopping.LIMIT


def test_names_and_a_poll_that_come_together_are_both_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_loop, "PAUSE", 0.0)
    loop = Scripted()
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: loop.polls)

    loop._events.put(Hints(frozenset({5}), frozenset({7})))
    wait_until(lambda: loop.hints.signals)
    loop._events.put("the end of it")
    loop.stop()
    thread.join(timeout=60)

    assert (set(loop.hints.links), set(loop.hints.signals), loop.hints.all) == ({5}, {7}, True)


def test_one_thread_runs_a_loop() -> None:
    loop = Scripted()
    assert loop.is_needed()
    with loop._running:
        assert not loop.is_needed()
        loop.run()
    assert loop.rounds == 0
    loop.stop()
    assert not loop.is_needed()


@pytest.mark.parametrize("redis", [True, False])
def test_idle_loop_polls_by_itself(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, redis: bool
) -> None:
    """Without a wake-up, and without Redis."""
    if not redis:
        settings.REDIS_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(worker_loop, "IDLE", 0.02)
    loop = Scripted()
    loop.taken.append("nothing is under way")
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: loop.polls > 3)
    loop.stop()
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_idle_loop_waits_longer_than_a_busy_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each idle worker would poll four times a second, or without a pause."""
    loop = Scripted()
    with WakeUpListener(loop.kind) as listener:
        assert loop.turn(listener), "something is under way"
    monkeypatch.setattr(worker_loop, "PAUSE", 1_000.0)
    monkeypatch.setattr(worker_loop, "IDLE", 9_000.0)
    assert 0 < loop.patience() <= 1_000
    loop._busy_at -= worker_loop.QUIET
    assert 1_000 < loop.patience() <= 9_000


class Failing(Scripted):
    def round(self, hints: Hints) -> bool:
        super().round(hints)
        if self.rounds == 2:
            raise RuntimeError("what nobody has thought of")
        return False


def test_loop_that_raises_an_error_can_be_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it has in memory, by another thread."""
    monkeypatch.setattr(worker_loop, "PAUSE", 0.01)
    loop = Failing()
    with pytest.raises(RuntimeError):
        loop.run()
    assert loop.is_needed()
    assert loop.is_busy()

    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: loop.rounds > 3)
    loop._events.put("the end of it")
    loop.stop()
    thread.join(timeout=60)
    assert loop.taken == ["the end of it"]


class Reading(Scripted):
    """Reads in each round, outside any transaction, as what is settled is recorded."""

    session: int | None = None

    def round(self, hints: Hints) -> bool:
        try:
            ((row,),) = run(Statement("SELECT pg_backend_pid() AS id", Key)())
        except BaseException:
            self.session = None
            raise
        self.session = row.id
        return super().round(hints)


@pytest.mark.django_db(transaction=True)
def test_loop_whose_session_is_lost_gets_another() -> None:
    """What a round does first would fail on the lost one, and keep it from all that follows."""
    loop = Reading()

    def work() -> None:
        try:
            loop.run()
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_until(lambda: loop.session)
        lost = loop.session
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [lost])
        wait_until(lambda: loop.session not in (None, lost))
    finally:
        loop.stop()
        loop._events.put("the end of it")
        thread.join(timeout=60)
    assert not thread.is_alive()


def test_byte_that_comes_after_its_event_was_taken_ends_no_later_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else every wait would end at once, until something urgent comes again."""
    events = Events()
    events.take(0)
    write = os.write

    def taken_before(end: int, text: bytes) -> int:
        assert events.take(0) == ["it"]
        return write(end, text)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", taken_before)
        events.put("it")
    began = time.monotonic()
    assert events.take(60) == []  # for the byte
    assert time.monotonic() - began < 60
    assert events.take(0.05) == []
    assert events._pipe
    assert not select.select([events._pipe[0]], [], [], 0)[0]
