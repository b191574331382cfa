"""What is refused before it is a request is named, counted and logged."""

import logging
from contextlib import suppress

import pytest

from msh import metrics
from msh.protocol.reason import Refusal
from msh.web import refusals
from msh.web.refusals import EVERY, FOLDED, MOST, Refusals
from tests.waiting import wait_until
from tests.web.connection.world import World


def total() -> int:
    return sum(refusals.totals().values())


HEAD = b"POST /ebxml/ HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "folded",
    [
        b'Content-Type: multipart/related; type="text/xml";\r\n\tboundary="x"\r\n\r\n',
        b'Content-Type: multipart/related; type="text/xml";\r\n boundary="x"\r\n\r\n',
        b"X-Any: a\r\n  b\r\nX-Other: c\r\n\r\n",
        b"X-Any:\r\n b\r\n\r\n",
        b"X-Any:\r\n\tb\r\n\r\n",
        b"X-Any: \r\n \r\n\r\n",
    ],
)
@pytest.mark.parametrize("cut", [0, 1])
def test_line_folding_is_named(
    world: World, caplog: pytest.LogCaptureFixture, folded: bytes, cut: int
) -> None:
    """RFC 9112 5.2: 400, and nothing of it is taken for another header."""
    before = refusals.totals()
    client = world.connect()
    client.send(HEAD)
    if cut:
        at = folded.index(b"\r\n") + 2
        client.send(folded[:at])
        wait_until(lambda: world.connections == 1)
        client.send(folded[at:])
    else:
        client.send(folded)
    answered = client.answer()
    assert (answered.status, answered.reason, world.seen) == (400, FOLDED, [])
    assert answered.body.decode().strip() == FOLDED
    assert refusals.totals() == {**before, Refusal.REQUEST: before[Refusal.REQUEST] + 1}
    [line] = [one.getMessage() for one in caplog.records if one.name == "msh.web.refusals"]
    assert line == f"400 Bad Request to 127.0.0.1 before it was a request: {FOLDED}"


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\nHost: x\n\n", "this is not HTTP/1.1: Expected CRLF after version"),
        (HEAD + b"X-A: b\nX-B: c\r\n\r\n", "Missing expected CR after header value"),
        (HEAD + b"X-A: b\x01\r\n\r\n", "Invalid header value char"),
        (HEAD + b"X A: b\r\n\r\n", "Invalid header token"),
        (b"GET / HTTP/1.1\r\n\r\n", "Missing 'Host' header in request."),
        (b"\x16\x03\x01\x02\x00", "Received HTTPS traffic on an HTTP port"),
        (HEAD + b"X-A: " + b"a" * 70_000, refusals.TOO_LONG),
        (HEAD + b"X-A: a\r\n" * 300, refusals.TOO_LONG),
    ],
)
def test_what_is_wrong_is_named(
    world: World, caplog: pytest.LogCaptureFixture, sent: bytes, reason: str
) -> None:
    client = world.connect()
    with suppress(ConnectionError):
        client.send(sent)
    answered = client.answer()
    assert answered.status in (400, 431)
    assert answered.reason.endswith(reason)
    [one] = [one for one in caplog.records if one.name == "msh.web.refusals"]
    assert one.getMessage().endswith(f"to 127.0.0.1 before it was a request: {answered.reason}")
    of_size = answered.status == 431
    assert vars(one)["code"] == (Refusal.TOO_LARGE if of_size else Refusal.REQUEST)


def test_a_slow_head_is_noted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    client = world.connect()
    before = refusals.totals()[Refusal.INCOMPLETE]
    client.send(b"GET / HT")
    assert client.status() == 408
    assert refusals.totals()[Refusal.INCOMPLETE] == before + 1
    assert "408 Request Timeout to 127.0.0.1" in caplog.text


def test_the_log_has_a_line_a_minute_for_each_address_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "msh.web.refusals")
    now = 1000.0
    noted = Refusals(0, lambda: now)
    before = total()
    for _ in range(10):
        noted.note("192.0.2.1", 400, "a")
    noted.note("192.0.2.1", 400, "b")
    noted.note("192.0.2.2", 400, "a")
    assert len(caplog.records) == 3
    now += EVERY
    noted.note("192.0.2.1", 400, "a")
    assert caplog.messages[-1].endswith("request: a, and 9 times since the last such line")
    assert total() == before + 13


def test_many_addresses_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = 1000.0
    noted = Refusals(0, lambda: now)
    for number in range(10 * MOST):
        noted.note(f"2001:db8::{number:x}", 400, "a")
    assert len(caplog.records) == MOST
    now += EVERY
    noted.note("192.0.2.1", 400, "a")
    assert len(caplog.records) == MOST + 1


def test_the_number_is_a_metric() -> None:
    shown = {one.labels["code"]: one.value for one in metrics._refused().samples}
    assert shown == refusals.totals()
