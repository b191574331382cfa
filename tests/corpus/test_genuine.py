"""Signatures of other products: the genuine ones verify, those that were spoilt do not, each as the
SOURCES.md of the corpus says (EB-171)."""

import csv
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from lxml import etree

from msh.pem import Trusted
from msh.protocol.ebms.message import ReceivedMessage
from msh.protocol.ebms.signature import SignatureTerms
from msh.wire.ebms2.envelope import parse_answer
from msh.wire.ebms2.signature import SignatureRefused, verified
from tests.keys import new_key

from .reading import read_corpus

DS = "{http://www.w3.org/2000/09/xmldsig#}"
ALONE = "navikt-processor/cpa-repo/oppgjorsmelding/2023_08_29T12_56_58_328.xml"
ATTACHED = "navikt-processor/ebms-provider/oppgjorsmelding/2023_08_29T12_56_58_328.p7m"
"""The attachment of an envelope that stands alone."""
VERIFIED = ""
UNDECLARED = "has an XPath that is not that of ebMS 2.0"  # its prefix stands for nothing
NO_CERTIFICATE = "names a certificate that cannot be read"
EXPECTED = {
    ALONE: VERIFIED,
    "navikt-processor/ebms-provider/oppgjorsmelding/2023_08_29T12_56_58_328.msg": VERIFIED,
    "navikt-processor/ebms-provider/har-borger-egenandrel-fritak/"
    "harBorgerEgenanderlFritakResponse": VERIFIED,
    "navikt-processor/mail/EgenAndelForespoersel.eml": VERIFIED,
    "navikt-processor/mail/acknowledgment.eml": VERIFIED,
    "navikt-processor/mail/example.eml": VERIFIED,
    "navikt-processor/cpa-repo/oppgjorsmelding/payloadmessage.xml": UNDECLARED,
    "navikt-processor/ebms-async/signaltest/payloadmessage.xml": UNDECLARED,
    "navikt-processor/ebms-async/signaltest/acknowledgment.xml": NO_CERTIFICATE,
    "navikt-processor/ebms-async/testPayload.xml": "does not fit part 'cid:ref1'",
    "navikt-signatur/tekkopplysning": "does not fit: the envelope or the signature was changed",
}
"""Each signed message of the corpus, and the reason why it is refused."""


def signed_messages(corpus: Path) -> Iterator[tuple[str, str, ReceivedMessage]]:
    """With their names, and what SOURCES.md says of each."""
    with (corpus / "sources.csv").open(newline="") as listed:
        described = {row["file"]: row["what"] for row in csv.DictReader(listed)}
    for outcome in read_corpus(corpus):
        file = outcome.request.file
        what = described[file]
        if ", signed" not in what or what.startswith("CPA"):
            continue
        received = parse_answer(outcome.request.content_type, outcome.request.body)
        assert isinstance(received, ReceivedMessage)
        if file == ALONE:
            content = (corpus / ATTACHED).read_bytes()
            (payload,) = received.payloads
            received = replace(received, payloads=(replace(payload, content=content),))
        yield file, what, received


def outcome_of(received: ReceivedMessage) -> str:
    """Why it is refused; by the certificate that it names, on the day after that begins."""
    named = etree.fromstring(received.envelope).find(f".//{DS}X509Certificate")
    assert named is not None
    try:
        certificate = x509.load_der_x509_certificate(b64decode(named.text or ""))
    except ValueError:
        certificate = new_key("them").certificate
    now = certificate.not_valid_before_utc + timedelta(days=1)
    try:
        verified(received, [Trusted(certificate)], SignatureTerms(allow_sha1=True), now)
    except SignatureRefused as why:
        return str(why)
    return VERIFIED


@pytest.mark.requirement("EB-167", "EB-169", "EB-170", "EB-171", "EB-177", "EB-180")
def test_genuine_signatures_verify_and_spoilt_ones_do_not(corpus: Path) -> None:
    """Each was written with its own prefixes, white space and order of elements. Those that were
    spoilt have placeholders for values, certificate and attachment, too."""
    found = {}
    for file, what, received in signed_messages(corpus):
        found[file] = outcome_of(received)
        assert (found[file] == VERIFIED) == ("verif" in what), (file, what)
    assert found.keys() == EXPECTED.keys()
    wrong = {file: why for file, why in found.items() if not why.startswith(EXPECTED[file])}
    assert wrong == {}
