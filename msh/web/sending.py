"""An answer on its way to a client, as fast as that reads and as its body is made."""

from asyncio import Transport

from .answer import Answer
from .stream import Stream

PIECE = 64 * 1024
"""Bytes of a body that are handed to the connection at a time."""


class Sending:
    """`is_done` when the connection has taken all of it. Call `close` in any case."""

    def __init__(self, transport: Transport, answer: Answer) -> None:
        self._transport = transport
        self._answer = answer
        self._written = 0
        self._is_written = False
        self._is_blocked = False

    def start(self, head: bytes) -> None:
        """Write the head and what follows it. May call the connection's `pause_writing`."""
        self._next(head)

    @property
    def is_done(self) -> bool:
        return self._is_written and not self._is_blocked

    @property
    def is_starved(self) -> bool:
        """The client has taken all that has been made so far."""
        waits = not self._is_written and not self._is_blocked
        return waits and not self._transport.get_write_buffer_size()

    @property
    def has_failed(self) -> bool:
        """The rest of the body will never be made."""
        stream = self._answer.stream
        return stream is not None and stream.has_failed

    @property
    def sent(self) -> int:
        """Bytes that the client's side has taken."""
        return self._written - self._transport.get_write_buffer_size()

    def pause(self) -> None:
        self._is_blocked = True

    def resume(self) -> None:
        self._is_blocked = False
        self.go_on()

    def go_on(self) -> None:
        if not self._is_written:
            self._next(b"")

    def close(self) -> None:
        self._answer.close()

    def _next(self, head: bytes) -> None:
        while not self._is_blocked and not self._is_written:
            piece, is_last = self._read()
            if self._answer.is_chunked:
                piece = _chunk(piece, is_last=is_last)
            if data := head + piece:
                self._transport.write(data)
                self._written += len(data)
            elif not is_last:
                return  # until more is made
            head = b""
            self._is_written = is_last

    def _read(self) -> tuple[bytes, bool]:
        """The next bytes of the body, and whether they are its last."""
        body = self._answer.stream or self._answer.body
        if body is None:
            return b"", True
        is_made = not isinstance(body, Stream) or (body.is_ended and not body.has_failed)
        piece = body.read(PIECE)
        return piece, is_made and len(piece) < PIECE


def _chunk(piece: bytes, *, is_last: bool) -> bytes:
    chunk = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
    return chunk + b"0\r\n\r\n" if is_last else chunk
