"""Messages for these tests: the example of the wire format, headers as values, packages by hand."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from msh import wire
from msh.protocol.message import DocumentReference, ErrorReport, Header, Party, Payload, Route
from msh.protocol.received import ReceivedMessage
from msh.protocol.vocabulary import DeliverySemantics, ErrorCode, MessageType, Severity

HEADER_TYPE = 'application/vnd.eb+xml; version="0.21"; charset="UTF-8"'
RELATED = 'multipart/related; type="application/vnd.eb+xml"; version="0.21"; boundary="%s"'

EXAMPLE = """\
<?xml version="1.0" encoding="UTF-8"?>
<ebXMLHeader xmlns="http://www.ebxml.org/namespaces/messageHeader" Version="0.21"
    MessageType="Normal">
  <Manifest>
    <DocumentReference>
      <DocumentLabel>PurchaseOrder</DocumentLabel>
      <DocumentId>cid:payload-1-4711@sender.example</DocumentId>
      <DocumentDescription xml:lang="en">100 crates</DocumentDescription>
    </DocumentReference>
  </Manifest>
  <Header>
    <From><PartyId context="DUNS">111111111</PartyId></From>
    <To><PartyId context="DUNS">222222222</PartyId></To>
    <TPAInfo>
      <TPAId>tpa-4711</TPAId>
      <ConversationId>conv-987654321</ConversationId>
      <ServiceInterface>QuoteToCollect</ServiceInterface>
      <Action>NewPurchaseOrder</Action>
    </TPAInfo>
    <MessageData>
      <MessageId>order-1@sender.example</MessageId>
      <TimeStamp>20001016T110000.000Z</TimeStamp>
      <RefToMessageId/>
    </MessageData>
    <ReliableMessagingInfo DeliverySemantics="OnceAndOnlyOnce"/>
  </Header>
  <RoutingHeader>
    <SenderURI>http://sender.example/ebxml/</SenderURI>
    <ReceiverURI>http://receiver.example/ebxml/</ReceiverURI>
    <ErrorURI>http://sender.example/ebxml/</ErrorURI>
    <Timestamp>20001016T110000.250Z</Timestamp>
    <SequenceNumber>23</SequenceNumber>
  </RoutingHeader>
</ebXMLHeader>
"""
ORDER = b"<Order>100 crates</Order>"
ORDER_PART = (
    b"Content-ID: <payload-1-4711@sender.example>\r\nContent-Type: application/xml\r\n\r\n" + ORDER
)
MANIFEST = EXAMPLE[EXAMPLE.index("  <Manifest>") : EXAMPLE.index("  <Header>")]
ROUTING_HEADER = EXAMPLE[EXAMPLE.index("  <RoutingHeader>") : EXAMPLE.index("</ebXMLHeader>")]
NO_PAYLOAD = EXAMPLE.replace(MANIFEST, "  <Manifest/>\n")


def normal(**changes: Any) -> Header:
    """The header of EXAMPLE, with other attributes where told so."""
    attributes: dict[str, Any] = {
        "message_type": MessageType.NORMAL,
        "from_party": Party("111111111", "DUNS"),
        "to_party": Party("222222222", "DUNS"),
        "tpa_id": "tpa-4711",
        "conversation_id": "conv-987654321",
        "service_interface": "QuoteToCollect",
        "action": "NewPurchaseOrder",
        "message_id": "order-1@sender.example",
        "timestamp": datetime(2000, 10, 16, 11, 0, tzinfo=UTC),
        "semantics": DeliverySemantics.ONCE_AND_ONLY_ONCE,
        "routing": (route(),),
        "manifest": (
            DocumentReference("payload-1-4711@sender.example", "PurchaseOrder", "100 crates"),
        ),
    }
    return Header(**(attributes | changes))


def route(**changes: Any) -> Route:
    attributes: dict[str, Any] = {
        "sender_uri": "http://sender.example/ebxml/",
        "receiver_uri": "http://receiver.example/ebxml/",
        "error_uri": "http://sender.example/ebxml/",
        "timestamp": datetime(2000, 10, 16, 11, 0, 0, 250_000, tzinfo=UTC),
        "sequence_number": 23,
    }
    return Route(**(attributes | changes))


def signal(message_type: MessageType, **changes: Any) -> Header:
    """What the receiver of EXAMPLE answers."""
    attributes: dict[str, Any] = {
        "message_type": message_type,
        "from_party": Party("http://receiver.example/ebxml/", "URI"),
        "to_party": Party("http://sender.example/ebxml/", "URI"),
        "service_interface": "",
        "action": "",
        "message_id": "signal-1@receiver.example",
        "semantics": DeliverySemantics.BEST_EFFORT,
        "routing": (
            route(
                sender_uri="http://receiver.example/ebxml/",
                receiver_uri="http://sender.example/ebxml/",
                sequence_number=None,
            ),
        ),
        "ref_to_message_id": "order-1@sender.example",
        "manifest": (),
    }
    return normal(**(attributes | changes))


def acknowledgement(**changes: Any) -> Header:
    return signal(MessageType.ACKNOWLEDGEMENT, **changes)


def error(report: ErrorReport, **changes: Any) -> Header:
    return signal(MessageType.ERROR, error=report, **changes)


TRANSIENT = ErrorReport(
    ErrorCode.TRANSIENT_ERROR,
    Severity.TRANSIENT_ERROR,
    "/ebXMLHeader/RoutingHeader/SequenceNumber",
    "the onward link is suspended",
    120,
)


def order(content: bytes = ORDER, content_type: str = "application/xml") -> Payload:
    return Payload(
        content, content_type, "payload-1-4711@sender.example", "PurchaseOrder", "100 crates"
    )


def composed(header: Header, payloads: Sequence[Payload]) -> tuple[str, bytes]:
    """Content type and body, as the flows put them together."""
    boundary = wire.new_boundary()
    parts = wire.compose_parts(payloads, boundary)
    head = wire.compose_head(header, boundary, closing=not parts)
    return wire.content_type(boundary), head + b"".join(parts)


def package(
    *parts: bytes, boundary: str = "edge", newline: bytes = b"\r\n", end: bytes | None = None
) -> bytes:
    """A multipart body written by hand: parts with their headers, as they are."""
    mark = b"--" + boundary.encode()
    body = b"".join(mark + newline + part + newline for part in parts)
    return body + (mark + b"--" + newline if end is None else end)


def header_part(document: str | bytes = EXAMPLE, content_type: str = HEADER_TYPE) -> bytes:
    document = document.encode() if isinstance(document, str) else document
    return f"Content-Type: {content_type}\r\n\r\n".encode() + document


def parsed(document: str | bytes = EXAMPLE, *parts: bytes) -> ReceivedMessage:
    """The message with this header document and the order, or other parts, as payload."""
    return wire.parse(RELATED % "edge", package(header_part(document), *(parts or (ORDER_PART,))))


def alone(document: str | bytes = NO_PAYLOAD) -> ReceivedMessage:
    """A header-only message."""
    document = document.encode() if isinstance(document, str) else document
    return wire.parse("application/vnd.eb+xml", document)


def changed(old: str, new: str, document: str = EXAMPLE) -> str:
    """The document with one thing changed, which must be there once."""
    assert document.count(old) == 1, old
    return document.replace(old, new)
