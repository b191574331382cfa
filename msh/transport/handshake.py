"""One TLS handshake with a partner's server, to see and say why it fails: which certificate, whose,
until when, and what to do. Nothing is sent but what TLS, and a proxy, need."""

import socket
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import aiohttp
from cryptography import x509

from msh.pem import described
from msh.protocol.uri import is_link_local
from msh.transport.job import Access
from msh.transport.tls import TlsUnusable, client_context, our_certificate

PORTS = {"http": 80, "https": 443}
NAMES = 5  # host names of a certificate
LISTEN = 0.5
"""Seconds at least for what a server says after our part of the handshake, which ends it with TLS
1.3: only then has it looked at our certificate."""
_HEAD_LIMIT = 16 * 1024  # bytes of a proxy's answer

_EXPIRED, _NOT_YET, _OTHER_HOST, _OTHER_ADDRESS = 10, 9, 62, 64
_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
"""Codes of OpenSSL's X509_V_ERR_*."""

_ABOUT_OURS = {
    "TLSV1_ALERT_UNKNOWN_CA": "unknown authority",
    "SSLV3_ALERT_BAD_CERTIFICATE": "bad certificate",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "unsupported certificate",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "certificate revoked",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "certificate expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "certificate unknown",
    "TLSV1_ALERT_ACCESS_DENIED": "access denied",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "certificate required",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "handshake failure",
}
"""Alerts of a server that may be about our certificate, by OpenSSL's names."""
_UNLIKE_OURS = frozenset(
    {"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"}
)


@dataclass(frozen=True, slots=True)
class Server:
    """Where the handshake is tried."""

    host: str
    port: int
    access: Access

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def why_no_tls(url: str, access: Access, deadline: float) -> str:
    """Empty if the handshake works now, or cannot be tried. Waits at most `deadline` seconds for
    each of two connections."""
    parts = urlsplit(url)
    try:
        server = Server(parts.hostname or "", parts.port or PORTS["https"], access)
        with connect(server, deadline) as connection:
            shake_hands(connection, server)
    except (ssl.SSLError, TlsUnusable) as error:
        return explained(error, server, deadline)
    except (OSError, ValueError):
        pass
    return ""


def connect(server: Server, deadline: float, *, tunnel: bool = True) -> socket.socket:
    """Connect as for a POST: to no link-local address, and by the proxy, if there is one.
    `tunnel`: through it, as https needs it. Raises OSError."""
    proxy = urlsplit(server.access.proxy)
    host, port = server.host, server.port
    if is_link_local(host):
        raise OSError(f"{host} is a link-local address")
    if server.access.proxy:
        host, port = proxy.hostname or "", proxy.port or PORTS["http"]
    connection = socket.create_connection((host, port), deadline)
    try:
        address, *_ = connection.getpeername()
        if is_link_local(address):
            raise OSError(f"{address} is a link-local address")
        if server.access.proxy and tunnel:
            _tunnel(connection, server)
    except BaseException:
        connection.close()
        raise
    return connection


def _tunnel(connection: socket.socket, server: Server) -> None:
    proxy = urlsplit(server.access.proxy)
    place = f"[{server.host}]" if ":" in server.host else server.host
    lines = [f"CONNECT {place}:{server.port} HTTP/1.1", f"Host: {place}:{server.port}"]
    if proxy.username is not None:
        login = (unquote(proxy.username), unquote(proxy.password or ""))
        lines.append(f"Proxy-Authorization: {aiohttp.encode_basic_auth(*login)}")
    connection.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head and len(head) < _HEAD_LIMIT:
        if not (byte := connection.recv(1)):  # what follows is the server's
            break
        head += byte
    status = head.partition(b"\r\n")[0].decode("latin-1")
    if status.split(" ")[1:2] != ["200"]:
        said = status.partition(" ")[2] or "nothing that is HTTP"
        raise OSError(f"the proxy {proxy.hostname}:{proxy.port} answered {said}")


def shake_hands(connection: socket.socket, server: Server) -> ssl.SSLSocket:
    """Raises ssl.SSLError, OSError or TlsUnusable; also if the server refuses our certificate after
    the handshake. The connection is closed with what is returned."""
    context = client_context(server.access.authorities, server.access.certificate)
    began = time.monotonic()
    tls = context.wrap_socket(connection, server_hostname=server.host)
    try:
        if tls.version() == "TLSv1.3":
            tls.settimeout(max(LISTEN, 2 * (time.monotonic() - began)))
            with suppress(TimeoutError):
                tls.recv(1)
    except BaseException:
        tls.close()
        raise
    return tls


def explained(error: Exception, server: Server, deadline: float) -> str:
    """`error`: of `shake_hands`. The fault comes first, then the certificate and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_trusted(error, server, _shown(server, deadline))
    if isinstance(error, ssl.SSLError):
        return _failed(error, server)
    return f"TLS is not possible: {error}"


def _not_trusted(
    error: ssl.SSLCertVerificationError, server: Server, shown: x509.Certificate | None
) -> str:
    fault = error.verify_message.rstrip(".")
    said = described(shown) if shown else "a certificate that could not be read again"
    text = f"Certificate not trusted: {fault} ({server}). The server showed {said}."
    code = error.verify_code
    if code == _EXPIRED:
        return f"{text} The partner's operator must renew it, or one of its authorities."
    if code == _NOT_YET:
        return f"{text} It is not valid yet: compare the clocks, or wait."
    if code in (_OTHER_HOST, _OTHER_ADDRESS):
        names = ", ".join(_hosts(shown)) if shown else ""
        return f"{text} It is for {names or 'no host'}: correct the address, or have it renewed."
    if code in _UNKNOWN_ISSUER:
        where = (
            "the CA certificates of the partner"
            if server.access.authorities
            else ("MSH_CA_BUNDLE or the CA certificates of the partner")
        )
        return (
            f"{text} Its authority is not in {where}, or the server does not send the"
            " certificates between them."
        )
    return text


def _failed(error: ssl.SSLError, server: Server) -> str:
    reason = error.reason or ""
    if alert := _ABOUT_OURS.get(reason):
        ours = our_certificate(server.access.certificate)
        if reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
            asks = "our certificate" if ours else "a client certificate (MSH_CLIENT_CERTIFICATE)"
            cure = f"It takes none of our ciphers (MSH_TLS_CIPHERS), or asks for {asks}."
            return f"TLS failed: the server says {alert} ({server}). {cure}"
        if ours is None:
            return (
                f"TLS failed: the server says {alert} ({server}), and we showed none. Set"
                " MSH_CLIENT_CERTIFICATE and MSH_CLIENT_KEY, or the client certificate of the"
                " partner."
            )
        return (
            f"Our certificate is refused: the server says {alert} ({server}). We showed"
            f" {described(ours)}. Ask the partner's operator whose certificates it takes."
        )
    if reason in _UNLIKE_OURS:
        return f"TLS failed: no version in common ({server}). We speak TLS 1.2 and 1.3."
    if reason == "WRONG_VERSION_NUMBER":
        return f"TLS failed: the server does not speak TLS there ({server}). Correct the address."
    return f"TLS failed: {error.strerror or error} ({server})"


def _hosts(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(name.value) for name in list(names.value)[:NAMES]]


def _shown(server: Server, deadline: float) -> x509.Certificate | None:
    """The server's certificate, which was not trusted. Nothing is sent on this connection, and
    nothing of ours shown."""
    anything = ssl.create_default_context()
    anything.check_hostname = False
    anything.verify_mode = ssl.CERT_NONE
    try:
        with (
            connect(server, deadline) as connection,
            anything.wrap_socket(connection, server_hostname=server.host) as tls,
        ):
            return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
    except (OSError, ValueError):
        return None
