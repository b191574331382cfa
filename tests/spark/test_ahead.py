"""A task builds its next request while one is under way, and sends one at a time."""

from collections.abc import Iterator
from threading import Event

import pytest

from spark_bridge.writer import send_each

WAIT = 60  # seconds: a limit, never reached


def test_the_next_request_is_built_while_one_is_under_way() -> None:
    built, sent = {number: Event() for number in range(4)}, []

    def requests() -> Iterator[int]:
        for number, event in built.items():
            event.set()
            yield number

    def send(number: int) -> None:
        assert built.get(number + 1, built[number]).wait(WAIT)
        sent.append(number)

    send_each(requests(), send)

    assert sent == [0, 1, 2, 3]


def test_nothing_is_sent_behind_a_request_that_failed() -> None:
    sent = []

    def send(number: int) -> None:
        sent.append(number)
        if number == 1:
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        send_each(iter(range(9)), send)

    assert sent == [0, 1]


def test_what_is_under_way_has_ended_when_building_the_next_one_fails() -> None:
    failed, sent = Event(), []

    def requests() -> Iterator[int]:
        yield 0
        failed.set()
        raise ValueError("out of order")

    def send(number: int) -> None:
        assert failed.wait(WAIT)
        sent.append(number)

    with pytest.raises(ValueError, match="out of order"):
        send_each(requests(), send)

    assert sent == [0]
