"""TLS to partners and to our mail host: what we show there, and whom we trust (EB-189).

MSH_CLIENT_CERTIFICATE and MSH_CLIENT_KEY are files, and so is MSH_CA_BUNDLE;
MSH_CLIENT_CERTIFICATES is a folder of others, which partners name. Those that are replaced are read
again. The operating system's authorities count where no other are named.
"""

import logging
import os
import re
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from django.conf import settings

from msh.certificates import Stamp, stamp_of

logger = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Of a certificate in MSH_CLIENT_CERTIFICATES: nothing that leads out of the folder."""
_KEPT = 1000  # contexts, of as many texts of authorities
_SYSTEM = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""What OpenSSL asks the environment for."""


class TlsUnusable(ValueError):
    """The files or settings cannot be used. The text names them and has nothing of a key."""


@dataclass(frozen=True, slots=True)
class _Made:
    """The contexts of one state of settings and files, by their authorities, for one certificate
    of ours."""

    names: tuple[str, ...] = ()
    stamp: Stamp = ()
    certificate: x509.Certificate | None = None
    contexts: dict[str, ssl.SSLContext] = field(default_factory=dict)


_made: dict[str, _Made] = {}
"""By the name of our certificate."""
_lock = threading.Lock()


def client_context(authorities: str = "", certificate: str = "") -> ssl.SSLContext:
    """The context for connections of ours; the same one as long as nothing changes. `authorities`:
    certificates in PEM that are trusted, and no others; empty: those of MSH_CA_BUNDLE, or of the
    system. One of them may be the server's own certificate. `certificate`: the name of ours, as
    `Access` has it.

    While replaced files cannot be used, as a certificate whose key is still to come, what was made
    of those before stays. Raises TlsUnusable.
    """
    with _lock:
        made = _current(certificate)
        context = made.contexts.get(authorities)
        if context is None:
            context = _context(authorities, made.names[:2])
            if len(made.contexts) >= _KEPT:
                made.contexts.clear()
            made.contexts[authorities] = context
        return context


def our_certificate(name: str = "") -> x509.Certificate | None:
    """The one of this name that servers are shown. None without a name and MSH_CLIENT_CERTIFICATE.
    Raises TlsUnusable."""
    with _lock:
        return _current(name).certificate


def why_not_shown(name: str) -> str:
    """Why the certificate of this name cannot be used; empty if it can."""
    try:
        our_certificate(name)
    except TlsUnusable as problem:
        return str(problem)
    return ""


def _pair(name: str) -> tuple[str, str]:
    """The files of our certificate and of its key. Raises TlsUnusable."""
    if not name:
        return settings.MSH_CLIENT_CERTIFICATE, settings.MSH_CLIENT_KEY
    if not NAME.fullmatch(name):
        raise TlsUnusable(f"{name!r} is not of letters, digits, dots, _ and - alone")
    folder = settings.MSH_CLIENT_CERTIFICATES
    if not folder:
        raise TlsUnusable("MSH_CLIENT_CERTIFICATES is not set")
    key = Path(folder, f"{name}.key")
    return str(Path(folder, f"{name}.pem")), str(key) if key.exists() else ""


def _current(name: str) -> _Made:
    files = (*_pair(name), settings.MSH_CA_BUNDLE)
    system = tuple(os.environ.get(one, "") for one in _SYSTEM)
    names = (*files, settings.MSH_TLS_CIPHERS, *system)
    before = _made.get(name)
    if before is not None and before.names != names:
        before = None
    stamp: Stamp = ()
    try:
        stamp = stamp_of(file for file in files if file)
        if before is None or stamp != before.stamp:
            before = _Made(names, stamp, _certificate(files[0]), {"": _context("", files[:2])})
    except (OSError, TlsUnusable) as problem:
        why = f"{problem.filename}: {problem.strerror}" if isinstance(problem, OSError) else problem
        if before is None:
            raise TlsUnusable(str(why)) from None
        if stamp != before.stamp:
            logger.warning("TLS goes on with what was read before: %s", why)
        before = _Made(names, stamp, before.certificate, before.contexts)
    _made[name] = before
    return before


def _certificate(file: str) -> x509.Certificate | None:
    if not file:
        return None
    try:
        first, *_ = x509.load_pem_x509_certificates(Path(file).read_bytes())
    except ValueError:
        raise TlsUnusable(f"{file}: there is no certificate in PEM") from None
    return first


def _context(authorities: str, ours: Sequence[str]) -> ssl.SSLContext:
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
    _show_ours(context, *ours)
    return context


def _show_ours(context: ssl.SSLContext, certificate: str, key: str) -> None:
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
