"""What we sign another implementation verifies, and the other way round: the XML signatures of the
JDK, which share no library with ours."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from msh.protocol.ebms.signature import ALGORITHMS, NEXT, NEXT_MSH
from msh.protocol.ebms.vocabulary import Actor
from tests.keys import pem_of
from tests.wire.ebms2.test_signature import EXAMPLE, PARTS, key_for, key_of, signed, verified

PROGRAM = Path(__file__).with_name("Jdk.java")


@pytest.fixture(scope="session")
def jdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the compiled program."""
    folder = tmp_path_factory.mktemp("jdk")
    subprocess.run(["javac", "-d", folder, PROGRAM], check=True)
    return folder


def run(
    jdk: Path, verb: str, envelope: bytes, key: Path, parts: Mapping[str, bytes], folder: Path
) -> "subprocess.CompletedProcess[bytes]":
    (folder / "envelope.xml").write_bytes(envelope)
    arguments: list[str | Path] = []
    for number, (uri, octets) in enumerate(parts.items()):
        (folder / f"part-{number}").write_bytes(octets)
        arguments += [uri, folder / f"part-{number}"]
    command: Sequence[str | Path] = ["java", "-cp", jdk, "Jdk", verb, folder / "envelope.xml", key]
    return subprocess.run([*command, *arguments], capture_output=True, timeout=120, check=False)


@pytest.mark.requirement("EB-165", "EB-166", "EB-168")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("spoilt", [False, True])
def test_the_jdk_verifies_what_we_sign(
    jdk: Path, tmp_path: Path, spoilt: bool, algorithm: str
) -> None:
    pem = tmp_path / "acme.pem"
    pem.write_text(pem_of(key_for(algorithm)))
    parts = {uri: octets + b"!" * spoilt for uri, octets in PARTS.items()}
    done = run(jdk, "verify", signed(algorithm=algorithm), pem, parts, tmp_path)
    assert done.stdout.strip() == (b"bad" if spoilt else b"good"), done.stderr


@pytest.mark.requirement("EB-166")
@pytest.mark.parametrize(
    ("actor", "said"), [(NEXT, b"good"), (NEXT_MSH, b"good"), (Actor.TO_PARTY_MSH, b"bad")]
)
def test_the_jdk_leaves_out_what_is_for_the_next_node(
    jdk: Path, tmp_path: Path, actor: str, said: bytes
) -> None:
    """By an XPath engine of its own, which reads the expression that we have written."""
    pem = tmp_path / "acme.pem"
    pem.write_text(pem_of(key_of("acme")))
    block = f'<a:block xmlns:a="urn:a" SOAP:actor="{actor}"/></SOAP:Header>'.encode()
    added = signed().replace(b"</SOAP:Header>", block)
    assert run(jdk, "verify", added, pem, PARTS, tmp_path).stdout.strip() == said


@pytest.mark.requirement("EB-165", "EB-170", "EB-171")
def test_we_verify_what_the_jdk_signs(jdk: Path, tmp_path: Path) -> None:
    acme, store = key_of("acme"), tmp_path / "acme.p12"
    private = serialization.load_pem_private_key(acme.private, None)
    encryption = serialization.BestAvailableEncryption(b"password")
    store.write_bytes(
        pkcs12.serialize_key_and_certificates(b"acme", private, acme.certificate, None, encryption)  # type: ignore[arg-type]
    )
    done = run(jdk, "sign", EXAMPLE, store, PARTS, tmp_path)
    assert [one.uri for one in verified(done.stdout).references] == ["", *PARTS]
