"""Clients that take their time: each begins a request and never comes to its end."""

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle, islice

LENGTH = 100_000  # bytes of a body that are announced
DRIP = 0.2  # seconds between two bytes of one client


def _post(path: str, *lines: str, length: int = LENGTH) -> bytes:
    head = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}", *lines)
    return "\r\n".join((*head, "", "")).encode()


def kinds(*, partner: str, application: str, csrf_cookie: str) -> dict[str, bytes]:
    """What each kind of slow client sends at once. The secrets are a partner's and a token's."""
    form = "Content-Type: application/x-www-form-urlencoded"
    cookie = f"Cookie: {csrf_cookie}=" + "a" * 32
    related = 'Content-Type: multipart/related; type="application/vnd.eb+xml"; boundary=x'
    json = "Content-Type: application/json"
    bulk = "/api/v1/messages/bulk"
    return {
        "partner's body": _post("/ebxml/", f"Authorization: Bearer {partner}", related),
        "stranger's body": _post("/ebxml/", "Authorization: Bearer wrong", related),
        "log-in form": _post("/admin/login/", cookie, form, length=1000),
        "upload with a token": _post(bulk, f"Authorization: Bearer {application}", json),
        "upload without a token": _post(bulk, json, length=64 * 1024 * 1024),
        "expecting": _post("/admin/login/", cookie, form, "Expect: 100-continue", length=1000),
        "head without an end": b"GET /health/live HTTP/1.1\r\nX-Slow: ",
        "nothing at all": b"",
    }


@contextmanager
def slow_clients(
    port: int, beginnings: list[bytes], count: int, *, address: str = "127.0.0.2"
) -> Iterator[list[socket.socket]]:
    """`count` connections from `address`, each with one of `beginnings`; then a byte now and then.

    One that the server ends begins again, as somebody who means harm would.
    """
    allow_sockets(2 * count + 500)
    ended = threading.Event()
    turns = list(islice(cycle(beginnings), count))
    sockets = [_begin(port, beginning, address) for beginning in turns]

    def drip() -> None:
        while not ended.wait(DRIP):
            for number, beginning in enumerate(turns):
                if ended.is_set():
                    return
                if not _is_open(sockets[number]):
                    sockets[number].close()
                    with suppress(OSError):
                        sockets[number] = _begin(port, beginning, address)
                elif beginning:
                    with suppress(OSError):
                        sockets[number].send(b"a")

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        yield sockets
    finally:
        ended.set()
        thread.join()
        for one in sockets:
            one.close()


def allow_sockets(count: int) -> None:
    """Raise this process's limit of open files, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def _begin(port: int, beginning: bytes, address: str) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), 10, source_address=(address, 0))
    one.setblocking(False)
    with suppress(OSError):
        one.send(beginning)
    return one


def _is_open(one: socket.socket) -> bool:
    """Reads what the server says, until it ends the connection."""
    try:
        while one.recv(65536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
