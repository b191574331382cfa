"""The frame of an envelope: what is no ebXML message, and Faults both ways."""

from pathlib import Path

import pytest
from lxml import etree

from msh.protocol.ebms.errors import NotAMessage
from msh.protocol.ebms.message import ReceivedMessage, SoapFault
from msh.protocol.ebms.vocabulary import FaultCode
from msh.wire.ebms2 import envelope, soap
from msh.wire.ebms2.names import SOAP
from tests.wire.ebms2.samples import (
    EXAMPLE,
    NO_PAYLOAD,
    alone,
    changed,
    defects,
    parsed,
    refused,
    with_body_block,
    with_header_block,
)
from tests.wire.test_document import BILLION_LAUGHS

WHOLE_HEADER = NO_PAYLOAD[NO_PAYLOAD.index("<SOAP:Header>") : NO_PAYLOAD.index("<SOAP:Body>")]


@pytest.mark.requirement("EB-016")
@pytest.mark.parametrize(
    ("document", "code"),
    [
        (NO_PAYLOAD.replace(SOAP, "http://www.w3.org/2003/05/soap-envelope"), "VersionMismatch"),
        ("<Envelope/>", "VersionMismatch"),
        ("<Order/>", "Client"),
        (NO_PAYLOAD.replace(WHOLE_HEADER, ""), "Client"),
        (NO_PAYLOAD.replace("MessageHeader", "Header"), "Client"),
        (NO_PAYLOAD.replace("</SOAP:Header>", "</SOAP:Header><SOAP:Header/>"), "Client"),
        (NO_PAYLOAD.replace("</SOAP:Body>", "</SOAP:Body><SOAP:Body/>"), "Client"),
        (NO_PAYLOAD.replace("SOAP:Body", "SOAP:Rump"), "Client"),
        (NO_PAYLOAD.replace("msg-header-2_0.xsd", "msg-header-1_0.xsd"), "Client"),
        (NO_PAYLOAD[:-3], "Client"),
        ("", "Client"),
    ],
)
def test_what_is_no_ebxml_message_is_a_fault(document: str, code: str) -> None:
    problem = refused(document)
    assert (problem.code, problem.status) == (FaultCode(code), 500)


@pytest.mark.requirement("EB-017")
def test_names_are_known_by_namespace() -> None:
    document = NO_PAYLOAD.replace("xmlns:SOAP=", "xmlns:S=").replace("SOAP:", "S:")
    document = document.replace("xmlns:eb=", "xmlns:x=").replace("eb:", "x:")
    assert alone(document).message == alone().message
    eb = "http://www.oasis-open.org/committees/ebxml-msg/schema/msg-header-2_0.xsd"
    default = NO_PAYLOAD.replace("<eb:", "<").replace("</eb:", "</")
    default = default.replace("<MessageHeader", f'<MessageHeader xmlns="{eb}"')
    default = default.replace("<AckRequested", f'<AckRequested xmlns="{eb}"')
    assert alone(default).message == alone().message


@pytest.mark.requirement("EB-019", "EB-026")
def test_foreign_elements_and_attributes_are_ignored_and_kept() -> None:
    document = EXAMPLE.replace("</eb:", '<x:more xmlns:x="u:x"/></eb:', 0)
    for tag in ("eb:From", "eb:MessageData", "eb:MessageHeader", "eb:Manifest", "eb:Reference"):
        document = document.replace(f"</{tag}>", f'<x:y xmlns:x="u:x">?</x:y></{tag}>')
    document = document.replace("<eb:Action>", '<eb:Action xmlns:x="u:x" x:y="z">')
    document = with_header_block('<x:y xmlns:x="u:x"/>', with_body_block("<y/>", document))
    received = parsed(document)
    assert received.defects == ()
    assert received.message == parsed().message
    assert received.envelope == document.encode()


@pytest.mark.requirement("EB-020")
@pytest.mark.parametrize("needed", ["1", "true", " 1 ", "yes"])
@pytest.mark.parametrize(
    "actor",
    [
        "",
        'SOAP:actor=""',
        'SOAP:actor="http://schemas.xmlsoap.org/soap/actor/next"',
        'SOAP:actor="urn:oasis:names:tc:ebxml-msg:actor:nextMSH"',
        'SOAP:actor="urn:oasis:names:tc:ebxml-msg:actor:toPartyMSH"',
    ],
)
def test_a_block_for_us_that_must_be_understood_is_a_fault(actor: str, needed: str) -> None:
    block = f'<w:Security xmlns:w="u:w" SOAP:mustUnderstand="{needed}" {actor}/>'
    assert refused(with_header_block(block, NO_PAYLOAD)).code is FaultCode.MUST_UNDERSTAND


@pytest.mark.requirement("EB-020")
@pytest.mark.parametrize(
    "attributes",
    ["", 'SOAP:mustUnderstand="0"', 'SOAP:mustUnderstand="1" SOAP:actor="urn:x:another"'],
)
def test_a_block_that_need_not_be_understood_is_ignored(attributes: str) -> None:
    block = f'<w:Security xmlns:w="u:w" {attributes}/>'
    assert defects(with_header_block(block)) == []


@pytest.mark.requirement("EB-024")
@pytest.mark.parametrize(
    ("document", "name"),
    [
        (with_body_block("<eb:MessageHeader/>"), "//eb:MessageHeader"),
        (with_body_block("<x><eb:AckRequested/></x>"), "//eb:AckRequested"),
        (with_header_block("<x><eb:MessageHeader/></x>"), "//eb:MessageHeader"),
        (with_header_block("<eb:Manifest/>"), "//eb:Manifest"),
        (changed("<eb:CPAId>", "<eb:ErrorList/><eb:CPAId>"), "//eb:ErrorList"),
        (
            with_body_block('<d:Signature xmlns:d="http://www.w3.org/2000/09/xmldsig#"/>'),
            "//ds:Signature",
        ),
    ],
)
def test_a_block_in_a_wrong_place_is_inconsistent(document: str, name: str) -> None:
    assert ("EB-024", "Inconsistent", name) in defects(document)


@pytest.mark.requirement("EB-025")
@pytest.mark.parametrize(
    "document",
    [
        BILLION_LAUGHS,
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + NO_PAYLOAD.encode(),
        NO_PAYLOAD.replace("cpa-4711", "&xxe;").encode(),
    ],
)
def test_a_doctype_or_an_entity_is_a_fault(document: bytes) -> None:
    assert refused(document).code is FaultCode.CLIENT


@pytest.mark.requirement("EB-025")
def test_nothing_is_included(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" parse="text" href="{}"/>'
    document = changed("cpa-4711", include.format(secret))
    at = "/SOAP:Envelope/SOAP:Header/eb:MessageHeader/eb:CPAId"
    assert ("EB-032", "OtherXml", at) in defects(document)


# Faults


@pytest.mark.requirement("EB-066")
@pytest.mark.parametrize("code", FaultCode)
def test_a_fault_is_soap_with_one_sentence(code: FaultCode) -> None:
    content_type, body = soap.compose_fault(code, "this is <no>\nmessage & more")
    assert content_type == 'text/xml; charset="UTF-8"'
    fault = etree.fromstring(body).find(f".//{{{SOAP}}}Fault")
    assert fault is not None
    assert fault.findtext("faultcode") == f"SOAP:{code}"
    assert fault.findtext("faultstring") == "this is <no> message & more"
    assert envelope.parse_answer(content_type, body) == SoapFault(
        code, "this is <no> message & more"
    )


DETAIL = (
    '<detail><n:errorList xmlns:n="u:n"><n:error><n:errorCode>206</n:errorCode></n:error>'
    '<n:error><n:errorCode/></n:error></n:errorList><eb:Error eb:errorCode="Unknown"'
    ' xmlns:eb="http://www.oasis-open.org/committees/ebxml-msg/schema/msg-header-2_0.xsd"/>'
    "</detail>"
)
CODES = ("206", "Unknown")


def fault(inner: str) -> bytes:
    return (
        f'<S:Envelope xmlns:S="{SOAP}"><S:Header/><S:Body><S:Fault>{inner}</S:Fault>'
        "</S:Body></S:Envelope>"
    ).encode()


# Read or composed here, decided by a flow: EB-067.
@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (f"<faultcode>S:Server</faultcode>{DETAIL}", SoapFault(FaultCode.SERVER, "", CODES)),
        ("<faultcode>Client.Authentication</faultcode>", SoapFault(FaultCode.CLIENT)),
        ("<S:faultcode>x:MustUnderstand</S:faultcode>", SoapFault(FaultCode.MUST_UNDERSTAND)),
        ("<faultcode>S:Odd</faultcode>", SoapFault(FaultCode.SERVER)),
        ("", SoapFault(FaultCode.SERVER)),
    ],
)
def test_a_fault_in_an_answer_is_read(inner: str, expected: SoapFault) -> None:
    assert envelope.parse_answer("text/xml", fault(inner)) == expected


# Read or composed here, decided by a flow: EB-069.
def test_a_message_in_an_answer_is_read() -> None:
    answer = envelope.parse_answer("text/xml", NO_PAYLOAD.encode())
    assert isinstance(answer, ReceivedMessage)
    assert answer == alone()


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", b"<html/>"),
        ("text/xml", b"<html/>"),
        ("text/xml", b"nonsense"),
        ("text/xml", fault("").replace(b"Fault", b"Fine")),
    ],
)
def test_an_answer_that_is_neither_is_refused(content_type: str, body: bytes) -> None:
    with pytest.raises(NotAMessage):
        envelope.parse_answer(content_type, body)


def test_a_fault_by_itself_is_no_message() -> None:
    assert "a SOAP Fault without" in str(refused(fault("")))
