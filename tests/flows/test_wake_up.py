"""A wake-up that cannot be sent is no error: the loops poll. Usually the thread that asks sends
it, and does not wait for the answer."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from msh.flows import wake_up as wake_ups
from msh.flows.hints import Hints
from msh.flows.wake_up import WakeUp
from tests.waiting import wait_until

ASKS_FOR_EVERYTHING = """
import django
django.setup()
from msh.flows.wake_up import WakeUp, wake_up
for _ in range(100):
    wake_up(*WakeUp)
print("still here")
"""


def test_without_redis_the_process_goes_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "msh.settings",
        "REDIS_URL": f"redis://127.0.0.1:{port}/0",
    }

    ended = subprocess.run(
        [sys.executable, "-c", ASKS_FOR_EVERYTHING],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (0, "still here\n")
    assert 1 <= ended.stderr.count("the next poll finds the work") < 10, "not a warning for each"


Messenger = wake_ups._Messenger
TOKENS = wake_ups.tokens_of(WakeUp.TRANSMIT)


@pytest.fixture
def messenger(monkeypatch: pytest.MonkeyPatch) -> Iterator[Messenger]:
    """One that has sent something, so that it has a connection; its thread is idle."""
    monkeypatch.setattr(wake_ups, "PACE", 0.0)
    wake_ups.shared_client().delete(TOKENS)
    messenger = Messenger()
    messenger.publish(asked(1))
    yield messenger
    messenger._finish()
    messenger._thread.join()
    messenger._channel.close()
    wake_ups.shared_client().connection_pool.release(messenger._channel._connection)


def asked(partner_id: int) -> wake_ups.Asked:
    return {WakeUp.TRANSMIT: Hints(links=frozenset({partner_id}))}


def sent() -> list[bytes | str]:
    tokens: list[bytes | str] = wake_ups.shared_client().lrange(TOKENS, 0, -1)
    return tokens


def test_the_thread_that_asks_sends(messenger: Messenger, monkeypatch: pytest.MonkeyPatch) -> None:
    wake_ups.shared_client().delete(TOKENS)
    assert messenger._send_at_once(asked(2))
    wait_until(lambda: sent() == [b"l2"])
    assert messenger._sent  # nobody has read the answer
    with monkeypatch.context() as patch:
        patch.setattr(messenger._channel, "is_open", lambda: True)  # as if no answer had come yet
        assert not messenger._send_at_once(asked(3))

    messenger.publish({})
    assert messenger._send_at_once(asked(3))
    messenger.publish({})
    assert sent() == [b"l2", b"l3"]


def test_the_answer_is_read(messenger: Messenger) -> None:
    tokens = [b"l1"]
    for partner_id in (2, 3, 4):
        messenger.send(asked(partner_id))
        tokens.append(b"l%d" % partner_id)
        wait_until(lambda: sent() == tokens)
        wait_until(lambda: messenger._sent is None)


def test_a_wake_up_waits_for_one_that_is_being_sent(messenger: Messenger) -> None:
    with messenger._lock:
        messenger.send(asked(2))
        assert sent() == [b"l1"]
    wait_until(lambda: sent() == [b"l1", b"l2"])


def test_wake_ups_of_a_moment_are_gathered(
    messenger: Messenger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(wake_ups, "PACE", 60.0)
        assert not messenger._send_at_once(asked(2))


def test_a_connection_that_redis_has_closed_is_opened_again(messenger: Messenger) -> None:
    address = messenger._channel._connection._sock.getsockname()
    wake_ups.shared_client().client_kill(f"{address[0]}:{address[1]}")
    wait_until(lambda: not messenger._channel.is_open())
    assert not messenger._send_at_once(asked(2))

    messenger.send(asked(2))
    wait_until(lambda: sent() == [b"l1", b"l2"])


def test_a_redis_that_has_forgotten_the_script_is_told_it_again(messenger: Messenger) -> None:
    wake_ups.shared_client().script_flush()
    assert messenger._send_at_once(asked(2))
    messenger.publish({})
    assert sent() == [b"l1", b"l2"]


def test_after_a_failure_nothing_is_sent_for_a_while(
    messenger: Messenger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake_ups._rest, "until", float("inf"))
    assert not messenger._send_at_once(asked(2))
    messenger.publish(asked(3))
    assert sent() == [b"l1"]


def test_the_thread_goes_on_when_memory_is_short(
    messenger: Messenger, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def short(_: object) -> wake_ups.Asked:
        failed.set()
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(wake_ups, "_joined", short)
        messenger._asked.put(asked(2))
        wait_until(failed.is_set)
    monkeypatch.setattr(wake_ups, "_rest", SimpleNamespace(until=0.0))
    messenger._asked.put(asked(3))
    wait_until(lambda: b"l3" in sent())


def test_what_was_asked_for_is_no_error_if_no_thread_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def none_starts() -> Messenger:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(wake_ups, "_rest", SimpleNamespace(until=0.0))
    monkeypatch.setattr(wake_ups, "_messenger", none_starts)
    wake_ups.wake_up(WakeUp.TRANSMIT)
    assert "the next poll finds the work" in caplog.text
