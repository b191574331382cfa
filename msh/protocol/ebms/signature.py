"""Which signatures of a message are taken, before anything is computed: algorithms, transforms,
and what has to be covered (EB-165 to EB-175)."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

_DSIG = "http://www.w3.org/2000/09/xmldsig#"
_MORE = "http://www.w3.org/2001/04/xmldsig-more#"
_ENC = "http://www.w3.org/2001/04/xmlenc#"
C14N = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
ENVELOPED = f"{_DSIG}enveloped-signature"
XPATH = "http://www.w3.org/TR/1999/REC-xpath-19991116"
RSA_SHA1, RSA_SHA256 = f"{_DSIG}rsa-sha1", f"{_MORE}rsa-sha256"
SHA1, SHA256 = f"{_DSIG}sha1", f"{_ENC}sha256"

NEXT_MSH = "urn:oasis:names:tc:ebxml-msg:actor:nextMSH"
NEXT = "http://schemas.xmlsoap.org/soap/actor/next"
_NODE = "ancestor-or-self::node()[@actor='{}']"
UNSIGNED_NODES = f"not({_NODE.format(NEXT_MSH)}|{_NODE.format(NEXT)})"
"""The one XPath: it leaves out what is for the next node alone (EB-166). `actor` stands for the
name in the namespace of SOAP."""

CANONICALIZATIONS = frozenset(
    {
        *(C14N, f"{C14N}#WithComments"),
        "http://www.w3.org/2001/10/xml-exc-c14n#",
        "http://www.w3.org/2001/10/xml-exc-c14n#WithComments",
    }
)
SIGNATURES = frozenset(
    {
        *(f"{_MORE}rsa-sha{bits}" for bits in (256, 384, 512)),
        *(f"{_MORE}ecdsa-sha{bits}" for bits in (256, 384, 512)),
    }
)
SHA384, SHA512 = f"{_MORE}sha384", f"{_ENC}sha512"
DIGESTS = frozenset({SHA256, SHA384, SHA512})
_WITH_SHA1 = frozenset({RSA_SHA1, SHA1})


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What is written in a signature of ours: the URIs of the signature and of its digests.
    `key`: of which kind it has to be, RSA or EC."""

    method: str
    digest: str
    key: str = "RSA"

    @property
    def is_weak(self) -> bool:
        """Whether what it signs can be forged."""
        return self.method in _WITH_SHA1


USUAL = "rsa-sha256"
ALGORITHMS = {
    USUAL: Algorithm(RSA_SHA256, SHA256),
    "rsa-sha384": Algorithm(f"{_MORE}rsa-sha384", SHA384),
    "rsa-sha512": Algorithm(f"{_MORE}rsa-sha512", SHA512),
    "ecdsa-sha256": Algorithm(f"{_MORE}ecdsa-sha256", SHA256, "EC"),
    "ecdsa-sha384": Algorithm(f"{_MORE}ecdsa-sha384", SHA384, "EC"),
    "ecdsa-sha512": Algorithm(f"{_MORE}ecdsa-sha512", SHA512, "EC"),
    "rsa-sha1": Algorithm(RSA_SHA1, SHA1),
}
"""Those that we can sign with, by the name that an agreement has of them (EB-168)."""


def name_of(method: str) -> str:
    """What an agreement calls the algorithm with this URI, or that a CPA names shortly; "" if we
    cannot sign with it."""
    name = method.rpartition("#")[2].lower()
    return name if name in ALGORITHMS else ""


@dataclass(frozen=True, slots=True)
class Transform:
    """`expression` is that of an XPath, as `shortened` returns it."""

    algorithm: str
    expression: str = ""


@dataclass(frozen=True, slots=True)
class SignedReference:
    """A ds:Reference of a SignedInfo. `value` is the digest in base64, without white space."""

    uri: str
    method: str
    value: str
    transforms: tuple[Transform, ...] = ()


@dataclass(frozen=True, slots=True)
class SignedInfo:
    """What a signature says of itself."""

    canonicalization: str
    method: str
    references: tuple[SignedReference, ...]


@dataclass(frozen=True, slots=True)
class SignatureTerms:
    """What an agreement says of signatures. `unsigned_parts`: parts without Reference pass."""

    allow_sha1: bool = False
    unsigned_parts: bool = False


def shortened(expression: str, prefixes: Collection[str]) -> str:
    """Return an expression without white space between its words, in single quotes, and without
    the `prefixes` of the namespace of SOAP (EB-170)."""
    expression = re.sub(r"\s+", "", expression).replace('"', "'")
    for prefix in prefixes:
        expression = expression.replace(f"@{prefix}:actor=", "@actor=")
    return expression


def why_not_taken(signed: SignedInfo, parts: Collection[str], terms: SignatureTerms) -> str:
    """Why a signature is refused without a look at its value, as the rest of a sentence; empty if
    it may be computed. `parts`: the URIs (`cid:…`) of the parts of the message."""
    return (
        _unknown_algorithm(signed, terms)
        or _wrong_transforms(signed)
        or _wrong_coverage(signed, parts, terms)
    )


def _unknown_algorithm(signed: SignedInfo, terms: SignatureTerms) -> str:
    more = _WITH_SHA1 if terms.allow_sha1 else frozenset()
    if signed.canonicalization not in CANONICALIZATIONS:
        return f"is canonicalised by {signed.canonicalization}, which is not taken"
    used = {signed.method: SIGNATURES} | {one.method: DIGESTS for one in signed.references}
    for algorithm, taken in used.items():
        if algorithm in _WITH_SHA1 and not terms.allow_sha1:
            return f"uses SHA-1 ({algorithm}), which the agreement does not allow"
        if algorithm not in taken | more:
            return f"uses {algorithm}, which is not taken"
    return ""


def _wrong_transforms(signed: SignedInfo) -> str:
    for reference in signed.references:
        algorithms = [one.algorithm for one in reference.transforms]
        if reference.uri:
            if algorithms:
                return f"transforms {reference.uri} by {algorithms[0]}: a part is signed as it is"
        elif why := _wrong_transforms_of_envelope(reference.transforms, algorithms):
            return why
    return ""


def _wrong_transforms_of_envelope(transforms: Collection[Transform], algorithms: list[str]) -> str:
    """Each at most once, and in the order in which they make sense (EB-166)."""
    if ENVELOPED not in algorithms:
        return "has no enveloped-signature transform"
    kinds = [0 if one == ENVELOPED else 1 if one == XPATH else 2 for one in algorithms]
    for transform, kind in zip(transforms, kinds, strict=True):
        if kind == 2 and transform.algorithm not in CANONICALIZATIONS:
            return f"transforms the envelope by {transform.algorithm}, which is not taken"
        if kind == 1 and transform.expression != UNSIGNED_NODES:
            return "has an XPath that is not that of ebMS 2.0"
    if kinds != sorted(set(kinds)):
        return "has transforms that come twice or in another order"
    return ""


def _wrong_coverage(signed: SignedInfo, parts: Collection[str], terms: SignatureTerms) -> str:
    counts = Counter(reference.uri for reference in signed.references)
    if counts[""] != 1:
        return "does not sign the envelope as a whole, once"
    for uri, count in counts.items():
        if count > 1:
            return f"signs {uri} twice"
        if uri and uri not in parts:
            return f"signs {uri}, which is no part of the message"
    unsigned = sorted(set(parts) - counts.keys())
    if unsigned and not terms.unsigned_parts:
        return f"does not sign part {unsigned[0]}"
    return ""
