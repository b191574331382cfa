"""Is the way to an address open? A connection is made and closed again; nothing is sent on it but
what TLS, and a proxy, need."""

import ssl
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from msh.protocol.attempt import DETAIL_LIMIT
from msh.transport.handshake import PORTS, Server, connect, explained, shake_hands
from msh.transport.http import one_line
from msh.transport.job import Access
from msh.transport.tls import TlsUnusable


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was tried. `went` is None where it tells nothing either way."""

    name: str
    went: bool | None
    detail: str


def walk(server: Server, deadline: float, *, tls: bool) -> list[Step]:
    """TCP or the proxy, then TLS where it is used, each within `deadline` seconds; up to the first
    that failed."""
    name = "proxy" if server.access.proxy else "TCP"
    began = time.monotonic()
    try:
        connection = connect(server, deadline, tunnel=tls)
    except (OSError, ValueError) as error:
        return [Step(name, went=False, detail=_why(error))]
    with connection:
        address, port, *_ = connection.getpeername()
        took = round((time.monotonic() - began) * 1000)
        open_way = Step(name, went=True, detail=f"connected to {address} port {port} in {took} ms")
        if not tls:
            return [open_way]
        try:
            with shake_hands(connection, server) as secure:
                ends = (secure.getpeercert() or {}).get("notAfter", "an unknown time")
                detail = f"{secure.version()}, certificate until {ends}"
                return [open_way, Step("TLS", went=True, detail=detail)]
        except (ssl.SSLError, TlsUnusable) as error:
            detail = one_line(explained(error, server, deadline), DETAIL_LIMIT)
        except (OSError, ValueError) as error:
            detail = _why(error)
        return [open_way, Step("TLS", went=False, detail=detail)]


def walk_to(url: str, deadline: float, access: Access) -> list[Step]:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    try:
        server = Server(parts.hostname or "", parts.port or PORTS[scheme], access)
    except (KeyError, ValueError):
        return [Step("address", went=False, detail=f"{url} is not an http or https URL")]
    return walk(server, deadline, tls=scheme == "https")


def _why(error: Exception) -> str:
    """The step says what failed."""
    return one_line(getattr(error, "strerror", None) or str(error), DETAIL_LIMIT)
