"""Whose body is read, and when."""

import socket
from collections.abc import Callable
from dataclasses import replace

import pytest

from msh.web import senders
from msh.web.limits import UNKNOWN_BODY_LIMIT, Limits
from msh.web.senders import Admission
from tests.waiting import wait_until
from tests.web.connection.world import LIMITS, PARTNER, Says, World, post

PATIENT = replace(LIMITS, waiting=60.0, grace=60.0)


def bodies_under_way(world: World) -> int:
    return world.server.uploads._all


def test_one_partner_waits_for_its_own_uploads_only(
    make_world: Callable[[Limits], World],
) -> None:
    world = make_world(replace(LIMITS, waiting=1.0, grace=60.0))
    slow, second, stranger = world.connect(), world.connect(), world.connect()
    slow.send(post(length=100))
    wait_until(lambda: bodies_under_way(world) == 1)
    second.send(post(length=100))
    stranger.send(post("/admin/login/", 4, token=""))
    stranger.send(b"body")
    assert stranger.status() == 204
    refused = second.answer()
    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert refused.reason == "too many of your requests are under way"


def test_upload_starts_when_the_one_before_ends(make_world: Callable[[Limits], World]) -> None:
    world = make_world(PATIENT)
    slow, second = world.connect(), world.connect()
    slow.send(post(length=100))
    wait_until(lambda: bodies_under_way(world) == 1)
    second.send(post(length=4) + b"bo")
    second.send(b"dy")
    assert second.is_silent()
    slow.close()
    assert (second.status(), world.bodies) == (204, [b"body"])
    wait_until(lambda: bodies_under_way(world) == 0)


def test_a_client_that_gives_up_waiting_takes_no_place(
    make_world: Callable[[Limits], World],
) -> None:
    world = make_world(PATIENT)
    slow, gone, second = world.connect(), world.connect(), world.connect()
    slow.send(post(length=4) + b"bo")
    wait_until(lambda: bodies_under_way(world) == 1)
    gone.send(post(length=100))
    wait_until(lambda: PARTNER in world.server.uploads._waiting)
    gone.close()
    second.send(post(length=4) + b"bo")
    slow.send(b"dy")
    assert slow.status() == 204
    second.send(b"dy")
    assert second.status() == 204


@pytest.mark.parametrize("path", ["/ebxml/", "/api/v1/messages"])
def test_nothing_is_read_of_somebody_unknown(world: World, path: str) -> None:
    world.answer = lambda _: Says("401 Unauthorized")
    client = world.connect()
    client.send(post(path, 1000, token="wrong"))
    assert (client.status(), world.bodies) == (401, [None])


def test_a_refusal_is_seen_by_who_still_sends(world: World) -> None:
    """Also by one that sends more than anybody would read ahead, before it looks at the answer."""
    world.answer = lambda _: Says("401 Unauthorized")
    client = world.connect()
    client.send(post("/api/v1/messages", 20_000_000, token=""))
    client.send(b"x" * 10_000_000)
    assert (client.status(), client.rest()) == (401, b"")
    client.send(b"x" * 10_000_000)
    client.end()
    world.wait_until_nothing_is_open()


@pytest.mark.parametrize(
    "limits",
    [
        replace(LIMITS, unread_seconds=0.5),
        replace(LIMITS, unread=100_000, unread_seconds=600.0),
    ],
)
def test_discarded_body_is_bounded_in_bytes_and_time(
    make_world: Callable[[Limits], World], limits: Limits
) -> None:
    world = make_world(limits)
    world.answer = lambda _: Says("401 Unauthorized")
    client = world.connect()
    client.send(post("/api/v1/messages", 1 << 30, token=""))
    assert client.status() == 401
    with pytest.raises((ConnectionError, socket.timeout)):  # noqa: PT012  it may be the first
        while True:
            client.send(b"x" * 1000)
    world.wait_until_nothing_is_open()


def test_a_form_of_a_stranger_is_small(world: World) -> None:
    client = world.connect()
    client.send(post("/admin/login/", UNKNOWN_BODY_LIMIT + 1, token=""))
    assert client.status() == 413


@pytest.mark.parametrize(("path", "status"), [("/admin/login/", 411), ("/ebxml/", 204)])
def test_only_partners_send_chunks(world: World, path: str, status: int) -> None:
    client = world.connect()
    head = post(path).replace(b"Content-Length: 10", b"Transfer-Encoding: chunked")
    client.send(head + b"4\r\nbody\r\n")
    wait_until(lambda: world.server.http.requests_count == 1)
    client.send(b"0\r\n\r\n")
    assert client.status() == status


def test_sender_found_in_the_database_may_send(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(senders, "find", lambda _: Admission(PARTNER, 100))
    client = world.connect()
    client.send(post(length=4, token="new"))
    wait_until(lambda: bodies_under_way(world) == 1)
    client.send(b"body")
    assert (client.status(), world.bodies) == (204, [b"body"])


def test_a_body_above_the_limit_of_its_sender_is_not_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(senders, "find", lambda _: Admission(PARTNER, 100))
    world.answer = lambda _: Says("413 Too Large")
    client = world.connect()
    client.send(post(length=101, token="new"))
    assert (client.status(), world.bodies) == (413, [None])


def test_without_room_for_its_body_a_request_is_asked_to_come_again(
    make_world: Callable[[Limits], World],
) -> None:
    world = make_world(replace(LIMITS, memory=1000, disk=1000))
    client = world.connect()
    client.send(post(length=5000) + b"x" * 2500)
    answered = client.answer()
    assert (answered.status, answered.headers["Retry-After"]) == (503, "5")
    client.close()
    world.wait_until_nothing_is_open()
    assert (world.server.room.free("memory"), world.server.room.free("disk")) == (1000, 1000)


@pytest.mark.requirement("EB-156")
def test_100_continue_is_sent_when_the_body_may_come(world: World) -> None:
    client = world.connect()
    client.send(post("/ebxml/", 4, "Expect: 100-continue"))
    assert client._file.readline() == b"HTTP/1.1 100 Continue\r\n"
    assert client._file.readline() == b"\r\n"
    client.send(b"body")
    assert (client.status(), world.bodies) == (204, [b"body"])


def test_refused_request_gets_no_100_continue(world: World) -> None:
    world.answer = lambda _: Says("401 Unauthorized")
    client = world.connect()
    client.send(post("/ebxml/", 4, "Expect: 100-continue", token=""))
    assert client.rest().startswith(b"HTTP/1.1 401 ")
