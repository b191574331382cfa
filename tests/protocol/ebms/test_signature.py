"""Which signatures are taken, before anything is computed."""

from dataclasses import replace

import pytest

from msh.protocol.ebms.signature import (
    ALGORITHMS,
    C14N,
    DIGESTS,
    ENVELOPED,
    NEXT,
    NEXT_MSH,
    RSA_SHA1,
    RSA_SHA256,
    SHA1,
    SHA256,
    SIGNATURES,
    UNSIGNED_NODES,
    XPATH,
    SignatureTerms,
    SignedInfo,
    SignedReference,
    Transform,
    name_of,
    shortened,
    why_not_taken,
)

PARTS = ("cid:a", "cid:b")
WHOLE = SignedReference(
    "",
    SHA256,
    "x",
    (Transform(ENVELOPED), Transform(XPATH, UNSIGNED_NODES), Transform(C14N)),
)
A, B = (SignedReference(uri, SHA256, "y") for uri in PARTS)
GOOD = SignedInfo(C14N, RSA_SHA256, (WHOLE, A, B))
EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"
HMAC = "http://www.w3.org/2000/09/xmldsig#hmac-sha1"
XSLT = "http://www.w3.org/TR/1999/REC-xslt-19991116"
BASE64 = "http://www.w3.org/2000/09/xmldsig#base64"


def with_transforms(*transforms: Transform) -> SignedInfo:
    return replace(GOOD, references=(replace(WHOLE, transforms=transforms), A, B))


def why(signed: SignedInfo, **terms: bool) -> str:
    return why_not_taken(signed, PARTS, SignatureTerms(**terms))


@pytest.mark.requirement("EB-169")
@pytest.mark.parametrize(
    "signed",
    [
        GOOD,
        replace(GOOD, canonicalization=EXCLUSIVE),
        replace(GOOD, references=(A, WHOLE, B)),
        with_transforms(Transform(ENVELOPED)),
        with_transforms(Transform(ENVELOPED), Transform(EXCLUSIVE)),
        with_transforms(Transform(ENVELOPED), Transform(XPATH, UNSIGNED_NODES)),
    ],
)
def test_what_partners_write_is_taken(signed: SignedInfo) -> None:
    assert why(signed) == ""


@pytest.mark.requirement("EB-166", "EB-169", "EB-170")
@pytest.mark.parametrize(
    ("signed", "reason"),
    [
        (replace(GOOD, canonicalization=XSLT), "is canonicalised by"),
        (replace(GOOD, method=HMAC), f"uses {HMAC}, which is not taken"),
        (replace(GOOD, references=(WHOLE, replace(A, method=HMAC), B)), f"uses {HMAC}"),
        (replace(GOOD, references=(WHOLE, replace(A, transforms=(Transform(BASE64),)), B)), BASE64),
        (with_transforms(Transform(ENVELOPED), Transform(XSLT)), f"by {XSLT}, which is not taken"),
        (with_transforms(Transform(C14N)), "has no enveloped-signature transform"),
        (with_transforms(), "has no enveloped-signature transform"),
        (with_transforms(Transform(ENVELOPED), Transform(XPATH, "true()")), "an XPath that is not"),
        (with_transforms(Transform(C14N), Transform(ENVELOPED)), "in another order"),
        (with_transforms(Transform(ENVELOPED), Transform(ENVELOPED)), "come twice"),
    ],
)
def test_what_could_sign_something_else_is_not_taken(signed: SignedInfo, reason: str) -> None:
    assert reason in why(signed)


@pytest.mark.requirement("EB-168")
def test_each_algorithm_of_ours_is_taken_and_known_by_its_uri() -> None:
    weak = [name for name, one in ALGORITHMS.items() if one.is_weak]
    assert weak == ["rsa-sha1"]
    for name, one in ALGORITHMS.items():
        assert (one.method in SIGNATURES, one.digest in DIGESTS) == (name not in weak,) * 2
        assert name_of(one.method) == name_of(name.upper()) == name
        assert (one.key == "EC") == name.startswith("ecdsa")
    assert name_of("http://www.w3.org/2000/09/xmldsig#hmac-sha1") == name_of("") == ""


@pytest.mark.requirement("EB-168", "EB-169")
@pytest.mark.parametrize(
    "signed",
    [
        replace(GOOD, method=RSA_SHA1),
        replace(GOOD, references=(replace(WHOLE, method=SHA1), A, B)),
    ],
)
def test_sha_1_is_taken_only_where_the_agreement_says_so(signed: SignedInfo) -> None:
    assert "uses SHA-1" in why(signed)
    assert why(signed, allow_sha1=True) == ""


@pytest.mark.requirement("EB-173")
@pytest.mark.parametrize(
    ("references", "reason"),
    [
        ((A, B), "does not sign the envelope as a whole, once"),
        ((WHOLE, WHOLE, A, B), "does not sign the envelope as a whole, once"),
        ((WHOLE, A, A, B), "signs cid:a twice"),
        ((WHOLE, A, B, replace(A, uri="cid:c")), "signs cid:c, which is no part"),
        ((WHOLE, A, replace(B, uri="#body")), "signs #body, which is no part"),
        ((WHOLE, A, replace(B, uri="http://x/")), "signs http://x/, which is no part"),
        ((WHOLE, B), "does not sign part cid:a"),
    ],
)
def test_everything_is_signed_and_nothing_else(
    references: tuple[SignedReference, ...], reason: str
) -> None:
    assert why(replace(GOOD, references=references)).startswith(reason)


@pytest.mark.requirement("EB-173")
def test_a_part_without_reference_passes_where_the_agreement_says_so() -> None:
    signed = replace(GOOD, references=(WHOLE, B))
    assert why(signed, unsigned_parts=True) == ""


@pytest.mark.requirement("EB-170")
@pytest.mark.parametrize("space", ["", " ", "\n   "])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_the_one_xpath_is_known_by_any_prefix(space: str, quote: str) -> None:
    nodes = [
        f"ancestor-or-self::node(){space}[@env:actor{space}={space}{quote}{actor}{quote}]"
        for actor in (NEXT_MSH, NEXT)
    ]
    written = f"not({space}{nodes[0]}{space}|{space}{nodes[1]})"
    assert shortened(written, ["env", "s"]) == UNSIGNED_NODES
    assert shortened(written, ["s"]) != UNSIGNED_NODES
