"""One HTTP request of the peer over a raw socket, and every byte of the answer."""

import email.message
import email.parser
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_TIMEOUT = 30.0  # seconds


@dataclass(frozen=True)
class Response:
    """`body` is everything after the head until the other side closed. `status` 0: no answer."""

    status: int
    reason: str = ""
    headers: email.message.Message = field(default_factory=email.message.Message)
    body: bytes = b""
    began_at: float = 0.0
    ended_at: float = 0.0

    @property
    def error(self) -> str:
        """What the X-MSH-Error header says."""
        return str(self.headers["X-MSH-Error"] or "")


@dataclass(frozen=True)
class Request:
    """A request as it goes out. `chunked`: with Transfer-Encoding, in pieces of `chunk` bytes.

    `cut_at`: stop after so many bytes of the body and close the sending side, whatever
    Content-Length said. `content_length`: said instead of the true one; None leaves it out.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    chunked: bool = False
    chunk: int = 8192
    cut_at: int | None = None
    content_length: int | str | None = "true"

    def as_bytes(self) -> bytes:
        body = self._chunks() if self.chunked else self.body
        return self._head() + (body if self.cut_at is None else body[: self.cut_at])

    def _head(self) -> bytes:
        parts = urlsplit(self.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {"Host": parts.netloc, "Connection": "close", **self.headers}
        if self.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif self.content_length is not None:
            true = self.content_length == "true"
            headers["Content-Length"] = str(len(self.body) if true else self.content_length)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{self.method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")

    def _chunks(self) -> bytes:
        pieces = [
            self.body[start : start + self.chunk] for start in range(0, len(self.body), self.chunk)
        ]
        framed = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
        return framed + b"0\r\n\r\n"

    def send(self, timeout: float = _TIMEOUT) -> Response:
        data = self.as_bytes()
        began_at = time.monotonic()
        answer = exchange(self.url, data, ends=self.cut_at is not None, timeout=timeout)
        return _response(answer, began_at)


def exchange(url: str, data: bytes, *, ends: bool = False, timeout: float = _TIMEOUT) -> bytes:
    """Send bytes to the host of `url`; everything that came back until it closed.

    `ends`: close our sending side after the bytes.
    """
    parts = urlsplit(url)
    assert parts.hostname
    with socket.create_connection(
        (parts.hostname, parts.port or 80), timeout=timeout
    ) as connection:
        try:
            connection.sendall(data)
            if ends:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # refused before all was sent: the answer may be there
        return _everything(connection)


def _everything(connection: socket.socket) -> bytes:
    received = bytearray()
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionError:
        pass
    return bytes(received)


def _response(answer: bytes, began_at: float) -> Response:
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head:
        return Response(0, began_at=began_at, ended_at=time.monotonic())
    status_line, _, lines = head.partition(b"\r\n")
    _, status, reason = (status_line.decode("latin-1") + "  ").split(" ", 2)
    headers = email.parser.BytesHeaderParser().parsebytes(lines)
    return Response(int(status), reason.strip(), headers, body, began_at, time.monotonic())
