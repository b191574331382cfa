"""Certificates and keys from PEM."""

from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from msh.pem import KeyUnusable, certificates_of, signing_key, valid_at
from tests.keys import new_key, pem_of
from tests.wire.ebms2.test_signature import NOW

ACME, OTHER = new_key("acme", -1, 1, NOW), new_key("other", 0, 2, NOW)


def private(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@pytest.mark.requirement("EB-172")
def test_several_certificates_stand_one_after_another() -> None:
    assert certificates_of("") == ()
    both = f"{pem_of(ACME)}\n\nsubject: other\n{pem_of(OTHER)}"
    assert certificates_of(both) == (ACME.certificate, OTHER.certificate)


@pytest.mark.parametrize(
    ("pem", "reason"),
    [
        ("a secret", "no certificate in PEM"),
        (pem_of(ACME)[:-40], "no certificate in PEM"),
        (pem_of(ACME) + ACME.private.decode(), "has a private key"),
    ],
)
def test_what_is_no_certificate_is_refused_and_not_repeated(pem: str, reason: str) -> None:
    with pytest.raises(KeyUnusable, match=reason) as problem:
        certificates_of(pem)
    assert not any(line in str(problem.value) for line in pem.splitlines())


def test_a_key_with_its_certificate() -> None:
    chain = f"{pem_of(ACME)}\n{pem_of(OTHER)}".encode()
    assert signing_key(ACME.private, chain) == ACME
    assert "PRIVATE" not in repr(ACME)


@pytest.mark.parametrize(
    ("key", "certificate", "reason"),
    [
        (b"none", pem_of(ACME).encode(), "no private key in PEM"),
        (ACME.private, b"none", "the certificate is none"),
        (ACME.private, pem_of(OTHER).encode(), "not that of the certificate"),
        (private(ec.generate_private_key(ec.SECP224R1())), pem_of(ACME).encode(), "no RSA key"),
        (private(ec.generate_private_key(ec.SECP256R1())), pem_of(ACME).encode(), "not that of"),
        (private(rsa.generate_private_key(65537, 1024)), pem_of(ACME).encode(), "2048 bits"),
    ],
)
def test_a_key_that_cannot_sign_is_refused(key: bytes, certificate: bytes, reason: str) -> None:
    with pytest.raises(KeyUnusable, match=reason):
        signing_key(key, certificate)


@pytest.mark.requirement("EB-178")
def test_a_successor_signs_when_its_time_has_come() -> None:
    both = [OTHER, ACME]
    assert valid_at(both, NOW - timedelta(hours=1)) == ACME
    assert valid_at(both, NOW + timedelta(hours=1)) == OTHER
    assert valid_at(both, NOW + timedelta(days=3)) is None
