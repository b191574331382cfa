"""Payloads as EncryptedData: what is encrypted for a key is read by it, and by no other; by xmlsec,
which shares no code with ours, in both directions."""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import xmlsec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from lxml import etree

from msh.pem import DecryptionKey, decryption_key
from msh.protocol.ebms.encryption import (
    CBC,
    CONTENT,
    GCM,
    METHODS,
    RSA_1_5,
    RSA_OAEP,
    RSA_OAEP_MGF1P,
    XENC,
    XENC11,
    DecryptionTerms,
)
from msh.protocol.ebms.message import ReceivedMessage
from msh.wire.ebms2 import encryption
from msh.wire.ebms2.encryption import Opened, decrypt, decrypted, encrypt
from msh.wire.ebms2.envelope import parse
from tests.peer.ebms2 import message
from tests.wire.ebms2.test_signature import NOW, key_of

OCTETS = bytes(range(256)) * 40
TYPE = 'text/xml; charset=iso-8859-1; x="a;b"'
ACME, OTHER = (decryption_key(key_of(name).private) for name in ("acme", "other"))
ALL = DecryptionTerms(allow_cbc=True, allow_rsa_1_5=True)
UNREADABLE = "cannot be decrypted by a key of ours"
DIGEST = '<ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"/>'
MASK = f'<xenc11:MGF xmlns:xenc11="{XENC11}" Algorithm="{XENC11}mgf1sha256"/>'


def encrypted(method: str = "aes256-gcm", octets: bytes = OCTETS) -> bytes:
    return encrypt(octets, TYPE, key_of("acme").certificate, method)


def by_xmlsec(method: str, by_key: str = RSA_OAEP_MGF1P, more: str = "") -> bytes:
    """As xmlsec encrypts it. `more`: what the method of the key has in it."""
    root = etree.fromstring(
        f'<xenc:EncryptedData xmlns:xenc="{XENC}" MimeType="text/plain"'
        f' xmlns:ds="http://www.w3.org/2000/09/xmldsig#" Type="{XENC}Element">'
        f'<xenc:EncryptionMethod Algorithm="{method}"/><ds:KeyInfo><xenc:EncryptedKey>'
        f'<xenc:EncryptionMethod Algorithm="{by_key}">{more}</xenc:EncryptionMethod><ds:KeyInfo>'
        "<ds:KeyName>acme</ds:KeyName></ds:KeyInfo>"
        "<xenc:CipherData><xenc:CipherValue/></xenc:CipherData></xenc:EncryptedKey></ds:KeyInfo>"
        "<xenc:CipherData><xenc:CipherValue/></xenc:CipherData></xenc:EncryptedData>"
    )
    manager = xmlsec.KeysManager()
    pem = key_of("acme").certificate.public_bytes(Encoding.PEM)
    key = xmlsec.Key.from_memory(pem, xmlsec.constants.KeyDataFormatCertPem, None)
    key.name = "acme"
    manager.add_key(key)
    context = xmlsec.EncryptionContext(manager)
    size = CONTENT[method] * 8
    aes, session = xmlsec.constants.KeyDataAes, xmlsec.constants.KeyDataTypeSession
    context.key = xmlsec.Key.generate(aes, size, session)
    context.encrypt_binary(root, OCTETS)
    return etree.tostring(root)


@pytest.mark.requirement("EB-010", "EB-185")
@pytest.mark.parametrize("method", METHODS)
def test_what_is_encrypted_is_read_by_its_key(method: str) -> None:
    for octets in (b"", b"a", b"a" * 15, b"a" * 16, OCTETS):
        found = encrypted(method, octets)
        assert decrypt(found, [ACME], ALL) == Opened(TYPE, octets)
    assert OCTETS not in found
    assert encrypted(method) != encrypted(method)


@pytest.mark.requirement("EB-185")
@pytest.mark.parametrize("method", METHODS)
def test_xmlsec_reads_what_we_encrypt(method: str) -> None:
    manager = xmlsec.KeysManager()
    pem = key_of("acme").private
    manager.add_key(xmlsec.Key.from_memory(pem, xmlsec.constants.KeyDataFormatPem, None))
    root = etree.fromstring(encrypted(method))
    assert xmlsec.EncryptionContext(manager).decrypt(root) == OCTETS  # type: ignore[comparison-overlap]


@pytest.mark.requirement("EB-185")
@pytest.mark.parametrize(("method", "by_key"), list(product(CONTENT, (RSA_OAEP_MGF1P, RSA_1_5))))
def test_we_read_what_xmlsec_encrypts(method: str, by_key: str) -> None:
    """A Type is no matter: ebms-core writes one on octets."""
    assert decrypt(by_xmlsec(method, by_key), [ACME], ALL) == Opened("text/plain", OCTETS)


@pytest.mark.requirement("EB-185")
@pytest.mark.parametrize(
    ("by_key", "more"),
    [(RSA_OAEP_MGF1P, DIGEST), (RSA_OAEP, DIGEST), (RSA_OAEP, DIGEST + MASK)],
)
def test_the_hashes_of_oaep_are_those_that_are_named(by_key: str, more: str) -> None:
    found = by_xmlsec(METHODS["aes128-gcm"], by_key, more)
    assert decrypt(found, [ACME], ALL).content == OCTETS
    spoilt = found.replace(b"xmlenc#sha256", b"xmlenc#sha512")
    assert decrypt(spoilt, [ACME], ALL).why_not == UNREADABLE
    label = by_xmlsec(
        METHODS["aes128-gcm"],
        by_key,
        f"<xenc:OAEPparams>{b64encode(b'a').decode()}</xenc:OAEPparams>" + more,
    )
    assert decrypt(label, [ACME], ALL).content == OCTETS
    unlabelled = re.sub(rb"<xenc:OAEPparams>.*</xenc:OAEPparams>", b"", label)
    assert decrypt(unlabelled, [ACME], ALL).why_not == UNREADABLE


@pytest.mark.requirement("EB-178", "EB-185")
def test_one_of_two_keys_of_ours_reads_it() -> None:
    assert decrypt(encrypted(), [OTHER, ACME], ALL).content == OCTETS
    assert decrypt(encrypted(), [], ALL).why_not == UNREADABLE


def of_value(place: int, change: Callable[[bytearray], None]) -> Callable[[bytes], bytes]:
    """Change what the first CipherValue, that of the key, or the second one enciphers."""

    def changed(text: bytes) -> bytes:
        values = list(re.finditer(rb"(?<=CipherValue>)[^<]+", text))
        found = bytearray(b64decode(values[place][0]))
        change(found)
        return text[: values[place].start()] + b64encode(found) + text[values[place].end() :]

    return changed


def flipped(at: int) -> Callable[[bytearray], None]:
    def flip(found: bytearray) -> None:
        found[at] ^= 1

    return flip


def shortened(found: bytearray) -> None:
    del found[-1]


def halved(found: bytearray) -> None:
    del found[len(found) // 2 :]


SPOIL: dict[str, Callable[[bytes], bytes]] = {
    "key": of_value(0, flipped(9)),
    "half of the key": of_value(0, halved),
    "nonce": of_value(1, flipped(0)),
    "content": of_value(1, flipped(40)),
    "tag": of_value(1, flipped(-1)),
    "another algorithm": lambda text: text.replace(b"aes256-gcm", b"aes128-gcm"),
}


@pytest.mark.requirement("EB-187")
@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_whatever_is_wrong_takes_the_same_steps_and_is_said_by_the_same_words(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[bytes], bytes]
) -> None:
    steps: list[str] = []
    for name in ("_session_key", "_deciphered"):
        monkeypatch.setattr(encryption, name, noted(steps, name))
    text = encrypted()
    assert spoil(text) != text
    for wrong, keys in ((spoil(text), [ACME, OTHER]), (text, [OTHER, OTHER])):
        steps.clear()
        opened = decrypt(wrong, keys, ALL)
        assert opened.why_not == UNREADABLE
        assert len(opened.content) == len(OCTETS)
        assert opened.content != OCTETS
        assert steps == ["_session_key", "_deciphered"] * 2


def noted(steps: list[str], name: str) -> Callable[..., object]:
    function = getattr(encryption, name)

    def call(*arguments: object) -> object:
        steps.append(name)
        return function(*arguments)

    return call


@pytest.mark.requirement("EB-187")
@pytest.mark.parametrize("by_key", [RSA_OAEP_MGF1P, RSA_1_5])
def test_spoilt_blocks_are_no_other_failure_than_a_wrong_key(by_key: str) -> None:
    """What fits by chance, as one of 16 paddings does, a signature has to find."""
    text = by_xmlsec(METHODS["aes256-cbc"], by_key)
    found = {
        decrypt(of_value(1, flipped(at))(text), [ACME], ALL).why_not for at in range(-17, -33, -1)
    }
    assert found <= {"", UNREADABLE}
    assert UNREADABLE in found
    text = by_xmlsec(METHODS["aes256-gcm"], by_key)
    keys = {decrypt(of_value(0, flipped(at))(text), [ACME], ALL).why_not for at in range(40)}
    assert keys == {UNREADABLE}


@pytest.mark.requirement("EB-185", "EB-187")
def test_an_algorithm_that_is_not_taken_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "_session_key", None)
    old = by_xmlsec(METHODS["aes256-gcm"], RSA_1_5)
    refused = f"is encrypted by {RSA_1_5!r}, which is not taken"
    assert decrypt(old, [ACME], replace(ALL, allow_rsa_1_5=False)).why_not == refused
    for method, uri in METHODS.items():
        if uri in CBC:
            opened = decrypt(encrypted(method), [ACME], replace(ALL, allow_cbc=False))
            assert opened.why_not == f"is encrypted by {uri!r}, which is not taken"
    unknown = encrypted().replace(next(one for one in GCM if "256" in one).encode(), b"urn:none")
    assert "urn:none" in decrypt(unknown, [ACME], ALL).why_not


def without(pattern: bytes) -> Callable[[bytes], bytes]:
    return lambda text: re.sub(pattern, b"", text)


@pytest.mark.requirement("EB-185")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: b"<order/>", "is no EncryptedData"),
        (lambda text: b"%PDF", "is no EncryptedData that can be read"),
        (lambda text: b"<!DOCTYPE a>" + text, "is no EncryptedData that can be read"),
        (without(rb"(?s)<ds:KeyInfo.*</xenc:EncryptedKey></ds:KeyInfo>"), "has no EncryptedKey"),
        (without(rb"<xenc:EncryptionMethod[^>]*>"), "has no EncryptionMethod"),
        (of_value(1, halved), UNREADABLE),
        (of_value(1, lambda found: found.clear()), "has no whole cipher text"),
        (lambda text: re.sub(rb"(?<=CipherValue>)[^<]+", b"A", text), "no base64"),
        (
            lambda text: re.sub(
                rb"<xenc:CipherValue>[^<]*</xenc:CipherValue>",
                b'<xenc:CipherReference URI="http://x/"/>',
                text,
            ),
            "has its cipher text elsewhere",
        ),
    ],
)
def test_what_is_no_encrypted_part_of_ours_is_refused(
    change: Callable[[bytes], bytes], reason: str
) -> None:
    assert decrypt(change(encrypted()), [ACME], ALL).why_not.endswith(reason)
    broken = of_value(1, shortened)(encrypted("aes128-cbc"))
    assert decrypt(broken, [ACME], ALL).why_not == "has no whole cipher text"


def with_lines(text: bytes) -> bytes:
    """As Java writes base64."""
    return re.sub(
        rb"(?<=CipherValue>)[^<]+",
        lambda found: b"&#13;\n".join(re.findall(rb".{1,76}", found[0])),
        text,
    )


@pytest.mark.requirement("EB-185")
def test_large_payloads_and_long_lines_are_read() -> None:
    """The parser takes no text of over 10 MB."""
    octets = bytes(range(251)) * 60_000
    text = encrypted(octets=octets)
    for written in (text, with_lines(text), with_lines(encrypted())):
        opened = decrypt(written, [ACME], ALL)
        assert opened.content in (octets, OCTETS)
        assert opened.why_not == ""
    short = with_lines(encrypted()).decode().replace('encoding="UTF-8"', 'encoding="UTF-16"')
    assert decrypt(short.encode("utf-16"), [ACME], ALL) == Opened(TYPE, OCTETS)


@pytest.mark.requirement("EB-185")
def test_a_long_text_elsewhere_takes_the_place_of_nothing() -> None:
    long = b"A" * 100_000
    beside = encrypted().replace(b"<ds:X509Certificate>", b"<ds:X509Certificate>" + long)
    assert decrypt(beside, [ACME], ALL).content == OCTETS
    text = re.sub(
        rb"(<xenc:CipherValue>)[^<]+(</xenc:CipherValue></xenc:CipherData></xenc:E.*D)",
        rb"\1#\2",
        beside,
    )
    assert decrypt(text, [ACME], ALL).why_not


@pytest.mark.requirement("EB-185")
def test_what_has_too_many_tags_is_not_read() -> None:
    many = b"<a/>" * 20_001
    assert decrypt(encrypted() + many, [ACME], ALL).why_not.endswith("that can be read")


def test_nothing_is_encrypted_for_a_key_of_another_kind() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "them")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, NOW, NOW)
    with pytest.raises(TypeError, match="no RSA key"):
        encrypt(OCTETS, TYPE, builder.sign(key, hashes.SHA256()), "aes256-gcm")


def received(*payloads: tuple[str, str, bytes], keys: list[DecryptionKey]) -> ReceivedMessage:
    out = message(payloads=payloads)
    return decrypted(parse(out.content_type, out.body), keys, ALL)


@pytest.mark.requirement("EB-101", "EB-185", "EB-186")
def test_a_message_is_read_as_if_it_had_never_been_encrypted() -> None:
    cms = ("cms@peer", "application/pkcs7-mime", b"0\x80")
    plain = received(("a@peer", TYPE, OCTETS), cms, keys=[])
    read = [
        received(("a@peer", "application/xml", encrypted(method)), cms, keys=[ACME])
        for method in METHODS
    ]
    for one in read:
        assert one.encrypted == {"a@peer"}
        assert one.defects == ()
        assert one.payloads == plain.payloads
        assert one.content_digest == plain.content_digest
    other = received(("a@peer", "application/xml", encrypted(octets=b"b")), cms, keys=[ACME])
    assert other.content_digest != plain.content_digest


@pytest.mark.requirement("EB-187")
def test_each_payload_that_cannot_be_decrypted_is_named() -> None:
    two = [(name, "application/xml", encrypted()) for name in ("a@peer", "b@peer")]
    found = received(*two, keys=[OTHER])
    assert [one.error.description for one in found.defects] == [
        f"payload '{name}' {UNREADABLE}" for name, _, _ in two
    ]
