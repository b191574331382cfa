"""TLS of a run: an authority of its own, the front at which the proxy ends TLS, and a client
certificate for each MSH, without which the front takes nothing."""

import ipaddress
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from .http11 import HOST

HEADER = "X-Client-Certificate"
_DAYS = timedelta(days=100)
"""Long enough that no MSH of a run warns of their end."""


class Trust:
    """What is made for MSHs of these names. `write` puts it into files of the folder."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("authority of the demo")
        certificate = self._sign("authority of the demo", self._key, ca=True)
        self.authority = _pem(certificate)
        self._keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("front", *names)}
        self._certificates = {name: _pem(self._sign(name, key)) for name, key in self._keys.items()}

    def write(self) -> None:
        self._folder.mkdir(parents=True)
        (self._folder / "authority.pem").write_text(self.authority)
        for name, key in self._keys.items():
            (self._folder / f"{name}.crt").write_text(self._certificates[name])
            private = self._folder / f"{name}.key"
            private.touch(0o600)
            private.write_bytes(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
            )

    def front(self) -> ssl.SSLContext:
        """Takes clients with a certificate of the authority, and no others."""
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.authority)
        tls.load_cert_chain(self._folder / "front.crt", self._folder / "front.key")
        tls.verify_mode = ssl.CERT_REQUIRED
        return tls

    def environment(self, name: str) -> dict[str, str]:
        """The settings of this MSH."""
        return {
            "MSH_CLIENT_CERTIFICATE": str(self._folder / f"{name}.crt"),
            "MSH_CLIENT_KEY": str(self._folder / f"{name}.key"),
            "MSH_CA_BUNDLE": str(self._folder / "authority.pem"),
            "MSH_TRUSTED_PROXIES": HOST,
            "MSH_CLIENT_CERTIFICATE_HEADER": HEADER,
        }

    def certificate_of(self, name: str) -> str:
        """In PEM."""
        return self._certificates[name]

    def _sign(
        self, name: str, key: ec.EllipticCurvePrivateKey, *, ca: bool = False
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        address = x509.IPAddress(ipaddress.ip_address(HOST))
        return (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + _DAYS)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
