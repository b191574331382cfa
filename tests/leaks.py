"""Private keys in what somebody can see, whatever form they have there."""

import re
from base64 import b64encode
from collections.abc import Iterator
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

WIDTH = 24
"""Bytes of each piece that is looked for: 32 characters of base64. Whatever has 47 bytes of a
number has a piece of it."""
_BREAKS = re.compile(rb"(?:\s|\\+[nr]|&#1[03];)+")


def leaks(content: bytes | str, *private: bytes) -> list[str]:
    """What is there of these keys, each in PEM without a password: "d in hex"."""
    octets = content.encode() if isinstance(content, str) else content
    joined = _BREAKS.sub(b"", octets)
    searched = {
        "bytes": octets,
        "base64": joined,
        "decimal": joined,
        "hex": joined.replace(b":", b"").lower(),
    }
    return [
        name
        for pem in private
        for name, form, pieces in _pieces_of(pem)
        if any(piece in searched[form] for piece in pieces)
    ]


@cache
def _pieces_of(pem: bytes) -> list[tuple[str, str, list[bytes]]]:
    """Of each secret number in each form: "d in hex", the form, what is looked for."""
    found = []
    for name, number in _secrets_of(pem).items():
        plain = list(_cut(number))
        forms = {
            "bytes": plain + [repr(one)[2:-1].encode() for one in plain],  # as Python shows them
            "base64": [b64encode(one) for skip in range(3) for one in _cut(number, skip)],
            "decimal": [str(number).encode()],
            "hex": [one.hex().encode() for one in plain],
        }
        found += [(f"{name} in {form}", form, pieces) for form, pieces in forms.items()]
    return found


def _secrets_of(pem: bytes) -> dict[str, int]:
    key = load_pem_private_key(pem, None)
    if isinstance(key, EllipticCurvePrivateKey):
        return {"d": key.private_numbers().private_value}
    assert isinstance(key, RSAPrivateKey)
    numbers = key.private_numbers()
    return {name: getattr(numbers, name) for name in ("d", "p", "q", "dmp1", "dmq1", "iqmp")}


def _cut(number: int, skip: int = 0) -> Iterator[bytes]:
    octets = number.to_bytes((number.bit_length() + 7) // 8, "big")
    for begin in range(skip, len(octets) - WIDTH + 1, WIDTH):
        yield octets[begin : begin + WIDTH]
