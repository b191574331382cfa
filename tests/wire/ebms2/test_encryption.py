"""Payloads as EncryptedData: what is encrypted for a key is read by it, and by no other."""

import re
from collections.abc import Callable

import pytest

from msh.wire.ebms2.encryption import (
    AES_256_GCM,
    CONTENT,
    RSA_1_5,
    RSA_OAEP,
    Decrypted,
    DecryptionKey,
    DecryptionRefused,
    decrypt,
    encrypt,
)
from tests.wire.ebms2.test_signature import key_of

OCTETS = bytes(range(256)) * 40
ACME, OTHER = (DecryptionKey(key_of(name).private) for name in ("acme", "other"))
UNREADABLE = "cannot be decrypted by a key of ours"


def encrypted(method: str = AES_256_GCM) -> bytes:
    return encrypt(OCTETS, 'application/pdf; name="a"', key_of("acme").certificate, method)


@pytest.mark.requirement("EB-185")
@pytest.mark.parametrize("method", CONTENT)
def test_what_is_encrypted_is_read_by_its_key(method: str) -> None:
    found = encrypted(method)
    assert OCTETS not in found
    assert decrypt(found, [ACME]) == Decrypted('application/pdf; name="a"', OCTETS)


@pytest.mark.requirement("EB-178", "EB-185")
def test_one_of_two_keys_of_ours_reads_it() -> None:
    assert decrypt(encrypted(), [OTHER, ACME]).content == OCTETS


def other_digit(found: "re.Match[bytes]") -> bytes:
    return found[1] + (b"B" if found[2] == b"A" else b"A")


@pytest.mark.requirement("EB-187")
@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: re.sub(rb"(<xenc:CipherValue>.{9})(.)", other_digit, text, count=1),
        lambda text: re.sub(rb"(?s)(.*<xenc:CipherValue>.{9})(.)", other_digit, text, count=1),
        lambda text: re.sub(rb"(?s)(.*)(.)(?=.{4}</xenc:CipherValue>)", other_digit, text, count=1),
    ],
    ids=["key", "beginning", "end"],
)
def test_whatever_is_wrong_is_said_by_the_same_words(spoil: Callable[[bytes], bytes]) -> None:
    text = encrypted()
    assert spoil(text) != text
    for wrong, key in ((spoil(text), ACME), (text, OTHER)):
        with pytest.raises(DecryptionRefused, match=UNREADABLE):
            decrypt(wrong, [key])


@pytest.mark.requirement("EB-185")
def test_an_algorithm_that_is_not_taken_is_not_tried() -> None:
    old = encrypted().replace(RSA_OAEP.encode(), RSA_1_5.encode())
    with pytest.raises(DecryptionRefused, match=f"{RSA_1_5}, which is not taken"):
        decrypt(old, [ACME])
    with pytest.raises(DecryptionRefused, match=UNREADABLE):
        decrypt(old, [DecryptionKey(ACME.private, allow_rsa_1_5=True)])
    with pytest.raises(DecryptionRefused, match="urn:none, which is not taken"):
        decrypt(encrypted().replace(AES_256_GCM.encode(), b"urn:none"), [ACME])


@pytest.mark.requirement("EB-185")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: b"<order/>", "is no EncryptedData"),
        (lambda text: b"%PDF", "is no EncryptedData that can be read"),
        (lambda text: text.replace(b" MimeType", b' Type="urn:x" MimeType'), "has a Type"),
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
    with pytest.raises(DecryptionRefused, match=reason):
        decrypt(change(encrypted()), [ACME])
