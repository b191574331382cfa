"""Certificates for TLS: by an authority of the test's own, and one that nobody has signed but
itself."""

import ipaddress
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOOPBACK = ("127.0.0.1",)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


class Authority:
    """Issues certificates of servers and clients. `pem` is its own."""

    def __init__(
        self, name: str = "authority", hosts: Sequence[str] = (), days: tuple[int, int] = (-1, 30)
    ) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = _named(name)
        self.certificate = self._sign(self.name, self.key, hosts, days, ca=True)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def write(
        self,
        file: Path,
        name: str,
        hosts: Sequence[str] = LOOPBACK,
        days: tuple[int, int] = (-1, 30),
    ) -> Path:
        """A PEM file with a key and its certificate. `days`: from today, when it is valid."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_named(name), key, hosts, days)
        file.write_bytes(_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))
        return file

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        hosts: Sequence[str],
        days: tuple[int, int],
        *,
        ca: bool = False,
    ) -> x509.Certificate:
        begin, end = (datetime.now(UTC) + timedelta(days=each) for each in days)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(one) for one in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())


def write_certificate(folder: Path) -> Path:
    """A PEM file with key and certificate of 127.0.0.1, which has signed itself."""
    itself = Authority("peer", hosts=LOOPBACK)
    file = folder / "certificate.pem"
    file.write_text(_pem(itself.key).decode() + itself.pem)
    return file


def server_tls(file: Path, clients: Authority | None = None) -> ssl.SSLContext:
    """TLS of a server with this certificate. `clients`: whose certificates it requires."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)
    if clients is not None:
        tls.load_verify_locations(cadata=clients.pem)
        tls.verify_mode = ssl.CERT_REQUIRED
    return tls
