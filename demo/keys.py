"""Signatures and encryption of an exchange: each MSH has one key for both, made for the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from msh.standalone import datafolder

_DAYS = 400  # longer than the time before its end at which operators are told


@dataclass(slots=True)
class Keys:
    """Without `signed` and `encrypted` there are none."""

    signed: bool = False
    encrypted: bool = False
    _certificates: dict[str, str] = field(default_factory=dict)

    def make(self, name: str, folder: Path) -> dict[str, str]:
        """The settings of an MSH of this name, whose files are put into the folder."""
        if not (self.signed or self.encrypted):
            return {}
        key = rsa.generate_private_key(65537, 2048)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        ends = (now - timedelta(days=1), now + timedelta(days=_DAYS))
        number = x509.random_serial_number()
        builder = x509.CertificateBuilder(subject, subject, key.public_key(), number, *ends)
        certificate = builder.sign(key, hashes.SHA256())
        pem = certificate.public_bytes(serialization.Encoding.PEM).decode().strip()
        files = folder / "our.key", folder / "our.crt"
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in zip(files, (private.decode(), pem), strict=True):
            datafolder.write_secret(file, text)
        self._certificates[name] = pem
        ours = {"MSH_SIGNING_KEY": files[0], "MSH_SIGNING_CERTIFICATE": files[1]}
        settings = (ours if self.signed else {}) | (
            {"MSH_DECRYPTION_KEY": files[0]} if self.encrypted else {}
        )
        return {setting: str(file) for setting, file in settings.items()}

    def terms(self, neighbour: str) -> Mapping[str, object]:
        """What an agreement with this MSH says of them."""
        if neighbour not in self._certificates:
            return {}
        return {
            "signed": self.signed,
            "ack_signed": self.signed,
            "encrypted": self.encrypted,
            "certificate": self._certificates[neighbour],
        }
