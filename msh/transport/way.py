"""Is the way to an address open? A connection is made and closed again; nothing is sent on it but
what TLS needs."""

import socket
import ssl
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from msh.transport.http import one_line

DETAIL_LIMIT = 300  # characters
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried. `went` is None where it tells nothing either way."""

    name: str
    went: bool | None
    detail: str


def walk(host: str, port: int, deadline: float, *, tls: bool) -> list[Step]:
    """TCP, then TLS where it is used, each within `deadline` seconds; up to the first that
    failed."""
    began = time.monotonic()
    try:
        connection = socket.create_connection((host, port), deadline)
    except (OSError, ValueError) as error:
        return [Step("TCP", went=False, detail=_why(error))]
    with connection:
        address, *_ = connection.getpeername()
        took = round((time.monotonic() - began) * 1000)
        open_way = Step("TCP", went=True, detail=f"connected to {address} port {port} in {took} ms")
        return [open_way, _shake_hands(connection, host)] if tls else [open_way]


def walk_to(url: str, deadline: float) -> list[Step]:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    try:
        port = parts.port or PORTS[scheme]
    except (KeyError, ValueError):
        return [Step("address", went=False, detail=f"{url} is not an http or https URL")]
    return walk(parts.hostname or "", port, deadline, tls=scheme == "https")


def _shake_hands(connection: socket.socket, host: str) -> Step:
    try:
        with ssl.create_default_context().wrap_socket(connection, server_hostname=host) as tls:
            ends = (tls.getpeercert() or {}).get("notAfter", "an unknown time")
            return Step("TLS", went=True, detail=f"{tls.version()}, certificate until {ends}")
    except (OSError, ValueError) as error:
        return Step("TLS", went=False, detail=_why(error))


def _why(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}", DETAIL_LIMIT)
