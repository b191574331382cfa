"""A small HTTP proxy: absolute addresses for http, CONNECT for https."""

import contextlib
import select
import socket
import threading
from base64 import b64encode
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_REFUSED = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
_GONE = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"


class HttpProxy:
    """Runs for the time of a `with`. `login`: user:password that it demands. `requests`: the first
    lines that came, `heads`: all of what came with them."""

    def __init__(self, login: str = "") -> None:
        self.requests: list[str] = []
        self.heads: list[str] = []
        self._login = login
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"http://{self._login}{'@' if self._login else ''}{self.place}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (piece := client.recv(65_536)):
                    return
                head += piece
            text = head.partition(b"\r\n\r\n")[0].decode("latin-1")
            line, *_ = text.split("\r\n")
            self.requests.append(line)
            self.heads.append(text)
            shown = b64encode(self._login.encode()).decode()
            if self._login and f"proxy-authorization: basic {shown}".lower() not in text.lower():
                client.sendall(_REFUSED)
                return
            method, target, _ = line.split(" ", 2)
            address = urlsplit(f"//{target}" if method == "CONNECT" else target)
            try:
                server = socket.create_connection((address.hostname, address.port), 10)
            except OSError:
                client.sendall(_GONE)
                return
            with server:
                if method == "CONNECT":
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    server.sendall(head)
                _pump(client, server)


def _pump(client: socket.socket, server: socket.socket) -> None:
    other = {client: server, server: client}
    while True:
        for one in select.select([client, server], [], [], 20)[0]:
            if not (piece := one.recv(65_536)):
                return
            other[one].sendall(piece)
