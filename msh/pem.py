"""Certificates and keys for signatures and encryption, as PEM has them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Protocol, TypeGuard, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_pem_private_key

_PRIVATE = "PRIVATE KEY"
NAME_LIMIT = 100  # characters of a subject or issuer
BITS = 2048
"""The shortest RSA key that is taken, or that we sign with."""
_CURVES = "P-256, P-384 and P-521"
_NAMES_OF_CURVES = ("secp256r1", "secp384r1", "secp521r1")


class KeyUnusable(ValueError):
    """A certificate or key that cannot be used. Its text never has any of it."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key of ours with its certificate. `private` is PEM without a password."""

    private: bytes = field(repr=False)
    certificate: x509.Certificate

    @property
    def kind(self) -> str:
        """RSA or EC: with which algorithms it signs."""
        return kind_of(self.certificate)


@dataclass(frozen=True, slots=True)
class DecryptionKey:
    """A key of ours for what is encrypted for us."""

    private: RSAPrivateKey = field(repr=False)


@dataclass(frozen=True, slots=True)
class Trusted:
    """A certificate of an agreement. `kept_expired`: it is taken although it has run out."""

    certificate: x509.Certificate
    kept_expired: bool = False


@lru_cache(maxsize=1024)
def certificates_of(pem: str) -> tuple[x509.Certificate, ...]:
    """The certificates of a text; none of an empty one. Raises KeyUnusable."""
    if not pem.strip():
        return ()
    if _PRIVATE in pem:
        raise KeyUnusable("This has a private key: give the certificate alone.")
    try:
        return tuple(x509.load_pem_x509_certificates(pem.encode()))
    except ValueError:
        raise KeyUnusable("This is no certificate in PEM (BEGIN CERTIFICATE).") from None


def signing_key(private: bytes, certificate: bytes) -> SigningKey:
    """A key and its certificate; what follows that one, its chain, is left out. Raises
    KeyUnusable."""
    key = _private_key(private)
    if not (_is_long_rsa(key) or _is_known_curve(key)):
        raise KeyUnusable(f"the key is no RSA key of {BITS} bits or more, and none of {_CURVES}")
    try:
        first, *_ = x509.load_pem_x509_certificates(certificate)
    except ValueError:
        raise KeyUnusable("the certificate is none in PEM") from None
    if key.public_key() != first.public_key():
        raise KeyUnusable("the key is not that of the certificate")
    return SigningKey(private, first)


def decryption_key(private: bytes) -> DecryptionKey:
    """Raises KeyUnusable."""
    key = _private_key(private)
    if not _is_long_rsa(key):
        raise KeyUnusable(f"the key is no RSA key of {BITS} bits or more")
    return DecryptionKey(key)


def _private_key(private: bytes) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(private, None)
    except (TypeError, ValueError, UnsupportedAlgorithm):
        raise KeyUnusable("the key is no private key in PEM without a password") from None


def _is_long_rsa(key: PrivateKeyTypes) -> TypeGuard[RSAPrivateKey]:
    return isinstance(key, RSAPrivateKey) and key.key_size >= BITS


def _is_known_curve(key: PrivateKeyTypes) -> bool:
    return isinstance(key, EllipticCurvePrivateKey) and key.curve.name in _NAMES_OF_CURVES


def kind_of(certificate: x509.Certificate) -> str:
    """RSA, or else EC: of other keys nothing is signed, or taken, that is of a message."""
    return "RSA" if isinstance(certificate.public_key(), RSAPublicKey) else "EC"


def enciphering(certificates: Iterable[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """Those for whose holder keys can be enciphered: of RSA, and for this use if they say for
    which."""
    return tuple(filter(_enciphers, certificates))


def _enciphers(certificate: x509.Certificate) -> bool:
    key = certificate.public_key()
    if not isinstance(key, RSAPublicKey) or key.key_size < BITS:
        return False
    try:
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return usage.key_encipherment


class _Certified(Protocol):
    @property
    def certificate(self) -> x509.Certificate: ...


One = TypeVar("One", bound=_Certified)


def valid_at(keys: Iterable[One], now: datetime) -> One | None:
    """The one to use: of those that are valid the one that became so last, so that a successor
    takes over when its time has come (EB-178)."""
    valid = [
        one
        for one in keys
        if one.certificate.not_valid_before_utc <= now <= one.certificate.not_valid_after_utc
    ]
    return max(valid, key=lambda one: one.certificate.not_valid_before_utc, default=None)


def described(certificate: x509.Certificate) -> str:
    """Whose it is, and when it is valid, for operators."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    subject, issuer = (
        one.rfc4514_string()[:NAME_LIMIT] for one in (certificate.subject, certificate.issuer)
    )
    return f"subject {subject}, issuer {issuer}, valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}"
