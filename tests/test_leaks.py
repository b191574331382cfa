"""The search for private keys finds them: otherwise the tests that find none would say nothing."""

import json
from html import escape
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from tests.certificates import Authority
from tests.keys import new_key, pem_of
from tests.leaks import leaks

US, OTHER = new_key("us"), new_key("other")
KEY = load_pem_private_key(US.private, None)
assert isinstance(KEY, RSAPrivateKey)
NUMBERS = KEY.private_numbers()
PEM = US.private.decode()
OLD_PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
DER = KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
D_IN_HEX = f"{NUMBERS.d:x}"


# Named, because every worker of a run has a key of its own.
FORMS: dict[str, tuple[bytes | str, str]] = {
    "PKCS 8": (PEM, "d in base64"),
    "traditional": (OLD_PEM, "p in base64"),
    "JSON": (json.dumps({"key": PEM}), "q in base64"),
    "JSON twice": (json.dumps(json.dumps({"key": PEM})), "d in base64"),
    "HTML": (escape(repr(US.private)), "d in base64"),
    "indented": (PEM.replace("\n", "\r\n   "), "d in base64"),
    "one line": (PEM.splitlines()[10], "d in base64"),
    "DER": (b"before" + DER + b"after", "dmp1 in bytes"),
    "repr of DER": (repr(DER), "iqmp in bytes"),
    "DER in hex": (DER.hex(), "dmq1 in hex"),
    "hex with colons": (DER.hex(":").upper(), "d in hex"),
    "part of a number in hex": (D_IN_HEX[100:200], "d in hex"),
    "number": (repr({"d": NUMBERS.d}), "d in decimal"),
    "prime": (f"p={NUMBERS.p}", "p in decimal"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_found_in_each_form(form: str) -> None:
    content, found = FORMS[form]
    assert found in leaks(content, OTHER.private, US.private)
    assert leaks(content, OTHER.private) == []


def test_a_key_of_a_curve_is_found(tmp_path: Path) -> None:
    pem = Authority().write(tmp_path / "client.pem", "client").read_bytes()
    assert leaks(pem, pem) == ["d in base64"]
    assert leaks(pem, US.private) == []


def test_what_is_public_is_no_leak() -> None:
    modulus = NUMBERS.public_numbers.n
    public = f"{pem_of(US)} {modulus} {modulus:x} {US!r} {NUMBERS!r}"
    assert leaks(public, US.private) == []
