"""Whose body is read, and when."""

import pytest

from msh.web import senders
from msh.web.answer import Answer
from msh.web.connection import Phase
from msh.web.limits import UNKNOWN_BODY_LIMIT, Limits
from msh.web.senders import Admission
from tests.web.connection.world import LIMITS, PARTNER, World, post, status_of


def test_one_partner_waits_for_its_own_uploads_only(world: World) -> None:
    slow, _ = world.connect()
    slow.data_received(post(length=100))
    second, refused = world.connect()
    second.data_received(post(length=100))
    assert second.phase is Phase.ADMISSION
    stranger, form = world.connect()
    stranger.data_received(post("/admin/login/", 4, token=""))
    stranger.data_received(b"body")
    world.work()
    assert status_of(form) == 204
    world.pass_time(LIMITS.waiting + 1, second)
    assert status_of(refused) == 503
    assert b"Retry-After: " in refused.written


def test_upload_starts_when_the_one_before_ends(world: World) -> None:
    slow, _ = world.connect()
    slow.data_received(post(length=100))
    second, transport = world.connect()
    second.data_received(post(length=4) + b"bo")
    slow.connection_lost(None)
    assert second.phase is Phase.BODY
    second.data_received(b"dy")
    world.work()
    assert (world.bodies, status_of(transport)) == ([b"body"], 204)


@pytest.mark.parametrize("path", ["/ebxml/", "/api/v1/messages"])
def test_nothing_is_read_of_somebody_unknown(world: World, path: str) -> None:
    world.answer = lambda _: Answer("401 Unauthorized", [], length=0)
    connection, transport = world.connect()
    connection.data_received(post(path, 1000, token="wrong"))
    assert not transport.is_reading
    world.work()
    assert status_of(transport) == 401
    assert (connection.phase, world.bodies) == (Phase.UNREAD, [])


def test_a_refusal_is_seen_by_who_still_sends(world: World) -> None:
    world.answer = lambda _: Answer("401 Unauthorized", [], length=0)
    connection, transport = world.connect()
    connection.data_received(post("/api/v1/messages", 1000, token=""))
    world.work()
    assert transport.is_reading
    assert not transport.is_closed
    connection.data_received(b"x" * 1000)
    assert not connection.eof_received()


@pytest.mark.parametrize("size", [1, LIMITS.unread + 1])
def test_discarded_body_is_bounded_in_bytes_and_time(world: World, size: int) -> None:
    world.answer = lambda _: Answer("401 Unauthorized", [], length=0)
    connection, transport = world.connect()
    connection.data_received(post("/api/v1/messages", 1 << 30, token=""))
    world.work()
    connection.data_received(b"x" * size)
    world.pass_time(LIMITS.unread_seconds if size == 1 else 0, connection)
    assert transport.is_aborted


def test_a_form_of_a_stranger_is_small(world: World) -> None:
    connection, transport = world.connect()
    connection.data_received(post("/admin/login/", UNKNOWN_BODY_LIMIT + 1, token=""))
    assert status_of(transport) == 413


def test_sender_found_in_the_database_may_send(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(senders, "find", lambda _: Admission(PARTNER, 100))
    connection, transport = world.connect()
    connection.data_received(post(length=4, token="new"))
    world.work()
    connection.data_received(b"body")
    world.work()
    assert (world.bodies, status_of(transport)) == ([b"body"], 204)


def test_without_room_for_its_body_a_request_is_asked_to_come_again() -> None:
    world = World(limits=Limits(memory=1000, disk=1000))
    connection, transport = world.connect()
    connection.data_received(post(length=5000) + b"x" * 2500)
    assert status_of(transport) == 503
    assert world.room.free("memory") + world.room.free("disk") > 0
    connection.connection_lost(None)
    assert (world.room.free("memory"), world.room.free("disk")) == (1000, 1000)


@pytest.mark.requirement("EB-156")
def test_100_continue_is_sent_when_the_body_may_come(world: World) -> None:
    connection, transport = world.connect()
    connection.data_received(post("/ebxml/", 4, "Expect: 100-continue"))
    assert transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.data_received(b"body")
    world.work()
    assert world.bodies == [b"body"]


def test_refused_request_gets_no_100_continue(world: World) -> None:
    world.answer = lambda _: Answer("401 Unauthorized", [], length=0)
    connection, transport = world.connect()
    connection.data_received(post("/ebxml/", 4, "Expect: 100-continue", token=""))
    world.work()
    assert transport.written.startswith(b"HTTP/1.1 401 ")
    assert transport.is_closed
