"""Bytes that wait are in memory while there is room, and never beyond it."""

import pytest

from msh.web import spool
from msh.web.spool import NoRoomError, Room, Spool


def test_small_bodies_stay_in_memory_and_give_it_back() -> None:
    room = Room(memory=100, disk=0)
    kept = Spool(room)
    kept.add(b"a" * 60)
    kept.add(b"b" * 40)
    assert (kept.size, room.free("memory")) == (100, 0)
    assert kept.reader().read() == b"a" * 60 + b"b" * 40
    kept.close()
    kept.close()
    assert room.free("memory") == 100


def test_large_body_goes_to_a_file() -> None:
    room = Room(memory=100, disk=1000)
    kept = Spool(room)
    for _ in range(4):
        kept.add(b"abcdefghij" * 4)
    assert (room.free("memory"), room.free("disk")) == (100, 840)
    assert kept.reader().read() == b"abcdefghij" * 16
    kept.close()
    assert room.free("disk") == 1000


def test_a_large_body_goes_to_a_file_whatever_room_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spool, "IN_MEMORY", 50)
    room = Room(memory=10_000, disk=10_000)
    kept = Spool(room)
    kept.add(b"x" * 51)
    assert (room.free("memory"), room.free("disk")) == (10_000, 9_949)
    kept.close()


def test_without_any_room_it_is_refused_and_nothing_is_lost_of_the_room() -> None:
    room = Room(memory=10, disk=20)
    kept = Spool(room)
    kept.add(b"x" * 10)
    with pytest.raises(NoRoomError):
        kept.add(b"x" * 30)
    kept.close()
    assert (room.free("memory"), room.free("disk")) == (10, 20)
