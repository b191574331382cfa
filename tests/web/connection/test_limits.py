"""How long and how large heads, bodies and trailers may be."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from msh.web.limits import HEAD_LIMIT, Limits
from tests.waiting import wait_until
from tests.web.connection.world import LIMITS, Client, World, chunked, post


def test_a_body_that_drips_is_given_up_after_the_grace(world: World) -> None:
    client = world.connect()
    client.send(post(length=1000))
    while client.is_silent():
        client.send(b"a")
        time.sleep(0.05)
    answered = client.answer()
    assert (answered.status, world.seen) == (408, [])
    assert answered.reason.endswith("bytes of the body arrived before the timeout")


def test_an_honest_body_over_a_slow_line_may_take_long(
    make_world: Callable[[Limits], World],
) -> None:
    """Longer than the grace, as long as it comes on."""
    limits = replace(LIMITS, rate=1000)
    world, pieces = make_world(limits), 30
    client = world.connect()
    client.send(post(length=1000 * pieces))
    began = time.monotonic()
    for _ in range(pieces):
        client.send(b"x" * 1000)
        time.sleep(0.05)
    assert time.monotonic() - began > limits.grace
    assert client.status() == 204
    assert world.bodies == [b"x" * 1000 * pieces]


def test_a_head_that_never_ends_is_given_up(world: World) -> None:
    client = world.connect()
    with suppress(ConnectionError):
        while client.is_silent():
            client.send(b"G")
            time.sleep(0.05)
    assert client.status() in (400, 408)


@pytest.mark.parametrize("after", [0, 1])
def test_silent_client_is_disconnected(make_world: Callable[[Limits], World], after: int) -> None:
    """One that has not asked anything, and one that has."""
    world = make_world(replace(LIMITS, idle=0.5))
    client = world.connect()
    for _ in range(after):
        client.send(post(length=0))
        assert client.status() == 204
    assert client.rest() == b""


def test_a_client_of_a_second_request_has_its_time_too(world: World) -> None:
    client = world.connect()
    client.send(post(length=0))
    assert client.status() == 204
    client.send(b"GET / HT")
    assert client.status() == 408


def send_until_it_is_refused(client: Client, pieces: list[bytes]) -> int:
    with suppress(ConnectionError):
        for piece in pieces:
            client.send(piece)
    return client.status()


@pytest.mark.parametrize("before", [0, 1])
def test_a_head_without_end_is_refused(world: World, before: int) -> None:
    client = world.connect()
    client.send(post(length=0) * before + b"GET / HTTP/1.1\r\n")
    pieces = [b"X-A: " + b"a" * 95 + b"\r\n"] * 200 + [b"X-B: " + b"b" * 1000 + b"\r\n"] * 60
    for _ in range(before):
        assert client.status() == 204
    assert send_until_it_is_refused(client, pieces) == 431


@pytest.mark.parametrize("pieces", [1, 2, 50])
@pytest.mark.parametrize("lines", [1, 30, 300])
def test_a_head_over_the_limit_is_refused_however_it_comes(
    world: World, lines: int, pieces: int
) -> None:
    head = b"GET / HTTP/1.1\r\nHost: x\r\n"
    head += (b"X-A: " + b"a" * (HEAD_LIMIT // lines) + b"\r\n") * lines + b"\r\n"
    step = -(-len(head) // pieces)
    parts = [head[start : start + step] for start in range(0, len(head), step)]
    assert send_until_it_is_refused(world.connect(), parts) == 431
    assert world.seen == []


@pytest.mark.parametrize("lines", [1, 100])
def test_a_trailer_is_thrown_away(world: World, lines: int) -> None:
    client = world.connect()
    client.send(chunked() + b"4\r\nhalf\r\n0\r\n" + b"X-A: a\r\n" * lines + b"\r\n")
    assert (client.status(), world.bodies) == (204, [b"half"])


@pytest.mark.parametrize("trailer", [b"X-A: " + b"a" * HEAD_LIMIT, b"X-A: a\r\n" * 1000])
@pytest.mark.parametrize("pieces", [1, 20])
def test_a_trailer_over_the_limit_is_refused_however_it_comes(
    world: World, trailer: bytes, pieces: int
) -> None:
    """A single line too, which has no end."""
    client = world.connect()
    client.send(chunked() + b"4\r\nhalf\r\n0\r\n")
    wait_until(lambda: world.server.http.requests_count == 1)
    step = -(-len(trailer) // pieces)
    parts = [trailer[start : start + step] for start in range(0, len(trailer), step)]
    assert send_until_it_is_refused(client, parts) in (400, 431)
    assert world.seen == []


def test_a_body_may_follow_a_head_that_is_almost_too_long(world: World) -> None:
    client = world.connect()
    client.send(chunked("X-A: " + "a" * (HEAD_LIMIT - 200)))
    for byte in b"4;" + b"e" * 300 + b"\r\nbody\r\n0\r\n\r\n":
        client.send(bytes([byte]))
    assert (client.status(), world.bodies) == (204, [b"body"])
