"""Bytes that wait are in memory while there is room, and never beyond it."""

import errno
import tempfile
from collections.abc import Iterable
from io import BytesIO
from typing import Any

import pytest

from msh.web import spool
from msh.web.spool import NoRoomError, Room, Spool
from msh.web.stream import Stream


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


class _FullDisk(BytesIO):
    """At a write, and when what was written is flushed at the end."""

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            if line:
                self.write(line)

    def close(self) -> None:
        super().close()
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("in_memory", [0, 60])
def test_a_full_disk_takes_nothing_of_the_room(
    monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    room = Room(memory=100, disk=3000)
    kept = Spool(room)
    kept.add(b"a" * in_memory)
    monkeypatch.setattr(tempfile, "TemporaryFile", _FullDisk)
    with pytest.raises(NoRoomError):
        kept.add(b"b" * 2000)
    kept.close()
    assert (room.free("memory"), room.free("disk")) == (100, 3000)


def test_a_full_disk_takes_nothing_of_the_room_for_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Room(memory=0, disk=3000)
    monkeypatch.setattr(tempfile, "TemporaryFile", _FullDisk)
    stream = Stream(room)
    with pytest.raises(NoRoomError):
        stream.add(b"a" * 2000)
    stream.close()
    assert room.free("disk") == 3000
