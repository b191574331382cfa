"""Bytes that wait to be handled or sent: in memory while there is room for all, then in a file."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from threading import Lock
from typing import IO

IN_MEMORY = 4 << 20
"""Bytes of one body or answer that are kept in memory, at most."""


class NoRoomError(Exception):
    """Neither memory nor disk has room for more at the moment."""


class Room:
    """The bytes that all spools of a process keep, and their limits. Any thread may use it."""

    def __init__(self, memory: int, disk: int) -> None:
        self._free = {"memory": memory, "disk": disk}
        self._lock = Lock()

    def take(self, kind: str, size: int) -> bool:
        """Reserve so many bytes; whether there was room for them."""
        with self._lock:
            if self._free[kind] < size:
                return False
            self._free[kind] -= size
            return True

    def give(self, kind: str, size: int) -> None:
        with self._lock:
            self._free[kind] += size

    def free(self, kind: str) -> int:
        return self._free[kind]


@contextmanager
def no_room_if_full() -> Iterator[None]:
    """The disk may be full before its part of the room is: others write to it."""
    try:
        yield
    except OSError as error:
        raise NoRoomError(str(error)) from error


def close_anyhow(file: IO[bytes]) -> None:
    """Close, ignoring write errors: the content is not needed any more."""
    with suppress(OSError):
        file.close()


class Spool:
    """Grows piece by piece, is read once, and has to be closed."""

    __slots__ = ("_file", "_kind", "_pieces", "_room", "size")

    def __init__(self, room: Room) -> None:
        self._room = room
        self._pieces: list[bytes] = []
        self._file: IO[bytes] | None = None
        self._kind = "memory"
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Raises NoRoomError: nothing of the piece can be kept."""
        size = len(piece)
        if self._file is None:
            if self.size + size <= IN_MEMORY and self._room.take("memory", size):
                self._pieces.append(piece)
                self.size += size
                return
            self._file = self._as_file()
        if not self._room.take("disk", size):
            raise NoRoomError
        self.size += size
        with no_room_if_full():
            self._file.write(piece)

    def reader(self) -> IO[bytes]:
        if self._file is not None:
            self._file.seek(0)
            return self._file
        return BytesIO(self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces))

    def close(self) -> None:
        """Give back what it takes. May be called twice."""
        if self._file is not None:
            close_anyhow(self._file)
            self._file = None
        self._pieces = []
        if self.size:
            self._room.give(self._kind, self.size)
            self.size = 0

    def _as_file(self) -> IO[bytes]:
        with no_room_if_full():
            file = tempfile.TemporaryFile()  # noqa: SIM115  `close` closes it
        if not self._room.take("disk", self.size):
            file.close()
            raise NoRoomError
        self._room.give("memory", self.size)
        self._kind, self._file = "disk", file
        pieces, self._pieces = self._pieces, []
        with no_room_if_full():
            file.writelines(pieces)
        return file
