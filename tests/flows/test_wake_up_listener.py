"""A loop hears of wake-ups by its own thread."""

import socket
import threading
import time
from typing import Any

import pytest
from django.test import override_settings

from msh import health
from msh.flows import wake_up, wake_up_listener, worker_loop
from msh.flows.hints import EVERYTHING, NOTHING, Hints
from msh.flows.wake_up import WakeUp
from msh.flows.wake_up_listener import WakeUpListener
from tests.waiting import wait_until

from .test_worker_loop import Scripted

PARTNERS = frozenset(range(1, 21))
TOKENS = wake_up.tokens_of(WakeUp.FORWARD)


class Gathering(Scripted):
    def next_round_at(self) -> float:
        return time.monotonic() + 0.02


@pytest.fixture
def client() -> Any:
    client = wake_up.shared_client()
    client.delete(TOKENS)
    return client


def left_to_others() -> Hints:
    """What the next worker takes."""
    with WakeUpListener(WakeUp.FORWARD) as listener:
        heard = [NOTHING]

        def has_heard() -> bool:
            heard.append(listener.take() | listener.take_rest())
            return bool(heard[-1])

        wait_until(has_heard)
    return heard[-1]


def test_a_round_that_gathers_takes_all_that_was_named(
    monkeypatch: pytest.MonkeyPatch, client: Any
) -> None:
    """One for each round would be no more than 50 a second."""
    monkeypatch.setattr(worker_loop, "PAUSE", 600.0)
    loop = Gathering()
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: loop.polls)
    rounds = loop.rounds

    client.rpush(TOKENS, *(Hints(frozenset({one})).token() for one in PARTNERS))
    wait_until(lambda: loop.hints.links == PARTNERS)
    rounds = loop.rounds - rounds
    loop._events.put("the end of it")
    loop.stop()
    thread.join(timeout=60)

    assert rounds < len(PARTNERS) / 2


def running(loop: Scripted) -> threading.Thread:
    """It has begun, and listens if no other did before."""
    thread = threading.Thread(target=loop.run)
    thread.start()
    wait_until(lambda: loop.polls)
    return thread


def test_a_worker_that_is_stopping_leaves_the_wake_ups_to_others(client: Any) -> None:
    """It would throw them away, for as long as something of its own is under way."""
    stopping, other = Scripted(), Scripted()
    threads = [running(stopping), running(other)]
    stopping.stop()
    rounds = stopping.rounds
    wait_until(lambda: stopping.rounds > rounds + 2)

    client.rpush(TOKENS, *(Hints(frozenset({one})).token() for one in PARTNERS))
    wait_until(lambda: other.hints.links == PARTNERS or not client.llen(TOKENS))
    rounds = other.rounds
    wait_until(lambda: other.rounds > rounds + 2)
    heard = other.hints.links

    other.stop()
    for loop, thread in zip((stopping, other), threads, strict=True):
        loop._events.put("the end of it")
        thread.join(timeout=60)
    assert heard == PARTNERS
    assert stopping.hints.links == frozenset()


class StoppedWhileItWaits(Scripted):
    """What was named reaches it together with the stop."""

    def patience(self) -> float:
        if not self._stopping.is_set():
            self._events.put(Hints(PARTNERS))
            self._events.put("the end of it")
            self.stop()
        return super().patience()


def test_names_that_a_stop_overtakes_are_left_to_the_next_worker(client: Any) -> None:
    loop = StoppedWhileItWaits()

    loop.run()

    assert loop.hints.links == frozenset()
    assert 0 < client.ttl(TOKENS) <= wake_up.EXPIRE
    assert left_to_others().links == PARTNERS


def test_a_loop_that_is_stopping_takes_no_names(client: Any) -> None:
    client.rpush(TOKENS, Hints(PARTNERS).token())
    loop = Scripted()
    loop.taken.append("nothing is under way")
    loop.stop()
    loop.run()
    assert left_to_others().links == PARTNERS


def test_names_that_waited_for_a_loop_are_its_first(client: Any) -> None:
    client.rpush(TOKENS, *(Hints(frozenset({one})).token() for one in PARTNERS))
    loop = Scripted()
    thread = running(loop)
    wait_until(lambda: loop.hints.links == PARTNERS)
    assert loop.rounds < len(PARTNERS) / 2
    loop._events.put("the end of it")
    loop.stop()
    thread.join(timeout=60)


def test_nothing_is_waited_for(client: Any) -> None:
    with WakeUpListener(WakeUp.FORWARD) as listener:
        assert listener.take() == NOTHING
        client.rpush(TOKENS, Hints(PARTNERS).token())
        heard: list[Hints] = []

        def has_heard() -> bool:
            heard.append(listener.take())
            return bool(heard[-1])

        wait_until(has_heard)
    assert heard[-1] == Hints(PARTNERS)


def test_what_comes_in_the_last_moment_is_left_to_the_next_worker(client: Any) -> None:
    """With its hints: a poll does not look for what is claimed or promised."""
    with WakeUpListener(WakeUp.FORWARD) as listener:
        connection = listener._connection
        client.rpush(TOKENS, Hints(PARTNERS).token())
        wait_until(lambda: connection.can_read(timeout=0) and not client.exists(TOKENS))
    assert left_to_others() == Hints(PARTNERS)


def test_without_redis_everything_is_polled_for_once_a_second() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    with (
        override_settings(REDIS_URL=f"redis://127.0.0.1:{port}/0"),
        WakeUpListener(WakeUp.FORWARD) as listener,
    ):
        listener._rests_until = 0.0
        assert [listener.take() for _ in range(3)] == [EVERYTHING, NOTHING, NOTHING]
        assert listener.fileno() == -1


def test_end_needs_no_name_server(monkeypatch: pytest.MonkeyPatch, client: Any) -> None:
    """When a machine or a network is stopped it may not answer, for longer than a worker has."""
    with WakeUpListener(WakeUp.FORWARD) as listener:
        listener.take_rest()  # as each loop when it begins
        listener.give_back(Hints(PARTNERS))
        asked: list[object] = []
        with monkeypatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", lambda *names, **_: asked.append(names))
            listener.__exit__()
    assert asked == []
    assert left_to_others() == Hints(PARTNERS)


def test_a_loop_that_listens_is_the_sign_that_a_worker_is_alive(client: Any) -> None:
    client.delete(health._SWEPT)
    with WakeUpListener(WakeUp.FORWARD):
        wait_until(lambda: health.processes()[1].alive)


def test_end_without_redis_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with WakeUpListener(WakeUp.FORWARD) as listener:
        listener._give_up()
        monkeypatch.setattr(wake_up_listener, "shared_client", lambda: pytest.fail("asked"))


def test_a_listener_whose_connection_the_broker_closes_opens_another(
    monkeypatch: pytest.MonkeyPatch, client: Any
) -> None:
    """As for being idle, or by a firewall between them, or at a failover."""
    monkeypatch.setattr(wake_up_listener, "REST", 0.05)
    loop = Scripted()
    thread = running(loop)

    own = str(client.get_connection_kwargs()["db"])  # those of other test processes listen too

    def listeners() -> set[str]:
        found = client.client_list()
        return {one["id"] for one in found if one["cmd"] == "blpop" and one["db"] == own}

    wait_until(listeners)
    closed = listeners()
    for one in closed:
        client.client_kill_filter(_id=one)
    wait_until(lambda: listeners() - closed, what="another connection that listens")
    polls = loop.polls
    client.rpush(TOKENS, Hints(PARTNERS).token())
    wait_until(lambda: loop.hints.links == PARTNERS)
    assert loop.polls >= polls

    loop._events.put("the end of it")
    loop.stop()
    thread.join(timeout=60)
    assert not thread.is_alive()
