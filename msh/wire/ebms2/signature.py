"""Signatures of ebMS 2.0, made and verified by xmlsec (EB-165 to EB-180).

What may be computed is decided before (`msh.protocol.ebms.signature`). xmlsec gets the octets of
the parts by callbacks, which are the same for the whole process. It serves one thread at a time:
with several it ends the process by a segmentation fault, and it keeps the GIL anyway.
"""

import threading
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from typing import Any
from urllib.parse import quote, unquote

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from msh.pem import SigningKey, Trusted
from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import Message, ReceivedMessage
from msh.protocol.ebms.signature import (
    ALGORITHMS,
    C14N,
    ENVELOPED,
    NEXT,
    NEXT_MSH,
    SHA1,
    SHA256,
    SHA384,
    SHA512,
    UNSIGNED_NODES,
    USUAL,
    XPATH,
    Algorithm,
    SignatureTerms,
    SignedInfo,
    SignedReference,
    Transform,
    shortened,
    why_not_taken,
)
from msh.protocol.ebms.vocabulary import Actor
from msh.wire import document
from msh.wire.text import shown

from .elements import Findings
from .names import DS, SOAP, ds, soap
from .reader import read
from .writer import signed_reference

_LIMIT = 1_100  # References: as many as a package has parts, and some
_NODE_LIMIT = 50_000
"""Nodes of an envelope: the time that the XPath takes grows by their square. A thousand parts have
about 35,000."""
_NAME_LIMIT = 200  # characters of an algorithm, in a reason
_BARE_XPATH, _XPATH = b"<ds:XPath>", f'<ds:XPath xmlns:SOAP="{SOAP}">'.encode()


class SignatureRefused(Exception):
    """A signature that does not prove its message. Its text goes on after the name of the place."""


@dataclass(frozen=True, slots=True)
class Verified:
    """`envelope` has what was signed, and nothing else: what is for the next node alone, and the
    signature, are not in it (EB-174)."""

    envelope: etree._Element
    references: tuple[SignedReference, ...]
    certificate: x509.Certificate


# --- Octets of parts, for xmlsec ----------------------------------------------------------------

_parts: Mapping[str, bytes] = {}
"""Those of the signature that is being computed."""


class _Octets:
    """A part that is being read."""

    def __init__(self, octets: bytes) -> None:
        self._octets = memoryview(octets)
        self._at = 0

    def read_into(self, buffer: memoryview) -> int:
        piece = self._octets[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def _has(uri: bytes) -> bool:
    return uri.decode() in _parts


def _open(uri: bytes) -> _Octets:
    return _Octets(_parts[uri.decode()])


def _read(octets: _Octets, buffer: memoryview) -> int:
    return octets.read_into(buffer)


def _close(octets: _Octets) -> None:
    """xmlsec wants one."""


_lock = threading.Lock()
_library: Any = None


@contextmanager
def _xmlsec(parts: Mapping[str, bytes]) -> Iterator[Any]:
    """The library, for one thread at a time, which finds these parts by their URIs and nothing
    else. All that is made by it has to be gone at the end. It is imported with the first
    signature: that takes a fifth of a second and 12 MB, which an MSH without signed agreements
    does not need."""
    global _library, _parts
    with _lock:
        if _library is None:
            _library = import_module("xmlsec")
            _library.cleanup_callbacks()  # those of libxml2, which open files and addresses
            _library.register_callbacks(_has, _open, _read, _close)
        _parts = parts
        try:
            yield _library
        finally:
            _parts = {}


# --- Verify -------------------------------------------------------------------------------------


def verify(
    envelope: bytes,
    parts: Mapping[str, bytes],
    trusted: Sequence[Trusted],
    terms: SignatureTerms,
    now: datetime,
) -> Verified:
    """Verify the signature of an envelope in UTF-8. `parts`: the octets of each part, by its URI
    `cid:…`. Raises SignatureRefused; Unreadable as `document.parse_whole`."""
    root = document.parse_whole(envelope)
    _check_size(root)
    signature = _only_signature(root)
    signed = _signed_info(signature)
    parts = _as_named(signed, parts)
    if why := why_not_taken(signed, parts.keys(), terms):
        raise SignatureRefused(why)
    certificate = _key_of(signature, trusted, now)
    _check_parts(signed, parts)
    if not _fits(signature, parts, certificate.public_bytes(Encoding.DER)):
        raise SignatureRefused(
            "does not fit: the envelope or the signature was changed, or another key has signed"
        )
    return Verified(_only_signed(root, signature), signed.references, certificate)


def _fits(signature: etree._Element, parts: Mapping[str, bytes], certificate: bytes) -> bool:
    with _xmlsec(parts) as xmlsec:
        try:
            _context(xmlsec, certificate, xmlsec.constants.KeyDataFormatCertDer).verify(signature)
        except xmlsec.Error:
            return False
    return True


def _context(xmlsec: Any, key: bytes, form: object) -> Any:
    context = xmlsec.SignatureContext()
    context.key = xmlsec.Key.from_memory(key, form, None)
    return context


def _check_size(root: etree._Element) -> None:
    """Raises SignatureRefused for an envelope of more nodes than are verified: those of its text,
    its elements, their attributes, comments, and for each element the namespaces in scope."""
    count = declared = 0
    for event, node in etree.iterwalk(root, ("start-ns", "end-ns", "start", "comment", "pi")):
        if event == "start":
            count += 2 + len(node.attrib) + declared
        elif event in ("comment", "pi"):
            count += 2
        else:
            declared += 1 if event == "start-ns" else -1
    if count > _NODE_LIMIT:
        raise SignatureRefused(f"signs {count} nodes: at most {_NODE_LIMIT} are verified")


def _only_signature(root: etree._Element) -> etree._Element:
    """Raises SignatureRefused."""
    found = list(root.iter(ds("Signature")))
    if not found:
        raise SignatureRefused("is missing: the agreement wants the message signed")
    if len(found) > 1 or found[0].getparent() is not root.find(soap("Header")):
        raise SignatureRefused("has to stand once, as a child of the SOAP Header")
    return found[0]


def _signed_info(signature: etree._Element) -> SignedInfo:
    """Raises SignatureRefused."""
    info = _child(signature, "SignedInfo")
    references = info.findall(ds("Reference"))
    if len(references) > _LIMIT:
        raise SignatureRefused(f"has {len(references)} References: at most {_LIMIT}")
    return SignedInfo(
        _algorithm(_child(info, "CanonicalizationMethod")),
        _algorithm(_child(info, "SignatureMethod")),
        tuple(map(_reference, references)),
    )


def _reference(element: etree._Element) -> SignedReference:
    uri = element.get("URI")
    if uri is None:
        raise SignatureRefused("has a Reference without URI")
    transforms = element.find(ds("Transforms"))
    return SignedReference(
        uri,
        _algorithm(_child(element, "DigestMethod")),
        "".join((_child(element, "DigestValue").text or "").split()),
        () if transforms is None else tuple(map(_transform, transforms.iterchildren("*"))),
    )


def _transform(element: etree._Element) -> Transform:
    children = list(element.iterchildren("*"))
    expression = ""
    if children:
        only = children[0]
        if len(children) > 1 or only.tag != ds("XPath") or len(only):
            raise SignatureRefused("has a transform with parameters, which is not taken")
        prefixes = [prefix for prefix, uri in only.nsmap.items() if uri == SOAP and prefix]
        expression = shortened(only.text or "", prefixes)
    return Transform(_algorithm(element), expression)


def _algorithm(element: etree._Element) -> str:
    return (element.get("Algorithm") or "")[:_NAME_LIMIT]


def _child(parent: etree._Element, name: str) -> etree._Element:
    found = parent.findall(ds(name))
    if len(found) != 1:
        raise SignatureRefused(f"has {len(found)} elements {name} where one is wanted")
    return found[0]


def _key_of(
    signature: etree._Element, trusted: Sequence[Trusted], now: datetime
) -> x509.Certificate:
    """The certificate of the agreement that KeyInfo has, or else describes by its serial number or
    its key; the only one if it names none: it chooses, and is never trusted (EB-172). Raises
    SignatureRefused."""
    if not trusted:
        raise SignatureRefused("cannot be verified: the agreement has no certificate")
    named = set(_named(signature))
    of_key_info = [one for one in trusted if one.certificate.public_bytes(Encoding.DER) in named]
    if named and not of_key_info:
        raise SignatureRefused("names a certificate that is none of the agreement's")
    chosen = of_key_info or _described(signature, trusted) or list(trusted)
    if len(chosen) > 1:
        raise SignatureRefused("does not name one of the certificates of the agreement")
    (only,) = chosen
    certificate = only.certificate
    if now < certificate.not_valid_before_utc:
        raise SignatureRefused(f"{_of(certificate)} is not valid yet")
    if now > certificate.not_valid_after_utc and not only.kept_expired:
        raise SignatureRefused(
            f"{_of(certificate)} has run out on {certificate.not_valid_after_utc:%Y-%m-%d}"
        )
    return certificate


def _named(signature: etree._Element) -> Iterator[bytes]:
    for element in signature.iterfind(f"{ds('KeyInfo')}//{ds('X509Certificate')}"):
        try:
            yield b64decode(element.text or "")
        except ValueError:
            raise SignatureRefused("names a certificate that cannot be read") from None


def _described(signature: etree._Element, trusted: Sequence[Trusted]) -> list[Trusted]:
    """Those with a serial number, or with a key of RSA, that KeyInfo has."""
    info = signature.find(ds("KeyInfo"))
    if info is None:
        return []
    serials = {(one.text or "").strip() for one in info.iter(ds("X509SerialNumber"))}
    moduli = {_number(one.text or "") for one in info.iter(ds("Modulus"))}
    return [
        one
        for one in trusted
        if str(one.certificate.serial_number) in serials or _modulus(one.certificate) in moduli
    ]


def _modulus(certificate: x509.Certificate) -> int | None:
    key = certificate.public_key()
    return key.public_numbers().n if isinstance(key, RSAPublicKey) else None


def _number(base64: str) -> int:
    try:
        return int.from_bytes(b64decode("".join(base64.split()), validate=True), "big")
    except ValueError:
        raise SignatureRefused("names a key that cannot be read") from None


def _of(certificate: x509.Certificate) -> str:
    return f"is of certificate {certificate.serial_number:X}, which"


def _as_named(signed: SignedInfo, parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """The parts by the URIs by which the signature names them: a Content-ID can be written in more
    than one way (RFC 2392)."""
    octets = {_content_id(uri): (uri, content) for uri, content in parts.items()}
    named = {
        one.uri: octets[name]
        for one in signed.references
        if (name := _content_id(one.uri)) in octets
    }
    others = parts.keys() - {uri for uri, _ in named.values()}
    return {uri: content for uri, (_, content) in named.items()} | {
        uri: parts[uri] for uri in others
    }


def _content_id(uri: str) -> str:
    """Empty for what names no part as a whole: xmlsec would look behind a `#` for a piece of it."""
    return unquote(uri[4:]) if uri[:4].lower() == "cid:" and "#" not in uri else ""


def _check_parts(signed: SignedInfo, parts: Mapping[str, bytes]) -> None:
    """Compare the digest of each part, for a reason that names it; and by the octets themselves,
    whatever xmlsec makes of a URI. Raises SignatureRefused."""
    for one in signed.references:
        if one.uri and _digest(one.method, parts[one.uri]) != one.value:
            raise SignatureRefused(f"does not fit part {shown(one.uri)}: the digest is another")


def _digest(method: str, octets: bytes) -> str:
    computed = hashes.Hash(_HASHES[method])
    computed.update(octets)
    return b64encode(computed.finalize()).decode()


_HASHES: Mapping[str, hashes.HashAlgorithm] = {
    SHA256: hashes.SHA256(),
    SHA1: hashes.SHA1(),  # noqa: S303  where an agreement has it
    SHA384: hashes.SHA384(),
    SHA512: hashes.SHA512(),
}


def verified(
    received: ReceivedMessage,
    trusted: Sequence[Trusted],
    terms: SignatureTerms,
    now: datetime,
) -> ReceivedMessage:
    """The message as `verify` has it: read again from what the signature covers, and equal to what
    was read before, but for what is for the next node alone (EB-174). Raises as `verify`."""
    envelope, _ = document.in_utf_8(received.envelope)
    parts = {f"cid:{quote(one.content_id, safe='@')}": one.content for one in received.payloads}
    found = verify(envelope, parts, trusted, terms, now)
    try:
        again = read(etree.tostring(found.envelope, encoding="UTF-8"), Findings()).message
    except (NotAMessage, Unusable):
        raise SignatureRefused("does not cover the MessageHeader") from None
    if _covered(again) != _covered(received.message):
        raise SignatureRefused("covers another message than the one that is read")
    return replace(received, signed_by_partner=found.references)


def _covered(message: Message) -> Message:
    """What is left of it without what a signature leaves out (EB-166)."""
    return replace(
        message,
        sync_reply=False,
        ack_requested=tuple(one for one in message.ack_requested if _is_covered(one.actor)),
        acknowledgments=tuple(one for one in message.acknowledgments if _is_covered(one.actor)),
        signed=False,
    )


def _is_covered(actor: Actor) -> bool:
    return actor is not Actor.NEXT_MSH


def references_of(envelope: bytes) -> tuple[SignedReference, ...]:
    """The References of the signature of an envelope of ours; none if it has none (EB-179)."""
    signature = document.parse_whole(envelope).find(f"{soap('Header')}/{ds('Signature')}")
    return () if signature is None else _signed_info(signature).references


def _only_signed(root: etree._Element, signature: etree._Element) -> etree._Element:
    """The envelope without what is for the next node alone, and without the signature."""
    actor = soap("actor")
    unsigned = [one for one in root.iter("*") if one.get(actor) in (NEXT_MSH, NEXT)]
    for element in (signature, *unsigned):
        parent = element.getparent()
        if parent is None:
            raise SignatureRefused("leaves the whole envelope out")
        parent.remove(element)
    return root


# --- Sign ---------------------------------------------------------------------------------------


def sign(
    envelope: bytes, parts: Mapping[str, bytes], key: SigningKey, algorithm: str = USUAL
) -> bytes:
    """Return the envelope with a signature over itself and its parts, whose octets `parts` has by
    URI `cid:…`. It is sent as it is, as often as needed (EB-178). `algorithm`: the name of one that
    is for keys of this kind."""
    root = document.parse_whole(envelope)
    signature = etree.fromstring(_template(parts, key, ALGORITHMS[algorithm]))
    next(root.iterchildren(soap("Header"))).append(signature)
    with _xmlsec(parts) as xmlsec:
        _context(xmlsec, key.private, xmlsec.constants.KeyDataFormatPem).sign(signature)
    # lxml leaves out of ds:XPath what the envelope declares, too, but EB-166 wants it there. In
    # canonical XML it stands once in either case: the signature fits as before.
    written = etree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return written.replace(_BARE_XPATH, _XPATH)


def _template(parts: Iterable[str], key: SigningKey, algorithm: Algorithm) -> str:
    transforms = (Transform(ENVELOPED), Transform(XPATH, UNSIGNED_NODES), Transform(C14N))
    references = (
        SignedReference("", algorithm.digest, "", transforms),
        *(SignedReference(uri, algorithm.digest, "") for uri in parts),
    )
    written = "\n".join(map(signed_reference, references))
    certificate = b64encode(key.certificate.public_bytes(Encoding.DER)).decode()
    return (
        f'<ds:Signature xmlns:ds="{DS}">\n<ds:SignedInfo>\n'
        f'<ds:CanonicalizationMethod Algorithm="{C14N}"/>\n'
        f'<ds:SignatureMethod Algorithm="{algorithm.method}"/>\n{written}\n</ds:SignedInfo>\n'
        "<ds:SignatureValue/>\n<ds:KeyInfo><ds:X509Data><ds:X509Certificate>"
        f"{certificate}</ds:X509Certificate></ds:X509Data></ds:KeyInfo>\n</ds:Signature>\n"
    )
