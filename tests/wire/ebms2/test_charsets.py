"""In which charsets an envelope is read (EB-006). What we write is UTF-8 always."""

import pytest

from msh.models import InboundMessage
from msh.protocol.ebms.vocabulary import FaultCode
from msh.wire import as_text
from msh.wire.ebms2 import envelope
from tests.wire.ebms2.samples import NO_PAYLOAD, alone, changed, refused

TEXT = changed("An order", "\xe5 \xf8 order", NO_PAYLOAD)
DECLARED = 'encoding="UTF-8"'


def declaring(name: str, text: str = TEXT) -> str:
    return changed(DECLARED, f'encoding="{name}"', text)


@pytest.mark.requirement("EB-006", "EB-026")
@pytest.mark.parametrize(
    ("said", "document", "charset"),
    [
        ("ISO-8859-1", declaring("ISO-8859-1").encode("latin-1"), "ISO-8859-1"),
        ("iso-8859-1", declaring("latin1").encode("latin-1"), "ISO-8859-1"),
        ("", declaring("iso-8859-1").encode("latin-1"), "ISO-8859-1"),
        ("UTF-16", declaring("UTF-16").encode("utf-16"), "UTF-16"),
        ("utf-16", b"\xfe\xff" + declaring("utf-16").encode("utf-16-be"), "UTF-16"),
        ("utf-16", TEXT.partition("\n")[2].encode("utf-16"), "UTF-16"),
        ("UTF-16LE", declaring("UTF-16").encode("utf-16-le"), "UTF-16"),
        ("utf-16be", declaring("UTF-16BE").encode("utf-16-be"), "UTF-16"),
        ("", declaring("UTF-16").encode("utf-16"), "UTF-16"),
    ],
)
def test_another_charset_is_read_and_noted(said: str, document: bytes, charset: str) -> None:
    received = envelope.parse(f"text/xml; charset={said}" if said else "text/xml", document)
    assert received.message == alone(TEXT).message
    assert received.content_digest == alone(TEXT).content_digest
    assert received.defects == ()
    assert received.notes == (f"the envelope is in {charset}",)
    assert received.envelope == document


@pytest.mark.requirement("EB-006")
def test_us_ascii_is_read_as_what_it_is() -> None:
    document = declaring("US-ASCII", NO_PAYLOAD).encode("ascii")
    for said in ("us-ascii", "utf-8", ""):
        content_type = f"text/xml; charset={said}" if said else "text/xml"
        assert envelope.parse(content_type, document).message == alone().message


@pytest.mark.requirement("EB-006")
@pytest.mark.parametrize(
    ("said", "document"),
    [
        ("utf-8", declaring("ISO-8859-1").encode("latin-1")),
        ("iso-8859-1", TEXT.encode("latin-1")),
        ("iso-8859-1", TEXT.partition("\n")[2].encode("latin-1")),
        ("us-ascii", declaring("ISO-8859-1").encode("latin-1")),
        ("iso-8859-1", declaring("UTF-16").encode("utf-16")),
        ("utf-16", declaring("ISO-8859-1").encode("utf-16")),
        ("utf-16", declaring("UTF-16").encode("latin-1")),
        ("utf-16", declaring("UTF-16").encode("utf-16")[:-1]),
        ("utf-16", declaring("UTF-16").encode("utf-16") + b"\x00\xd8\x00\x00"),
        ("iso-8859-1", b"\xef\xbb\xbf" + declaring("ISO-8859-1").encode()),
        ("windows-1252", declaring("windows-1252").encode("cp1252")),
        ("utf-7", declaring("utf-7").encode("utf-7")),
        ("utf-32", declaring("utf-32").encode("utf-32")),
        ("ebcdic-cp-us", declaring("ebcdic-cp-us").encode("cp037")),
        ("", declaring("utf-16").encode()),
        ("us-ascii'", TEXT.encode()),
        ("utf-8", TEXT.encode("latin-1")),
        ("utf-8", declaring("UTF-7", NO_PAYLOAD).encode()),
        ("utf-8", TEXT.encode("utf-16")),
    ],
)
def test_any_other_and_any_contradiction_is_a_fault(said: str, document: bytes) -> None:
    problem = refused(document, f"text/xml; charset={said}" if said else "text/xml")
    assert (problem.code, problem.status) == (FaultCode.CLIENT, 500)


@pytest.mark.requirement("EB-006", "EB-025")
@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_no_charset_hides_a_document_type(codec: str) -> None:
    hostile = declaring("UTF-16").replace("?>", "?><!DOCTYPE a [<!ENTITY e SYSTEM 'file:x'>]>", 1)
    assert "DOCTYPE" in str(refused(hostile.encode(codec), "text/xml; charset=utf-16"))
    flood = declaring("UTF-16").replace("<SOAP:Body>", "<SOAP:Body>" + "<a/>" * 30_000)
    assert "tags" in str(refused(flood.encode(codec), "text/xml; charset=utf-16"))


@pytest.mark.requirement("EB-006", "EB-026")
@pytest.mark.parametrize(("name", "codec"), [("UTF-16", "utf-16"), ("ISO-8859-1", "latin-1")])
def test_a_stored_envelope_is_read_and_shown_without_its_content_type(
    name: str, codec: str
) -> None:
    stored = bytes(InboundMessage(header=declaring(name).encode(codec)).header)
    text = as_text("application/xml", stored, 100_000)
    assert text is not None
    assert "\xe5 \xf8 order" in text
