"""The client behind a proxy: its address, whether it came by TLS, and its certificate (EB-188).

Only proxies of MSH_TRUSTED_PROXIES are believed. The result is in the environment as WSGI has it:
in REMOTE_ADDR and wsgi.url_scheme; the SHA-256 of the certificate under CERTIFICATE. The headers
that proxies use are removed, because any client can send them.
"""

import ipaddress
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from django.conf import settings

from partners.models.credential import fingerprint_of
from partners.models.networks import Network, is_in, networks_of

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

logger = logging.getLogger(__name__)

CERTIFICATE = "msh.client_certificate"
"""The key in the environment; no header can have it."""
UNREADABLE = "unreadable"
"""In place of the SHA-256: it is that of nobody."""
FORWARDED_FOR = "HTTP_X_FORWARDED_FOR"
FORWARDED_PROTO = "HTTP_X_FORWARDED_PROTO"
_HEADERS = (FORWARDED_FOR, FORWARDED_PROTO, "HTTP_FORWARDED", "HTTP_X_REAL_IP")

_warned_of: set[str] = set()
"""Addresses of proxies that are not trusted, and that the log has named."""


class Client(NamedTuple):
    address: str
    scheme: str


def client_of(peer: str, scheme: str, headers: Mapping[str, Any]) -> Client:
    """Return the client of a request that came from `peer` by `scheme`. `headers` have the names of
    WSGI.

    Of the addresses that proxies have written down, the last one that is no proxy of ours counts:
    those before it are the client's own words.
    """
    forwarded = headers.get(FORWARDED_FOR, "")
    if not _is_trusted(peer):
        if forwarded:
            _tell_once(peer)
        return Client(peer, scheme)
    named = headers.get(FORWARDED_PROTO, "").rpartition(",")[2].strip().lower()
    if named in ("http", "https"):
        scheme = named
    address = peer
    for part in reversed(forwarded.split(",")):
        candidate = _address(part.strip())
        if candidate is None:
            break
        address = candidate
        if not _is_trusted(address):
            break
    return Client(address, scheme)


def resolve(environ: "WSGIEnvironment") -> None:
    _take_certificate(environ)
    if any(header in environ for header in _HEADERS):
        peer, scheme = environ.get("REMOTE_ADDR", ""), environ["wsgi.url_scheme"]
        client = client_of(peer, scheme, environ)
        environ["REMOTE_ADDR"], environ["wsgi.url_scheme"] = client
        for header in _HEADERS:
            environ.pop(header, None)


def _take_certificate(environ: "WSGIEnvironment") -> None:
    """Before the address of the client stands in place of that of the proxy. From others the header
    is removed."""
    name = settings.MSH_CLIENT_CERTIFICATE_HEADER
    shown = environ.pop(f"HTTP_{name.upper().replace('-', '_')}", "") if name else ""
    if not shown or not _is_trusted(environ.get("REMOTE_ADDR", "")):
        return
    try:
        environ[CERTIFICATE] = fingerprint_of(shown)
    except ValueError:
        environ[CERTIFICATE] = UNREADABLE


A_FEW = 8
"""Addresses that a trusted network may have, if nothing else is known of who has them."""


def too_wide() -> list[Network]:
    """The trusted networks in which others than the proxies are likely to have addresses."""
    trusted = networks_of(settings.MSH_TRUSTED_PROXIES)
    return [one for one in trusted if one.num_addresses > A_FEW and not one.is_loopback]


def _is_trusted(address: str) -> bool:
    return is_in(address, networks_of(settings.MSH_TRUSTED_PROXIES))


def _address(text: str) -> str | None:
    """The IP address in an element of X-Forwarded-For, which may have a port."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _tell_once(peer: str) -> None:
    if peer not in _warned_of and len(_warned_of) < 100:
        _warned_of.add(peer)
        logger.warning(
            "requests from %s have X-Forwarded-For: if it is a proxy of yours, name it in"
            " MSH_TRUSTED_PROXIES; until then all its clients count as one address",
            peer,
        )
