"""HTTP/1.1 over a blocking socket, as little of it as a POST with an empty answer needs.

For the load generator and the prototype, which must cost next to nothing themselves.
"""

import socket

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"\r\ncontent-length:"
NO_CONTENT = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"


class Stream:
    """Reads whole HTTP messages, requests or responses, from a connected socket."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self.buffer = bytearray()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def close(self) -> None:
        self.socket.close()

    def ask(self, request: bytes) -> bytes:
        """The head of the answer to `request`; ConnectionError if there is none."""
        self.send(request)
        answer = self.receive()
        if answer is None:
            raise ConnectionError("closed instead of an answer")
        return answer[0]

    def receive(self) -> tuple[bytes, bytes] | None:
        """The next message as (head, body), or None when the peer has closed."""
        while (message := split(self.buffer)) is None:
            received = self.socket.recv(65_536)
            if not received:
                return None
            self.buffer += received
        return message


def split(buffer: bytearray) -> tuple[bytes, bytes] | None:
    """Takes the first whole message out of `buffer`; None, and nothing taken, if there is none.

    A message without Content-Length has no body.
    """
    end = buffer.find(_HEAD_END)
    if end < 0:
        return None
    head = bytes(buffer[:end])
    end += len(_HEAD_END)
    size = _content_length(head)
    if len(buffer) < end + size:
        return None
    body = bytes(buffer[end : end + size])
    del buffer[: end + size]
    return head, body


def _content_length(head: bytes) -> int:
    _, found, rest = head.lower().partition(_LENGTH)
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


def post(path: str, body: bytes, *headers: str) -> bytes:
    """A whole POST request as bytes."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + _HEAD_END + body
