"""Keys with self-signed certificates, for signatures."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from msh.pem import SigningKey

SIGNS_ONLY = x509.KeyUsage(
    digital_signature=True,
    **dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment"), False),
    **dict.fromkeys(("key_agreement", "key_cert_sign", "crl_sign"), False),
    **dict.fromkeys(("encipher_only", "decipher_only"), False),
)


@cache
def new_key(
    name: str,
    begin: int = -1,
    end: int = 1,
    now: datetime | None = None,
    *,
    bits: int = 2048,
    enciphers: bool = True,
    curve: ec.EllipticCurve | None = None,
) -> SigningKey:
    """The same for the same arguments. `begin` and `end`: days from `now` on, today if it is None,
    in which the certificate is valid. Unless it `enciphers` keys it says that it does not. Of RSA
    if there is no `curve`."""
    now = now or datetime.now(UTC)
    key = ec.generate_private_key(curve) if curve else rsa.generate_private_key(65537, bits)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=begin))
        .not_valid_after(now + timedelta(days=end))
    )
    if not enciphers:
        builder = builder.add_extension(SIGNS_ONLY, critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return SigningKey(private, certificate)


def pem_of(key: SigningKey) -> str:
    """Its certificate."""
    return key.certificate.public_bytes(serialization.Encoding.PEM).decode().strip()


def environment(folder: Path, keys: Iterable[SigningKey]) -> dict[str, Any]:
    """The settings of an MSH that signs with these, whose files are written into the folder."""
    names = []
    for number, key in enumerate(keys):
        (folder / f"{number}.key").write_bytes(key.private)
        (folder / f"{number}.crt").write_text(pem_of(key))
        names.append(folder / str(number))
    return {
        "MSH_SIGNING_KEY": ",".join(f"{name}.key" for name in names),
        "MSH_SIGNING_CERTIFICATE": ",".join(f"{name}.crt" for name in names),
    }


def decrypting(folder: Path, keys: Iterable[SigningKey]) -> dict[str, Any]:
    """The setting of an MSH that decrypts by these."""
    names = []
    for number, key in enumerate(keys):
        names.append(folder / f"decrypts-{number}.key")
        names[-1].write_bytes(key.private)
    return {"MSH_DECRYPTION_KEY": ",".join(map(str, names))}
