"""An answer on its way to a client, as fast as that reads."""

from asyncio import Transport

from .answer import Answer

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
    def sent(self) -> int:
        """Bytes that the client's side has taken."""
        return self._written - self._transport.get_write_buffer_size()

    def pause(self) -> None:
        self._is_blocked = True

    def resume(self) -> None:
        self._is_blocked = False
        if not self._is_written:
            self._next(b"")

    def close(self) -> None:
        self._answer.close()

    def _next(self, head: bytes) -> None:
        body = self._answer.body
        while not self._is_blocked:
            piece = body.read(PIECE) if body else b""
            if data := head + piece:
                self._transport.write(data)
                self._written += len(data)
            head = b""
            if len(piece) < PIECE:
                self._is_written = True
                return
