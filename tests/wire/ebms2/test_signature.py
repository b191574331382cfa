"""Signatures: what is signed verifies, and what was changed does not."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from msh.pem import SigningKey, Trusted
from msh.protocol.ebms.message import ReceivedMessage
from msh.protocol.ebms.signature import ALGORITHMS, NEXT, NEXT_MSH, SignatureTerms
from msh.wire.ebms2 import signature
from msh.wire.ebms2.signature import (
    SignatureRefused,
    Verified,
    references_of,
    sign,
    verify,
)
from msh.wire.ebms2.signature import (
    verified as proven,
)
from tests.keys import new_key
from tests.wire.ebms2 import samples

EXAMPLE = samples.EXAMPLE.encode()
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
PARTS = {"cid:order@acme.example": b"<order/>", "cid:b%25%40x": bytes(range(256)) * 500}
TERMS = SignatureTerms()
EC_KEY = new_key("acme", end=10_000, now=NOW, curve=ec.SECP256R1())


def key_of(name: str, begin: int = -1, end: int = 10_000) -> SigningKey:
    """`begin` and `end`: days from NOW on in which the certificate is valid; by the clock of today,
    too, which other implementations go by."""
    return new_key(name, begin, end, NOW)


def key_for(algorithm: str, name: str = "acme") -> SigningKey:
    """One of the kind that it needs."""
    return EC_KEY if algorithm.startswith("ecdsa") else key_of(name)


@cache
def signed(name: str = "acme", algorithm: str = "rsa-sha256") -> bytes:
    return sign(EXAMPLE, PARTS, key_for(algorithm, name), algorithm)


def verified(
    envelope: bytes,
    parts: dict[str, bytes] = PARTS,
    key: SigningKey | None = None,
    terms: SignatureTerms = TERMS,
) -> Verified:
    trusted = [Trusted((key or key_of("acme")).certificate)]
    return verify(envelope, parts, trusted, terms, NOW)


def refused(envelope: bytes, parts: dict[str, bytes] = PARTS, key: SigningKey | None = None) -> str:
    with pytest.raises(SignatureRefused) as found:
        verified(envelope, parts, key)
    return str(found.value)


@pytest.mark.requirement("EB-165", "EB-167")
def test_what_is_signed_verifies_and_says_what_it_covers() -> None:
    found = verified(signed())
    assert [one.uri for one in found.references] == ["", *PARTS]
    assert found.certificate == key_of("acme").certificate


NAMES = {
    "SOAP": "http://schemas.xmlsoap.org/soap/envelope/",
    "ds": "http://www.w3.org/2000/09/xmldsig#",
}
CANONICAL = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
MORE, ENC = "http://www.w3.org/2001/04/xmldsig-more#", "http://www.w3.org/2001/04/xmlenc#"
WRITTEN = {
    "rsa-sha256": (f"{MORE}rsa-sha256", f"{ENC}sha256"),
    "rsa-sha384": (f"{MORE}rsa-sha384", f"{MORE}sha384"),
    "rsa-sha512": (f"{MORE}rsa-sha512", f"{ENC}sha512"),
    "ecdsa-sha256": (f"{MORE}ecdsa-sha256", f"{ENC}sha256"),
    "ecdsa-sha384": (f"{MORE}ecdsa-sha384", f"{MORE}sha384"),
    "ecdsa-sha512": (f"{MORE}ecdsa-sha512", f"{ENC}sha512"),
    "rsa-sha1": (f"{NAMES['ds']}rsa-sha1", f"{NAMES['ds']}sha1"),
}
FOR_THE_NEXT_NODE = (
    b'<ds:XPath xmlns:SOAP="http://schemas.xmlsoap.org/soap/envelope/">'
    b'not(ancestor-or-self::node()[@SOAP:actor="urn:oasis:names:tc:ebxml-msg:actor:nextMSH"]'
    b' | ancestor-or-self::node()[@SOAP:actor="http://schemas.xmlsoap.org/soap/actor/next"])'
    b"</ds:XPath>"
)


@pytest.mark.requirement("EB-165", "EB-166", "EB-168")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_written_is_what_ebms_2_0_wants(name: str) -> None:
    """By the names of the specifications, not by those that our own reader takes."""
    document, (method, digest) = signed(algorithm=name), WRITTEN[name]
    root = etree.fromstring(document)
    (written,) = root.findall("SOAP:Header/ds:Signature", NAMES)
    assert root.findall(".//ds:Signature", NAMES) == [written]
    info = written[0]
    references = info.findall("ds:Reference", NAMES)
    assert [one.get("URI") for one in references] == ["", *PARTS]
    assert [one.get("Algorithm") for one in info.iter("*") if one.get("Algorithm")] == [
        *(CANONICAL, method),
        f"{NAMES['ds']}enveloped-signature",
        *("http://www.w3.org/TR/1999/REC-xpath-19991116", CANONICAL, digest),
        *(digest for _ in PARTS),
    ]
    assert document.count(b"<ds:XPath") == document.count(FOR_THE_NEXT_NODE) == 1
    certificate = written.findtext("ds:KeyInfo/ds:X509Data/ds:X509Certificate", "", NAMES)
    der = key_for(name).certificate.public_bytes(Encoding.DER)
    assert b64decode(certificate) == der


@pytest.mark.requirement("EB-168")
@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_algorithm_is_written_and_verifies(name: str) -> None:
    key = key_for(name)
    envelope = signed(algorithm=name)
    assert f'<ds:SignatureMethod Algorithm="{ALGORITHMS[name].method}"/>'.encode() in envelope
    found = verified(envelope, key=key, terms=SignatureTerms(allow_sha1=True))
    assert {one.method for one in found.references} == {ALGORITHMS[name].digest}
    other = {uri: octets + b"!" for uri, octets in PARTS.items()}
    with pytest.raises(SignatureRefused, match="does not fit part"):
        verified(envelope, other, key, SignatureTerms(allow_sha1=True))


@pytest.mark.requirement("EB-178")
def test_a_signature_is_the_same_for_the_same_message() -> None:
    assert sign(EXAMPLE, PARTS, key_of("acme")) == signed()


CHANGES: list[tuple[bytes, bytes]] = [
    (rb"<eb:Action>", b"<eb:Action>x"),
    (rb"(?<=<ds:SignatureValue>)(.{20})", rb"\1AAAA"),
    (rb"</SOAP:Body>", b"<x/></SOAP:Body>"),
    (rb"(?s)(<ds:DigestValue>).{4}", rb"\1AAAA"),
]


@pytest.mark.requirement("EB-171")
@pytest.mark.parametrize(("place", "change"), CHANGES)
def test_a_change_of_the_envelope_is_seen(place: bytes, change: bytes) -> None:
    changed = re.sub(place, change, signed(), count=1, flags=re.DOTALL)
    assert changed != signed()
    assert "does not fit" in refused(changed)


@pytest.mark.requirement("EB-171", "EB-173")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a, b: PARTS | {a: b"<order />"}, "does not fit part 'cid:order@acme.example'"),
        (lambda a, b: {a: PARTS[b], b: PARTS[a]}, "does not fit part 'cid:order@acme.example'"),
        (lambda a, b: PARTS | {"cid:new": b""}, "does not sign part cid:new"),
        (lambda a, b: {a: PARTS[a]}, f"signs {list(PARTS)[1]}, which is no part"),
    ],
)
def test_a_part_that_is_changed_swapped_added_or_gone_is_named(
    change: Callable[[str, str], dict[str, bytes]], reason: str
) -> None:
    assert refused(signed(), change(*PARTS)).startswith(reason)


@pytest.mark.requirement("EB-172")
def test_a_key_is_chosen_by_key_info_and_never_trusted_by_it() -> None:
    other, acme = key_of("other"), key_of("acme")
    assert refused(signed("other")) == "names a certificate that is none of the agreement's"
    both = [Trusted(other.certificate), Trusted(acme.certificate)]
    assert verify(signed(), PARTS, both, TERMS, NOW).certificate == acme.certificate
    bare = re.sub(rb"(?s)<ds:KeyInfo>.*</ds:KeyInfo>", b"", signed())
    assert verified(bare).certificate == acme.certificate
    assert "does not fit" in refused(bare, key=other)
    value = f"<ds:KeyInfo>{key_value_of(other.certificate)}</ds:KeyInfo>".encode()
    by_value = re.sub(rb"(?s)<ds:KeyInfo>.*</ds:KeyInfo>", value, signed("other"))
    assert "does not fit" in refused(by_value)
    assert verified(by_value, key=other)


@pytest.mark.requirement("EB-172")
@pytest.mark.parametrize(
    ("days", "reason"), [((1, 2), "is not valid yet"), ((-2, -1), "has run out on 2026-11-26")]
)
def test_a_certificate_is_valid_now(days: tuple[int, int], reason: str) -> None:
    key = key_of("acme", *days)
    envelope = sign(EXAMPLE, PARTS, key)
    assert reason in refused(envelope, key=key)
    kept = [Trusted(key.certificate, kept_expired=True)]
    if days[1] < 0:
        assert verify(envelope, PARTS, kept, TERMS, NOW)


@pytest.mark.requirement("EB-168")
def test_sha_1_where_an_agreement_has_it() -> None:
    envelope = signed("acme", "rsa-sha1")
    assert "uses SHA-1" in refused(envelope)
    assert verified(envelope, terms=SignatureTerms(allow_sha1=True))


SIGNATURE = rb"(?s)<ds:Signature .*</ds:Signature>"


def moved(place: bytes) -> bytes:
    found = re.search(SIGNATURE, signed())
    assert found
    return re.sub(SIGNATURE, b"", signed()).replace(place, found[0] + place)


@pytest.mark.requirement("EB-165", "EB-174")
@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: moved(b"</SOAP:Body>"),
        lambda: moved(b"</SOAP:Envelope>"),
        lambda: moved(b"</eb:MessageHeader>"),
        lambda: re.sub(SIGNATURE, lambda found: found[0] * 2, signed()),
        lambda: signed().replace(b"</SOAP:Body>", b"<old>" + signed()[39:] + b"</old></SOAP:Body>"),
    ],
    ids=["body", "envelope", "header", "twice", "whole"],
)
def test_a_signature_stands_once_in_the_header(wrapped: Callable[[], bytes]) -> None:
    assert refused(wrapped()) == "has to stand once, as a child of the SOAP Header"


@pytest.mark.requirement("EB-174")
def test_what_is_not_signed_is_not_among_what_was_verified() -> None:
    """A block for the next node may be changed on the way: the signature does not cover it."""
    block = (
        b'<eb:SyncReply xmlns:eb="urn:x" SOAP:actor="http://schemas.xmlsoap.org/soap/actor/next"/>'
    )
    added = signed().replace(b"</SOAP:Header>", block + b"</SOAP:Header>")
    tags = [one.tag for one in verified(added).envelope.iter("*")]
    assert "{urn:x}SyncReply" not in tags
    assert not any("xmldsig" in str(tag) for tag in tags)


def came(document: bytes, *parts: bytes) -> ReceivedMessage:
    """The signed envelope of samples.EXAMPLE, with its order or other parts."""
    return samples.parsed(document, *parts)


ORDER = {"cid:order@sender.example": samples.ORDER}


def proved(document: bytes, *parts: bytes) -> ReceivedMessage:
    trusted = [Trusted(key_of("acme").certificate)]
    return proven(came(document, *parts), trusted, TERMS, NOW)


@pytest.mark.requirement("EB-174")
def test_a_message_is_what_its_signature_covers() -> None:
    document = sign(EXAMPLE, ORDER, key_of("acme"))
    found = proved(document)
    assert found.message == came(document).message
    assert found.signed_by_partner == references_of(document)
    assert references_of(EXAMPLE) == ()


@pytest.mark.requirement("EB-166", "EB-174")
def test_blocks_for_the_next_node_are_not_compared() -> None:
    document = sign(EXAMPLE, ORDER, key_of("acme")).decode()
    frame = 'eb:version="2.0" SOAP:mustUnderstand="1"'
    sync = f'<eb:SyncReply {frame} SOAP:actor="{NEXT}"/>'
    asked = f'<eb:AckRequested {frame} SOAP:actor="{NEXT_MSH}" eb:signed="false"/>'
    message = proved(samples.with_header_block(sync + asked, document).encode()).message
    assert message.sync_reply
    assert len(message.ack_requested) == 2


@pytest.mark.requirement("EB-174")
@pytest.mark.parametrize("actor", [NEXT, NEXT_MSH])
def test_a_header_for_the_next_node_is_no_header(actor: str) -> None:
    """Nor one that its signer has put there, before the one that counts for others."""
    header = (
        EXAMPLE[EXAMPLE.index(b"<eb:MessageHeader") :].partition(b"<eb:AckRequested")[0].strip()
    )
    aside = header.replace(
        b"<eb:MessageHeader", b'<eb:MessageHeader SOAP:actor="%s"' % actor.encode()
    )
    only = sign(EXAMPLE.replace(header, aside), ORDER, key_of("acme"))
    first = sign(EXAMPLE, ORDER, key_of("acme")).replace(
        header, aside.replace(b"New", b"Old") + header
    )
    for document, reason in ((only, "not cover the MessageHeader"), (first, "another message")):
        with pytest.raises(SignatureRefused, match=reason):
            proved(document)


@pytest.mark.requirement("EB-167")
@pytest.mark.parametrize("uri", ["cid:order%40sender.example", "CID:order@sender.example"])
def test_a_part_may_be_named_in_another_way(uri: str) -> None:
    assert proved(sign(EXAMPLE, {uri: samples.ORDER}, key_of("acme"))).signed_by_partner


@pytest.mark.requirement("EB-169")
@pytest.mark.parametrize("uri", ["cid:order@sender.example#a", "file:///etc/passwd", "order", "#a"])
def test_nothing_but_whole_parts_reaches_the_library(uri: str) -> None:
    document = sign(EXAMPLE, ORDER, key_of("acme")).replace(
        b'cid:order@sender.example"><ds', uri.encode() + b'"><ds'
    )
    with pytest.raises(SignatureRefused, match="which is no part of the message"):
        proved(document)


def test_an_envelope_without_signature_is_refused() -> None:
    assert refused(EXAMPLE) == "is missing: the agreement wants the message signed"


def test_threads_have_parts_of_their_own() -> None:
    """Without the lock these are enough for a segmentation fault."""
    wrong: list[int] = []

    def work(size: int) -> None:
        parts = {"cid:a": b"x" * size}
        envelope = sign(EXAMPLE, parts, key_of("acme"))
        for _ in range(50):
            verified(envelope, parts)
            try:
                verified(envelope, {"cid:a": b"x" * (size + 1)})
            except SignatureRefused:
                continue
            wrong.append(size)

    threads = [Thread(target=work, args=(size,)) for size in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []


REFERENCE = b'<ds:Reference URI="cid:order@acme.example">'


@pytest.mark.requirement("EB-169")
@pytest.mark.parametrize(
    ("place", "change", "reason"),
    [
        (REFERENCE, b"<ds:Reference>", "has a Reference without URI"),
        (b"</ds:XPath>", b"</ds:XPath><ds:XPath/>", "has a transform with parameters"),
        (b"ds:XPath", b"ds:Filter", "has a transform with parameters"),
        (b"ds:SignedInfo", b"ds:Info", "has 0 elements SignedInfo where one is wanted"),
        (REFERENCE, b"".join(b'<ds:Reference URI="x"/>' for _ in range(1_100)) + REFERENCE, "1103"),
        (b"(?s)(<ds:X509Certificate>)[^<]*", rb"\1x", "names a certificate that cannot be read"),
    ],
)
def test_a_signature_of_another_form_is_refused(place: bytes, change: bytes, reason: str) -> None:
    assert reason in refused(re.sub(place, change, signed()))


@pytest.mark.requirement("EB-169")
@pytest.mark.parametrize(
    "more",
    [
        (True, b"<n1:x/>" * 300),
        (False, b"<x/>" * 10_000),
        (False, b"<x/>" * 6_000 + b"<!---->" * 12_000),
    ],
    ids=["namespaces", "elements", "comments"],
)
def test_an_envelope_whose_verification_would_take_long_is_refused(
    more: tuple[bool, bytes],
) -> None:
    """The XPath is asked of each node, and each namespace that is declared is one of each element
    below: 26 kB took half a minute, in which no other signature was made or verified."""
    names = b" ".join(b'xmlns:n%d="urn:n"' % number for number in range(300))
    envelope = signed().replace(b"<SOAP:Body>", b"<SOAP:Body %s>" % (names if more[0] else b""))
    envelope = envelope.replace(b"</SOAP:Body>", more[1] + b"</SOAP:Body>")
    assert "nodes: at most 50000 are verified" in refused(envelope)


@pytest.mark.requirement("EB-169")
def test_an_envelope_of_as_many_parts_as_are_taken_is_not_too_large() -> None:
    once = signed()
    for one in (
        rb"(?s)<eb:Reference.*</eb:Reference>",
        rb'(?s)<ds:Reference URI="cid:b.*?</ds:R\w+>',
    ):
        once = re.sub(one, lambda found: found[0] * 1_000, once)
    assert refused(once) == "signs cid:b%25%40x twice"


@pytest.mark.requirement("EB-172")
def test_several_certificates_need_one_to_be_named() -> None:
    bare = re.sub(rb"(?s)<ds:KeyInfo>.*</ds:KeyInfo>", b"", signed())
    both = [Trusted(key_of(name).certificate) for name in ("acme", "other")]
    with pytest.raises(SignatureRefused, match="does not name one of the certificates"):
        verify(bare, PARTS, both, TERMS, NOW)
    with pytest.raises(SignatureRefused, match="the agreement has no certificate"):
        verify(signed(), PARTS, [], TERMS, NOW)


def serial_of(certificate: x509.Certificate) -> str:
    number = f"<ds:X509SerialNumber>{certificate.serial_number}</ds:X509SerialNumber>"
    issuer = f"<ds:X509IssuerSerial><ds:X509IssuerName>CN=x</ds:X509IssuerName>{number}"
    return f"<ds:X509Data>{issuer}</ds:X509IssuerSerial></ds:X509Data>"


def key_value_of(certificate: x509.Certificate) -> str:
    public = certificate.public_key()
    assert isinstance(public, RSAPublicKey)
    modulus = b64encode(public.public_numbers().n.to_bytes(256, "big")).decode()
    value = f"<ds:Modulus>\n{modulus}\n</ds:Modulus><ds:Exponent>AQAB</ds:Exponent>"
    return f"<ds:KeyValue><ds:RSAKeyValue>{value}</ds:RSAKeyValue></ds:KeyValue>"


@pytest.mark.requirement("EB-172")
@pytest.mark.parametrize("described", [serial_of, key_value_of])
def test_one_of_several_certificates_is_named_by_its_number_or_its_key(
    described: Callable[[x509.Certificate], str],
) -> None:
    """As products name it that leave the certificate out: while it is changed, two are pinned."""

    def said(name: str) -> bytes:
        text = f"<ds:KeyInfo>{described(key_of(name).certificate)}</ds:KeyInfo>"
        return re.sub(rb"(?s)<ds:KeyInfo>.*</ds:KeyInfo>", text.encode(), signed())

    both = [Trusted(key_of(name).certificate) for name in ("acme", "other")]
    certificate = key_of("acme").certificate
    assert verify(said("acme"), PARTS, both, TERMS, NOW).certificate == certificate
    with pytest.raises(SignatureRefused, match="does not fit"):
        verify(said("other"), PARTS, both, TERMS, NOW)
    with pytest.raises(SignatureRefused, match="does not name one"):
        verify(said("a stranger"), PARTS, both, TERMS, NOW)


@pytest.mark.requirement("EB-172")
def test_a_key_that_cannot_be_read_is_refused() -> None:
    bad = b"<ds:KeyInfo><ds:KeyValue><ds:Modulus>?</ds:Modulus></ds:KeyValue></ds:KeyInfo>"
    envelope = re.sub(rb"(?s)<ds:KeyInfo>.*</ds:KeyInfo>", bad, signed())
    assert refused(envelope) == "names a key that cannot be read"


@pytest.mark.requirement("EB-174")
def test_an_envelope_that_is_for_the_next_node_is_not_signed() -> None:
    actor = b'<SOAP:Envelope SOAP:actor="urn:oasis:names:tc:ebxml-msg:actor:nextMSH" '
    envelope = sign(EXAMPLE.replace(b"<SOAP:Envelope ", actor), PARTS, key_of("acme"))
    assert refused(envelope) == "leaves the whole envelope out"


def test_of_a_part_that_nobody_signed_xmlsec_gets_nothing() -> None:
    """It asks for what the References name: nothing else is there, and nothing is fetched."""
    assert "does not fit" in refused(signed(), dict.fromkeys(PARTS, b""))


def test_the_library_is_loaded_with_the_first_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signature, "_library", None)
    verified(signed())
    assert signature._library is not None
