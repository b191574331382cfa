"""Encrypted payloads: which algorithms are taken, what an agreement wants encrypted, and what
becomes of a message whose payloads cannot be decrypted (EB-185, EB-187)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from msh.protocol.message import Payload

from .agreement import Agreed
from .message import Defect, Error, ReceivedMessage
from .proof import UNDECRYPTED, UNPROVEN
from .vocabulary import ErrorCode, Stage

XENC, XENC11 = "http://www.w3.org/2001/04/xmlenc#", "http://www.w3.org/2009/xmlenc11#"
RSA_OAEP_MGF1P, RSA_OAEP = f"{XENC}rsa-oaep-mgf1p", f"{XENC11}rsa-oaep"
RSA_1_5 = f"{XENC}rsa-1_5"
_KEY_BYTES = {"128": 16, "192": 24, "256": 32}
GCM = {f"{XENC11}aes{bits}-gcm": size for bits, size in _KEY_BYTES.items()}
CBC = {f"{XENC}aes{bits}-cbc": size for bits, size in _KEY_BYTES.items()}
CONTENT = GCM | CBC
"""Of the content: the algorithms that are taken, and the bytes of their keys."""
METHODS = {one.rpartition("#")[2]: one for one in CONTENT}
"""What an agreement calls them."""
DIGESTS = {
    "http://www.w3.org/2000/09/xmldsig#sha1": "sha1",
    f"{XENC}sha256": "sha256",
    "http://www.w3.org/2001/04/xmldsig-more#sha384": "sha384",
    f"{XENC}sha512": "sha512",
}
MASKS = {f"{XENC11}mgf1{name}": name for name in DIGESTS.values()}
"""Of RSA-OAEP, with the names of their hashes."""

MANIFEST = "/SOAP:Envelope/SOAP:Body/eb:Manifest"
"""The place that an error about such a message names, whatever is wrong with which payload."""
_CMS = ("application/pkcs7-mime", "application/x-pkcs7-mime")
_RULE = "EB-185"


@dataclass(frozen=True, slots=True)
class DecryptionTerms:
    """What an agreement allows: CBC has no proof that nothing was changed, so a signature has to
    give it; RSA 1.5 has been broken more than once."""

    allow_cbc: bool = False
    allow_rsa_1_5: bool = False


@dataclass(frozen=True, slots=True)
class Algorithms:
    """Those of an EncryptedData: of its content, of its key, and of that, if it is RSA-OAEP, digest
    and mask."""

    content: str
    key: str
    digest: str = ""
    mask: str = ""


def terms_of(agreed: Agreed) -> DecryptionTerms:
    return DecryptionTerms(agreed.signed, agreed.allow_rsa_1_5)


def why_not_taken(algorithms: Algorithms, terms: DecryptionTerms) -> str:
    """The rest of a sentence, empty if these are taken. Decided before anything is computed."""
    content = GCM | (CBC if terms.allow_cbc else {})
    keys = {RSA_OAEP_MGF1P, RSA_OAEP} | ({RSA_1_5} if terms.allow_rsa_1_5 else set())
    pairs: tuple[tuple[str, Sequence[str] | set[str]], ...] = (
        (algorithms.content, list(content)),
        (algorithms.key, keys),
        (algorithms.digest, ["", *DIGESTS]),
        (algorithms.mask, ["", *MASKS]),
    )
    wrong = next((one for one, taken in pairs if one not in taken), None)
    return "" if wrong is None else f"is encrypted by {wrong[:200]!r}, which is not taken"


def has_to_be_decrypted(received: ReceivedMessage, agreed: Agreed) -> bool:
    """Whether payloads are encrypted for us. What is not signed, and has to be, is refused without
    it: else anybody could ask us what decrypts to something (EB-187)."""
    if received.message.header.kind.is_signal or not (agreed.encrypted and received.encrypted):
        return False
    return received.message.signed or not agreed.signed


def undecrypted(received: ReceivedMessage, reason: str) -> ReceivedMessage:
    """The message with the reason why a payload cannot be decrypted."""
    error = Error(ErrorCode.SECURITY_FAILURE, location=MANIFEST, description=reason)
    defect = Defect(UNDECRYPTED, Stage.SIGNATURE, error)
    return replace(received, defects=(*received.defects, defect))


def decrypted(
    received: ReceivedMessage, payloads: Sequence[Payload], content_digest: bytes
) -> ReceivedMessage:
    """The message with these payloads, whether they are what was encrypted or not."""
    defects = tuple(one for one in received.defects if one.rule != _RULE)
    return replace(
        received, payloads=tuple(payloads), content_digest=content_digest, defects=defects
    )


def told_alike(received: ReceivedMessage) -> ReceivedMessage:
    """The message with one defect for all that is wrong with its payloads or its signature: the
    partner is told the same of each, operators what it was (EB-187)."""
    failed = [one for one in received.defects if one.rule in UNPROVEN]
    if not failed:
        return received
    text = f"{MANIFEST} names payloads that cannot be decrypted, or do not fit the signature"
    error = Error(ErrorCode.SECURITY_FAILURE, location=MANIFEST, description=text)
    reason = "; ".join(one.error.description for one in failed)
    others = tuple(one for one in received.defects if one not in failed)
    alike = Defect(UNDECRYPTED, Stage.SIGNATURE, error, reason=reason)
    return replace(received, defects=(*others, alike))


def unencrypted(received: ReceivedMessage, agreed: Agreed) -> Iterator[Defect]:
    """Yield the payloads that the agreement wants encrypted, and are not. CMS is for the
    application (EB-186)."""
    if not agreed.encrypted:
        return
    for payload in received.payloads:
        is_cms = payload.content_type.partition(";")[0].strip().lower() in _CMS
        if payload.content_id in received.encrypted or is_cms:
            continue
        place = f"cid:{payload.content_id}"
        text = f"{place} is not encrypted: the agreement wants it"
        error = Error(ErrorCode.SECURITY_FAILURE, location=place, description=text)
        yield Defect(_RULE, Stage.SECURITY, error)
