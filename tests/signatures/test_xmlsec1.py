"""What we sign Debian's xmlsec1 verifies: another release than the library that signed, with
another libxml2, and OpenSSL of the system."""

import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

from msh.protocol.ebms.signature import ALGORITHMS
from tests.keys import pem_of
from tests.wire.ebms2.test_signature import PARTS, key_for, signed


@pytest.mark.requirement("EB-165", "EB-166", "EB-168")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("spoilt", ["", "part", "envelope"])
def test_xmlsec1_verifies_what_we_sign(tmp_path: Path, spoilt: str, algorithm: str) -> None:
    certificate = tmp_path / "acme.pem"
    certificate.write_text(pem_of(key_for(algorithm)))
    envelope = tmp_path / "envelope.xml"
    content = signed(algorithm=algorithm)
    if spoilt == "envelope":
        changed = content.replace(b"<eb:Action>", b"<eb:Action>X")
        assert changed != content
        content = changed
    envelope.write_bytes(content)
    maps = []
    for number, (uri, octets) in enumerate(PARTS.items()):
        part = tmp_path / f"part-{number}"
        part.write_bytes(octets + b"!" * (spoilt == "part"))
        maps += [f"--url-map:{unquote(uri)}", str(part)]  # it compares them without escapes
    command = ["xmlsec1", "--verify", "--trusted-pem", str(certificate), *maps, str(envelope)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if spoilt:
        assert done.returncode == 1
        assert "data and digest do not match" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert f"SignedInfo References (ok/all): {1 + len(PARTS)}/{1 + len(PARTS)}" in done.stderr
