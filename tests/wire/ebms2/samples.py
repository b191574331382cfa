"""Messages for these tests: one envelope by hand, the same as values, packages of them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from msh.protocol.ebms.errors import NotAMessage, Unusable
from msh.protocol.ebms.message import (
    AckRequested,
    Defect,
    Message,
    MessageHeader,
    Party,
    PartyId,
    ReceivedMessage,
    Reference,
    Service,
)
from msh.protocol.ebms.signals import Signal
from msh.protocol.message import Payload
from msh.wire.ebms2 import envelope
from tests.wire import samples as draft
from tests.wire.samples import package

RELATED = 'multipart/related; type="text/xml"; boundary="edge"; start="<root@x>"'
ORDER = b"<Order>100 crates</Order>"

EXAMPLE = """\
<?xml version="1.0" encoding="UTF-8"?>
<SOAP:Envelope xmlns:SOAP="http://schemas.xmlsoap.org/soap/envelope/"
    xmlns:eb="http://www.oasis-open.org/committees/ebxml-msg/schema/msg-header-2_0.xsd"
    xmlns:xlink="http://www.w3.org/1999/xlink">
<SOAP:Header>
<eb:MessageHeader eb:version="2.0" SOAP:mustUnderstand="1">
  <eb:From>
    <eb:PartyId eb:type="urn:duns">111111111</eb:PartyId>
    <eb:Role>Buyer</eb:Role>
  </eb:From>
  <eb:To>
    <eb:PartyId eb:type="urn:duns">222222222</eb:PartyId>
    <eb:Role>Seller</eb:Role>
  </eb:To>
  <eb:CPAId>cpa-4711</eb:CPAId>
  <eb:ConversationId>conv-987654321</eb:ConversationId>
  <eb:Service eb:type="string">QuoteToCollect</eb:Service>
  <eb:Action>NewPurchaseOrder</eb:Action>
  <eb:MessageData>
    <eb:MessageId>order-1@sender.example</eb:MessageId>
    <eb:Timestamp>2026-11-22T12:00:00Z</eb:Timestamp>
    <eb:RefToMessageId>quote-1@receiver.example</eb:RefToMessageId>
    <eb:TimeToLive>2026-11-23T12:00:00Z</eb:TimeToLive>
  </eb:MessageData>
  <eb:DuplicateElimination/>
  <eb:Description xml:lang="en">An order</eb:Description>
</eb:MessageHeader>
<eb:AckRequested eb:version="2.0" SOAP:mustUnderstand="1"
    SOAP:actor="urn:oasis:names:tc:ebxml-msg:actor:toPartyMSH" eb:signed="false"/>
</SOAP:Header>
<SOAP:Body>
<eb:Manifest eb:version="2.0">
  <eb:Reference xlink:type="simple" xlink:href="cid:order@sender.example">
    <eb:Description xml:lang="en">100 crates</eb:Description>
  </eb:Reference>
</eb:Manifest>
</SOAP:Body>
</SOAP:Envelope>
"""
ACK_REQUESTED = EXAMPLE[EXAMPLE.index("<eb:AckRequested") : EXAMPLE.index("</SOAP:Header>")]
MANIFEST = EXAMPLE[EXAMPLE.index("<eb:Manifest") : EXAMPLE.index("</SOAP:Body>")]
NO_PAYLOAD = EXAMPLE.replace(MANIFEST, "")
ORDER_PART = b"Content-ID: <order@sender.example>\r\nContent-Type: application/xml\r\n\r\n" + ORDER
US, THEM = Party((PartyId("222222222", "urn:duns"),)), Party((PartyId("111111111", "urn:duns"),))
MOMENT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def header(**changes: Any) -> MessageHeader:
    """The header of EXAMPLE, with other attributes where told so."""
    attributes: dict[str, Any] = {
        "from_party": Party((PartyId("111111111", "urn:duns"),), "Buyer"),
        "to_party": Party((PartyId("222222222", "urn:duns"),), "Seller"),
        "cpa_id": "cpa-4711",
        "conversation_id": "conv-987654321",
        "service": Service("QuoteToCollect", "string"),
        "action": "NewPurchaseOrder",
        "message_id": "order-1@sender.example",
        "timestamp": MOMENT,
        "ref_to_message_id": "quote-1@receiver.example",
        "time_to_live": datetime(2026, 11, 23, 12, tzinfo=UTC),
        "eliminates_duplicates": True,
        "description": "An order",
    }
    return MessageHeader(**(attributes | changes))


def message(**changes: Any) -> Message:
    """EXAMPLE as values. Attributes of the header are taken too."""
    own = {name: changes.pop(name) for name in tuple(changes) if name in Message.__slots__}
    attributes: dict[str, Any] = {
        "header": header(**changes),
        "ack_requested": (AckRequested(),),
        "manifest": (Reference("cid:order@sender.example", "order@sender.example", "100 crates"),),
    }
    return Message(**(attributes | own))


def signal(ref_to_message_id: str = "order-1@sender.example") -> Signal:
    """What is said of a signal that answers EXAMPLE."""
    return Signal(US, THEM, "cpa-4711", "conv-987654321", "signal-1@x", MOMENT, ref_to_message_id)


def root_part(document: str | bytes = EXAMPLE, content_type: str = "text/xml") -> bytes:
    document = document.encode() if isinstance(document, str) else document
    head = f"Content-ID: <root@x>\r\nContent-Type: {content_type}\r\n\r\n"
    return head.encode() + document


def parsed(document: str | bytes = EXAMPLE, *parts: bytes) -> ReceivedMessage:
    """The message with this envelope and the order, or other parts, as payload."""
    return envelope.parse(RELATED, package(root_part(document), *(parts or (ORDER_PART,))))


def alone(document: str | bytes = NO_PAYLOAD) -> ReceivedMessage:
    document = document.encode() if isinstance(document, str) else document
    return envelope.parse("text/xml", document)


def defects(document: str | bytes, *parts: bytes) -> list[tuple[str, str, str]]:
    """Rule, code and location of what is wrong, whether or not the header can be used."""
    try:
        found = parsed(document, *parts).defects
    except Unusable as refused:
        found = refused.defects
    return [short(defect) for defect in found]


def short(defect: Defect) -> tuple[str, str, str]:
    return defect.rule, defect.error.code, defect.error.location


def refused(document: str | bytes, content_type: str = "text/xml") -> NotAMessage:
    document = document.encode() if isinstance(document, str) else document
    with pytest.raises(NotAMessage) as caught:
        envelope.parse(content_type, document)
    assert str(caught.value).isascii()
    return caught.value


def composed(whole: Message, payloads: Sequence[Payload]) -> tuple[str, bytes]:
    """Content-Type and body, as the flows put them together."""
    boundary = "msh-0123456789abcdef"
    parts = envelope.compose_parts(payloads, boundary)
    if not parts:
        return envelope.compose_alone(whole)
    return envelope.content_type(boundary), envelope.compose_head(whole, boundary) + b"".join(parts)


def changed(old: str, new: str, document: str = EXAMPLE) -> str:
    return draft.changed(old, new, document)


def with_header_block(markup: str, document: str = EXAMPLE) -> str:
    return changed("</SOAP:Header>", f"{markup}</SOAP:Header>", document)


def with_body_block(markup: str, document: str = EXAMPLE) -> str:
    return changed("</SOAP:Body>", f"{markup}</SOAP:Body>", document)


def of_kind(action: str, blocks: str = "", body: str = "", document: str = NO_PAYLOAD) -> str:
    """A signal: EXAMPLE with the reserved Service, this Action and these blocks."""
    service = '<eb:Service eb:type="string">QuoteToCollect</eb:Service>'
    reserved = "<eb:Service>urn:oasis:names:tc:ebxml-msg:service</eb:Service>"
    document = changed(service, reserved, document)
    document = changed("NewPurchaseOrder", action, document)
    return with_body_block(body, with_header_block(blocks, document.replace(ACK_REQUESTED, "")))


def order(content: bytes = ORDER, content_type: str = "application/xml") -> Payload:
    return Payload(content, content_type, "order@sender.example", description="100 crates")
