"""Is the way to an address open? A connection is made and closed again; nothing is sent on it but
what TLS needs."""

import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from cryptography import x509

from msh.protocol.uri import is_link_local
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
        connection = _connect(host, port, deadline)
    except (OSError, ValueError) as error:
        return [Step("TCP", went=False, detail=_why(error))]
    with connection:
        address, *_ = connection.getpeername()
        took = round((time.monotonic() - began) * 1000)
        open_way = Step("TCP", went=True, detail=f"connected to {address} port {port} in {took} ms")
        if not tls:
            return [open_way]
        again = lambda: _connect(host, port, deadline)  # noqa: E731
        return [open_way, _shake_hands(connection, host, again)]


def _connect(host: str, port: int, deadline: float) -> socket.socket:
    """Connect as for a POST: to no link-local address. `host` may have several addresses."""
    connection = socket.create_connection((host, port), deadline)
    address, *_ = connection.getpeername()
    if is_link_local(address):
        connection.close()
        raise OSError(f"{address} is a link-local address")
    return connection


def walk_to(url: str, deadline: float) -> list[Step]:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    try:
        port = parts.port or PORTS[scheme]
    except (KeyError, ValueError):
        return [Step("address", went=False, detail=f"{url} is not an http or https URL")]
    return walk(parts.hostname or "", port, deadline, tls=scheme == "https")


def _shake_hands(
    connection: socket.socket, host: str, connect: Callable[[], socket.socket]
) -> Step:
    try:
        with ssl.create_default_context().wrap_socket(connection, server_hostname=host) as tls:
            ends = (tls.getpeercert() or {}).get("notAfter", "an unknown time")
            return Step("TLS", went=True, detail=f"{tls.version()}, certificate until {ends}")
    except ssl.SSLCertVerificationError as error:
        detail = (
            f"The certificate of the server is not trusted: {error.verify_message}"
            f" {_certificate(connect, host)}"
        )
        return Step("TLS", went=False, detail=one_line(detail, DETAIL_LIMIT))
    except (OSError, ValueError) as error:
        return Step("TLS", went=False, detail=_why(error))


def _certificate(connect: Callable[[], socket.socket], host: str) -> str:
    """Return the server's certificate, which was not trusted. Nothing is sent on this
    connection."""
    anything = ssl.create_default_context()
    anything.check_hostname = False
    anything.verify_mode = ssl.CERT_NONE
    with suppress(OSError, ValueError):
        with connect() as connection, anything.wrap_socket(connection, server_hostname=host) as tls:
            shown = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
        begin, end = shown.not_valid_before_utc.date(), shown.not_valid_after_utc.date()
        return (
            f"(subject {shown.subject.rfc4514_string()}, issuer {shown.issuer.rfc4514_string()},"
            f" valid from {begin} to {end})."
        )
    return "(the certificate could not be read again)."


def _why(error: Exception) -> str:
    """The step says what failed."""
    return one_line(getattr(error, "strerror", None) or str(error), DETAIL_LIMIT)
