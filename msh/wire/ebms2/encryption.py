"""Payloads as `xenc:EncryptedData`, by xmlsec (EB-185, EB-187).

A part that cannot be decrypted is refused by one sentence, whatever is wrong with it: what tells
more tells an attacker how to go on.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast
from xml.sax.saxutils import quoteattr

import xmlsec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from msh.protocol.errors import Unreadable
from msh.wire import document

from .names import DS

XENC, XENC11 = "http://www.w3.org/2001/04/xmlenc#", "http://www.w3.org/2009/xmlenc11#"
AES_256_GCM = f"{XENC11}aes256-gcm"
RSA_OAEP, RSA_1_5 = f"{XENC}rsa-oaep-mgf1p", f"{XENC}rsa-1_5"
CONTENT = {
    **{f"{XENC11}aes{bits}-gcm": bits // 8 for bits in (128, 192, 256)},
    **{f"{XENC}aes{bits}-cbc": bits // 8 for bits in (128, 192, 256)},
}
"""Of the content: the algorithms that are taken, and the bytes of their keys."""


class DecryptionRefused(Exception):
    """Its text goes on after the name of the part."""


@dataclass(frozen=True, slots=True)
class DecryptionKey:
    """A key of ours: PEM without a password. `allow_rsa_1_5`: an agreement needs it."""

    private: bytes = field(repr=False)
    allow_rsa_1_5: bool = False


@dataclass(frozen=True, slots=True)
class Decrypted:
    content_type: str
    content: bytes = field(repr=False)


def encrypt(
    content: bytes, content_type: str, certificate: x509.Certificate, method: str = AES_256_GCM
) -> bytes:
    """Return an EncryptedData document that the holder of the certificate's key can read."""
    root = etree.fromstring(_template(content_type, certificate, method))
    manager = xmlsec.KeysManager()
    manager.add_key(
        xmlsec.Key.from_memory(
            certificate.public_bytes(Encoding.DER), xmlsec.constants.KeyDataFormatCertDer, None
        )
    )
    context = xmlsec.EncryptionContext(manager)
    size = CONTENT[method] * 8
    context.key = xmlsec.Key.generate(
        xmlsec.constants.KeyDataAes, size, xmlsec.constants.KeyDataTypeSession
    )
    context.encrypt_binary(root, content)
    return etree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _template(content_type: str, certificate: x509.Certificate, method: str) -> str:
    der = b64encode(certificate.public_bytes(Encoding.DER)).decode()
    return (
        f'<xenc:EncryptedData xmlns:xenc="{XENC}" MimeType={quoteattr(content_type)}>'
        f'<xenc:EncryptionMethod Algorithm="{method}"/><ds:KeyInfo xmlns:ds="{DS}">'
        f'<xenc:EncryptedKey><xenc:EncryptionMethod Algorithm="{RSA_OAEP}"/><ds:KeyInfo>'
        f"<ds:X509Data><ds:X509Certificate>{der}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>"
        "<xenc:CipherData><xenc:CipherValue/></xenc:CipherData></xenc:EncryptedKey></ds:KeyInfo>"
        "<xenc:CipherData><xenc:CipherValue/></xenc:CipherData></xenc:EncryptedData>"
    )


def decrypt(encrypted: bytes, keys: Sequence[DecryptionKey]) -> Decrypted:
    """The content of an EncryptedData document, by one of our keys. Raises DecryptionRefused."""
    root = _root(encrypted)
    for key in keys:
        _check_algorithms(root, key)
        try:
            return Decrypted(root.get("MimeType", ""), _content(root, key))
        except xmlsec.Error:
            root = _root(encrypted)  # it may have been changed
    raise DecryptionRefused("cannot be decrypted by a key of ours")


def _content(root: etree._Element, key: DecryptionKey) -> bytes:
    manager = xmlsec.KeysManager()
    manager.add_key(xmlsec.Key.from_memory(key.private, xmlsec.constants.KeyDataFormatPem, None))
    # Of octets it returns octets, which its types do not say.
    return cast("bytes", xmlsec.EncryptionContext(manager).decrypt(root))


def _root(encrypted: bytes) -> etree._Element:
    try:
        root = document.parse_whole(encrypted)
    except Unreadable:
        raise DecryptionRefused("is no EncryptedData that can be read") from None
    if root.tag != f"{{{XENC}}}EncryptedData":
        raise DecryptionRefused("is no EncryptedData")
    if root.get("Type") is not None:
        raise DecryptionRefused("has a Type: a part is encrypted as octets")
    if root.find(f".//{{{XENC}}}CipherReference") is not None:
        raise DecryptionRefused("has its cipher text elsewhere")
    return root


def _check_algorithms(root: etree._Element, key: DecryptionKey) -> None:
    """Before anything is computed: what an agreement does not allow is not tried."""
    of_keys = {RSA_OAEP, f"{XENC11}rsa-oaep"} | ({RSA_1_5} if key.allow_rsa_1_5 else set())
    for method in root.iter(f"{{{XENC}}}EncryptionMethod"):
        algorithm = method.get("Algorithm", "")
        taken = of_keys if method.getparent() is not root else CONTENT.keys()
        if algorithm not in taken:
            raise DecryptionRefused(f"is encrypted by {algorithm[:200]}, which is not taken")
