"""A body that is sent while a thread still makes it."""

import tempfile
from collections.abc import Callable
from threading import Lock

from .spool import NoRoomError, Room, close_anyhow, no_room_if_full

KEY = "msh.web.stream"
"""An application sets it in the environment of a request whose answer is to be sent like that."""


class GoneError(Exception):
    """Nobody reads it any more."""


class Stream:
    """The thread calls `add` and then `end`, the event loop `listen`, `read` and `close`.

    It grows in a file: neither the thread nor its transaction waits for a slow client, and memory
    does not grow with it.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  `close` closes it
        self._lock = Lock()
        self._size = self._taken = self._room_taken = 0
        self._is_closed = False
        self._tell: Callable[[], object] = lambda: None
        self.is_ended = False
        self.has_failed = False

    def add(self, piece: bytes) -> None:
        """Raises GoneError, or NoRoomError if there is no room on the disk."""
        with self._lock:
            if self._is_closed:
                raise GoneError
            if not self._room.take("disk", len(piece)):
                raise NoRoomError
            self._room_taken += len(piece)
            with no_room_if_full():
                self._file.seek(self._size)
                self._file.write(piece)
            self._size += len(piece)
        self._tell()

    def end(self, *, failed: bool = False) -> None:
        self.has_failed = failed
        self.is_ended = True
        self._tell()

    def listen(self, tell: Callable[[], object]) -> None:
        """`tell` is called in the thread whenever there is more to read, or it has ended."""
        self._tell = tell

    def read(self, size: int) -> bytes:
        """At most `size` bytes of those that are there."""
        with self._lock:
            if self._is_closed:
                return b""
            self._file.seek(self._taken)
            piece = self._file.read(min(size, self._size - self._taken))
            self._taken += len(piece)
            return piece

    def close(self) -> None:
        """Give back what it takes. May be called twice."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                close_anyhow(self._file)
                self._room.give("disk", self._room_taken)
