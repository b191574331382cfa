"""TLS to partners and to our mail host: what we show there, and whom we trust (EB-189).

MSH_CLIENT_CERTIFICATE and MSH_CLIENT_KEY are files, and so is MSH_CA_BUNDLE; those that are
replaced are read again. The operating system's authorities count where no other are named.
"""

import logging
import os
import ssl
import threading
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from django.conf import settings

from msh.certificates import Stamp, stamp_of

logger = logging.getLogger(__name__)

_KEPT = 1000  # contexts, of as many texts of authorities
_SYSTEM = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""What OpenSSL asks the environment for."""


class TlsUnusable(ValueError):
    """The files or settings cannot be used. The text names them and has nothing of a key."""


@dataclass(frozen=True, slots=True)
class _Made:
    """The contexts of one state of settings and files, by their authorities."""

    names: tuple[str, ...] = ()
    stamp: Stamp = ()
    certificate: x509.Certificate | None = None
    contexts: dict[str, ssl.SSLContext] = field(default_factory=dict)


_made = _Made()
_lock = threading.Lock()


def client_context(authorities: str = "") -> ssl.SSLContext:
    """The context for connections of ours; the same one as long as nothing changes. `authorities`:
    certificates in PEM that are trusted, and no others; empty: those of MSH_CA_BUNDLE, or of the
    system. One of them may be the server's own certificate.

    While replaced files cannot be used, as a certificate whose key is still to come, what was made
    of those before stays. Raises TlsUnusable.
    """
    with _lock:
        made = _current()
        context = made.contexts.get(authorities)
        if context is None:
            context = _context(authorities)
            if len(made.contexts) >= _KEPT:
                made.contexts.clear()
            made.contexts[authorities] = context
        return context


def our_certificate() -> x509.Certificate | None:
    """The one that servers are shown. None without MSH_CLIENT_CERTIFICATE. Raises TlsUnusable."""
    with _lock:
        return _current().certificate


def _current() -> _Made:
    global _made
    files = (settings.MSH_CLIENT_CERTIFICATE, settings.MSH_CLIENT_KEY, settings.MSH_CA_BUNDLE)
    system = tuple(os.environ.get(name, "") for name in _SYSTEM)
    names = (*files, settings.MSH_TLS_CIPHERS, *system)
    before = _made if _made.names == names else None
    stamp: Stamp = ()
    try:
        stamp = stamp_of(file for file in files if file)
        if before is None or stamp != before.stamp:
            before = _Made(names, stamp, _certificate(), {"": _context("")})
    except (OSError, TlsUnusable) as problem:
        why = f"{problem.filename}: {problem.strerror}" if isinstance(problem, OSError) else problem
        if before is None:
            raise TlsUnusable(str(why)) from None
        if stamp != before.stamp:
            logger.warning("TLS goes on with what was read before: %s", why)
        before = _Made(names, stamp, before.certificate, before.contexts)
    _made = before
    return before


def _certificate() -> x509.Certificate | None:
    file = settings.MSH_CLIENT_CERTIFICATE
    if not file:
        return None
    try:
        first, *_ = x509.load_pem_x509_certificates(Path(file).read_bytes())
    except ValueError:
        raise TlsUnusable(f"{file}: there is no certificate in PEM") from None
    return first


def _context(authorities: str) -> ssl.SSLContext:
    bundle = settings.MSH_CA_BUNDLE
    try:
        context = ssl.create_default_context(
            cafile=None if authorities else bundle or None, cadata=authorities or None
        )
    except ssl.SSLError:
        whose = "the CA certificates of the partner" if authorities else bundle
        raise TlsUnusable(f"{whose}: there is no certificate in PEM") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a server's own certificate counts too
    if ciphers := settings.MSH_TLS_CIPHERS:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError:
            raise TlsUnusable(f"MSH_TLS_CIPHERS: OpenSSL has no cipher of {ciphers!r}") from None
    _show_ours(context)
    return context


def _show_ours(context: ssl.SSLContext) -> None:
    certificate, key = settings.MSH_CLIENT_CERTIFICATE, settings.MSH_CLIENT_KEY
    if not certificate:
        if key:
            raise TlsUnusable("MSH_CLIENT_KEY is set, and MSH_CLIENT_CERTIFICATE is not")
        return
    try:
        # Without a password given here, OpenSSL would ask for it at the terminal.
        context.load_cert_chain(certificate, key or None, password="")
    except ssl.SSLError as problem:
        if problem.reason == "KEY_VALUES_MISMATCH":
            why = f"{key or certificate}: the key is not that of the certificate {certificate}"
        else:
            why = f"{key or certificate}: there is no private key in PEM without a password"
        raise TlsUnusable(why) from None
