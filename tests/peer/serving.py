"""The peer's HTTP server: sockets and threads, so that it can misbehave exactly as told."""

import contextlib
import email.parser
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .answers import Answer
from .recording import Received

_LIMIT = 64 * 1024


class _Closed(Exception):
    """The other side has closed."""


@dataclass
class Handlers:
    """What the server asks the peer: which answer to give, and what to note."""

    choose: Callable[[], Answer | Callable[[Received], Answer]]
    record: Callable[[Received], None]
    answered: Callable[[Received], None]


class Server:
    """Listens on 127.0.0.1. One thread per connection, all gone after `stop`."""

    def __init__(self, handlers: Handlers, tls: ssl.SSLContext | None = None) -> None:
        self._handlers = handlers
        self._tls = tls
        self.port = 0
        self.connections = 0
        self._open: dict[socket.socket, bool] = {}
        """Open connections, and whether each is idle: between two requests."""
        self._changed = threading.Condition()
        self._released = threading.Event()
        self._listener: socket.socket | None = None

    def listen(self) -> None:
        """Listen, on the same port as before if there was one."""
        listener = socket.create_server(("127.0.0.1", self.port), backlog=256)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def stop_listening(self) -> None:
        """Refuse new connections from now on, and end the open ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._changed:
            _shut(self._open)

    def release(self) -> None:
        """End every silence."""
        self._released.set()
        self._released = threading.Event()

    def drop_idle(self, timeout: float = 5.0) -> None:
        """Close the kept connections from our side, once there are any."""
        with self._changed:
            assert self._changed.wait_for(self._idle, timeout), "no connection is kept"
            _shut(self._idle())

    def _idle(self) -> list[socket.socket]:
        return [connection for connection, idle in self._open.items() if idle]

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            arguments = (connection, self.connections)
            threading.Thread(target=self._serve, args=arguments, daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError, _Closed), connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            try:
                with connection:
                    while self._serve_one(_Reader(connection), connection, number):
                        pass
            finally:
                with self._changed:
                    self._open.pop(connection, None)

    def _serve_one(self, reader: "_Reader", connection: socket.socket, number: int) -> bool:
        """One request. True if the connection is kept."""
        self._note(connection, idle=True)
        reader.wait()
        self._note(connection, idle=False)
        answer = self._handlers.choose()
        received = Received(number, began_at=time.monotonic(), at=time.monotonic())
        cut_short = isinstance(answer, Answer) and answer.hangs_up
        if cut_short != "head":
            reader.read_head(received)
            if cut_short != "body":
                reader.read_body(received)
        received.at = time.monotonic()
        self._handlers.record(received)
        if not isinstance(answer, Answer):
            answer = answer(received)
        return self._answer(answer, connection, received)

    def _note(self, connection: socket.socket, *, idle: bool) -> None:
        with self._changed:
            self._open[connection] = idle
            self._changed.notify_all()

    def _answer(self, answer: Answer, connection: socket.socket, received: Received) -> bool:
        if answer.holds:
            self._released.wait()
        if answer.delay:
            _wait_open(connection, answer.delay)
        if answer.hangs_up or answer.holds:
            if answer.resets:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._handlers.answered(received)
            return False
        connection.sendall(answer.as_bytes())
        received.answered_at = time.monotonic()
        self._handlers.answered(received)
        return answer.keeps_alive and received.headers["Connection"] != "close"


def _shut(connections: Iterable[socket.socket]) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _wait_open(connection: socket.socket, seconds: float) -> None:
    """Wait, but no longer than the other side does."""
    readable, _, _ = select.select([connection], [], [], seconds)
    if readable:
        raise _Closed


class _Reader:
    """Reads one request from a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""

    def wait(self) -> None:
        """Until the first byte is there."""
        self._fill()

    def read_head(self, received: Received) -> None:
        while b"\r\n\r\n" not in self._buffer:
            self._fill()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        request_line, _, lines = head.partition(b"\r\n")
        received.method, received.path, _ = request_line.decode("latin-1").split(" ", 2)
        received.headers = email.parser.BytesHeaderParser().parsebytes(lines)

    def read_body(self, received: Received) -> None:
        if "chunked" in (received.headers["Transfer-Encoding"] or "").lower():
            received.body = self._chunks()
        else:
            received.body = self._take(int(received.headers["Content-Length"] or 0))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self._line().partition(b";")[0], 16):
            body += self._take(size)
            self._line()
        while self._line():
            pass
        return body

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._fill()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _take(self, count: int) -> bytes:
        pieces = bytearray(self._buffer)
        while len(pieces) < count:
            pieces += self._receive()
        self._buffer = bytes(pieces[count:])
        return bytes(pieces[:count])

    def _fill(self) -> None:
        self._buffer += self._receive()

    def _receive(self) -> bytes:
        data = self._connection.recv(_LIMIT)
        if not data:
            raise _Closed
        return data
