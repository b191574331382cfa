"""Payloads as `xenc:EncryptedData` (EB-185, EB-187).

By the primitives themselves, not by xmlsec: what fails has to take the same steps as what
succeeds, the cipher text of a large payload never stands in a tree, and threads need not wait for
one another.
"""

import os
import re
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from xml.sax.saxutils import quoteattr

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, GCM
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from msh.pem import DecryptionKey
from msh.protocol.ebms import encryption
from msh.protocol.ebms.encryption import (
    CONTENT,
    DIGESTS,
    MASKS,
    METHODS,
    RSA_1_5,
    RSA_OAEP_MGF1P,
    XENC,
    XENC11,
    Algorithms,
    DecryptionTerms,
    why_not_taken,
)
from msh.protocol.ebms.encryption import GCM as OF_GCM
from msh.protocol.ebms.message import ReceivedMessage
from msh.protocol.errors import Unreadable
from msh.protocol.message import IDENTITY_BYTES
from msh.wire import document, mime
from msh.wire.package import identity_digest
from msh.wire.text import shown

from .names import DS, ds

CONTENT_TYPE = "application/xml"
"""Of a part that is encrypted."""
UNKNOWN_TYPE = "application/octet-stream"
_BLOCK, _NONCE, _TAG = 16, 12, 16  # bytes
_CUT = 64 * 1024  # bytes of text that are parsed with the elements
_MARK = b"#"  # no character of base64
_LINE_END = re.compile(rb"&#(?:13|10|[xX]0*[aAdD]);")
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "sha1": hashes.SHA1(),  # noqa: S303  of OAEP, where it need not resist collisions
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A payload that was decrypted. With `why_not`, a sentence that goes on after its name, it is
    not what was encrypted, and only there for the steps that follow to be the same ones."""

    content_type: str
    content: bytes = field(repr=False)
    why_not: str = ""


# --- Encrypt ------------------------------------------------------------------------------------


def encrypt(content: bytes, content_type: str, certificate: x509.Certificate, method: str) -> bytes:
    """Return an EncryptedData document that the holder of the certificate's RSA key can read. It is
    another one each time. `method`: as METHODS calls it."""
    algorithm = METHODS[method]
    public = certificate.public_key()
    if not isinstance(public, RSAPublicKey):
        raise TypeError("the certificate is for no RSA key")
    session = os.urandom(CONTENT[algorithm])
    key = b64encode(public.encrypt(session, _oaep("sha1", "sha1")))
    der = b64encode(certificate.public_bytes(Encoding.DER)).decode()
    before = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<xenc:EncryptedData xmlns:xenc="{XENC}" MimeType={quoteattr(content_type)}>'
        f'<xenc:EncryptionMethod Algorithm="{algorithm}"/><ds:KeyInfo xmlns:ds="{DS}">'
        f'<xenc:EncryptedKey><xenc:EncryptionMethod Algorithm="{RSA_OAEP_MGF1P}"/><ds:KeyInfo>'
        f"<ds:X509Data><ds:X509Certificate>{der}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>"
        f"<xenc:CipherData><xenc:CipherValue>{key.decode()}</xenc:CipherValue></xenc:CipherData>"
        "</xenc:EncryptedKey></ds:KeyInfo><xenc:CipherData><xenc:CipherValue>"
    )
    after = b"</xenc:CipherValue></xenc:CipherData></xenc:EncryptedData>"
    enciphered = b64encode(_enciphered(content, session, algorithm))
    return b"".join((before.encode(), enciphered, after))


def _enciphered(content: bytes, session: bytes, algorithm: str) -> bytes:
    if algorithm in OF_GCM:
        nonce = os.urandom(_NONCE)
        gcm = Cipher(AES(session), GCM(nonce)).encryptor()
        return b"".join((nonce, gcm.update(content), gcm.finalize(), gcm.tag))
    begin, fill = os.urandom(_BLOCK), _BLOCK - len(content) % _BLOCK
    cbc = Cipher(AES(session), CBC(begin)).encryptor()
    filled = os.urandom(fill - 1) + bytes([fill])
    return b"".join((begin, cbc.update(content), cbc.update(filled), cbc.finalize()))


def _oaep(digest: str, mask: str, label: bytes | None = None) -> padding.OAEP:
    return padding.OAEP(padding.MGF1(_HASHES[mask]), _HASHES[digest], label)


# --- Decrypt ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sealed:
    """An EncryptedData as it was read. `key` and `content` are what is enciphered."""

    content_type: str
    algorithms: Algorithms
    label: bytes | None
    key: bytes
    content: bytes


class _Unfit(Exception):
    """Its text goes on after the name of the part."""


def decrypt(encrypted: bytes, keys: Sequence[DecryptionKey], terms: DecryptionTerms) -> Opened:
    """The content of an EncryptedData document, by one of our keys. All are tried, whatever is
    wrong with the cipher text: the time that it takes tells nothing."""
    try:
        sealed = _read(encrypted)
    except Unreadable:
        return Opened(UNKNOWN_TYPE, b"", "is no EncryptedData that can be read")
    except _Unfit as problem:
        return Opened(UNKNOWN_TYPE, b"", str(problem))
    if why := why_not_taken(sealed.algorithms, terms):
        return Opened(sealed.content_type, b"", why)
    if not _has_whole_blocks(sealed):
        return Opened(sealed.content_type, b"", "has no whole cipher text")
    plain, content = None, b""
    for key in keys:
        session, is_key = _session_key(sealed, key)
        content, is_content = _deciphered(sealed, session)
        if plain is None and is_key and is_content:
            plain = content
    if plain is None:
        return Opened(sealed.content_type, content, "cannot be decrypted by a key of ours")
    return Opened(sealed.content_type, plain)


def decrypted(
    received: ReceivedMessage, keys: Sequence[DecryptionKey], terms: DecryptionTerms
) -> ReceivedMessage:
    """The message with its payloads as they were before they were encrypted, and the digest of
    these (EB-101); with a defect for each that cannot be decrypted. Then the digest is that of no
    other message: where only the proof of GCM was changed, the content is still that of a copy."""
    payloads, unlike = [], b""
    for payload in received.payloads:
        if payload.content_id in received.encrypted:
            opened = decrypt(payload.content, keys, terms)
            if opened.why_not:
                reason = f"payload {shown(payload.content_id)} {opened.why_not}"
                received, unlike = encryption.undecrypted(received, reason), os.urandom(_BLOCK)
            content, content_type = opened.content, opened.content_type
            payload = replace(payload, content=content, content_type=content_type)  # noqa: PLW2901
        payloads.append(payload)
    digest = received.content_digest[:IDENTITY_BYTES]
    digest += identity_digest([*(one.content for one in payloads), *filter(None, [unlike])])
    return encryption.decrypted(received, payloads, digest)


def _session_key(sealed: _Sealed, key: DecryptionKey) -> tuple[bytes, bool]:
    """A random one takes the place of one that cannot be deciphered, or that does not fit."""
    algorithms, size = sealed.algorithms, CONTENT[sealed.algorithms.content]
    instead = os.urandom(size)
    how: padding.AsymmetricPadding
    if algorithms.key == RSA_1_5:
        how = padding.PKCS1v15()
    else:
        digest = DIGESTS.get(algorithms.digest, "sha1")
        how = _oaep(digest, MASKS.get(algorithms.mask, "sha1"), sealed.label)
    try:
        found = key.private.decrypt(sealed.key, how)
    except ValueError:
        found = b""
    return (found, True) if len(found) == size else (instead, False)


def _deciphered(sealed: _Sealed, session: bytes) -> tuple[bytes, bool]:
    enciphered = memoryview(sealed.content)
    if sealed.algorithms.content in OF_GCM:
        mode = GCM(bytes(enciphered[:_NONCE]), bytes(enciphered[-_TAG:]))
        gcm = Cipher(AES(session), mode).decryptor()
        content = gcm.update(enciphered[_NONCE:-_TAG])
        try:
            gcm.finalize()
        except InvalidTag:
            return content, False
        return content, True
    cbc = Cipher(AES(session), CBC(bytes(enciphered[:_BLOCK]))).decryptor()
    content = cbc.update(enciphered[_BLOCK:]) + cbc.finalize()
    fill = content[-1]
    fits = 1 <= fill <= _BLOCK
    return content[: -fill if fits else None], fits


def _read(encrypted: bytes) -> _Sealed:
    text, _ = document.in_utf_8(encrypted)
    start, end = _longest_text(text)
    if end - start < _CUT:
        start = end = len(text)
        skeleton = text
    else:
        skeleton = b"".join((text[:start], _MARK, text[end:]))
    root = document.parse_whole(skeleton)
    if root.tag != _xenc("EncryptedData"):
        raise _Unfit("is no EncryptedData")
    key = root.find(f"{ds('KeyInfo')}/{_xenc('EncryptedKey')}")
    if key is None:
        raise _Unfit("has no EncryptedKey")
    value = _cipher_value(root)
    content = _octets(_LINE_END.sub(b"", text[start:end]) if value == _MARK else value)
    by_content, by_key = _method(root), _method(key)
    algorithms = Algorithms(
        _algorithm(by_content),
        _algorithm(by_key),
        _algorithm(by_key.find(ds("DigestMethod"))),
        _algorithm(by_key.find(f"{{{XENC11}}}MGF")),
    )
    label = by_key.findtext(_xenc("OAEPparams"))
    return _Sealed(
        mime.fitting_type(root.get("MimeType") or UNKNOWN_TYPE),
        algorithms,
        None if label is None else _octets(label.encode()),
        _octets(_cipher_value(key)),
        content,
    )


def _longest_text(text: bytes) -> tuple[int, int]:
    """Where the longest text between two tags begins and ends: the parser takes none of over
    10 MB, and would copy it twice."""
    start = end = at = 0
    for _ in range(document.MARKUP_LIMIT):
        close = text.find(b">", at)
        at = text.find(b"<", close)
        if close < 0 or at < 0:
            break
        if at - close - 1 > end - start:
            start, end = close + 1, at
    return start, end


def _has_whole_blocks(sealed: _Sealed) -> bool:
    size = len(sealed.content)
    if sealed.algorithms.content in OF_GCM:
        return size >= _NONCE + _TAG
    return size >= 2 * _BLOCK and size % _BLOCK == 0


def _xenc(name: str) -> str:
    return f"{{{XENC}}}{name}"


def _method(of: etree._Element) -> etree._Element:
    found = of.find(_xenc("EncryptionMethod"))
    if found is None:
        raise _Unfit("has no EncryptionMethod")
    return found


def _algorithm(element: etree._Element | None) -> str:
    return "" if element is None else element.get("Algorithm", "")


def _cipher_value(of: etree._Element) -> bytes:
    found = of.find(f"{_xenc('CipherData')}/{_xenc('CipherValue')}")
    if found is None:
        raise _Unfit("has its cipher text elsewhere")
    return (found.text or "").encode()


def _octets(base64: bytes) -> bytes:
    try:
        return a2b_base64(base64)
    except ValueError:
        raise _Unfit("has cipher text that is no base64") from None
