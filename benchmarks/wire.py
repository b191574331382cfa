"""Reliable messages as a partner puts them on the wire, without a library in between.

About 3 KB each: header and one order. Built from a template, so that a load generator can
make each one distinct for a few microseconds.
"""

import random
from dataclasses import dataclass
from uuid import uuid4

from .bare_http import post

PAYLOAD_LINES = 14
_LINE = (
    '<Line number="{0}"><Article>{1:013d}</Article><Quantity unit="crate">{2}</Quantity>'
    '<Price currency="EUR">{3}.50</Price></Line>\n'
)
ORDER = "<Order>\n{}</Order>\n".format(
    "".join(
        _LINE.format(n, 4_006_381_333_931 * n % 10**13, 7 * n, 19 * n)
        for n in range(1, PAYLOAD_LINES + 1)
    )
)
_BOUNDARY = "msh-benchmark-boundary"
HEADERS = (
    'Content-Type: multipart/related; type="application/vnd.eb+xml"; version="0.21"; '
    f'boundary="{_BOUNDARY}"'
)
_BODY = f"""\
--{_BOUNDARY}\r
Content-ID: <header-%(message_id)s>\r
Content-Type: application/vnd.eb+xml; version="0.21"; charset="UTF-8"\r
\r
<?xml version="1.0" encoding="UTF-8"?>
<ebXMLHeader xmlns="http://www.ebxml.org/namespaces/messageHeader" Version="0.21" \
MessageType="Normal">
  <Manifest>
    <DocumentReference>
      <DocumentLabel>PurchaseOrder</DocumentLabel>
      <DocumentId>cid:payload-%(message_id)s</DocumentId>
    </DocumentReference>
  </Manifest>
  <Header>
    <From><PartyId context="DUNS">%(from_party)s</PartyId></From>
    <To><PartyId context="DUNS">%(to_party)s</PartyId></To>
    <TPAInfo>
      <TPAId>%(tpa_id)s</TPAId>
      <ConversationId>%(message_id)s</ConversationId>
      <ServiceInterface>QuoteToCollect</ServiceInterface>
      <Action>NewPurchaseOrder</Action>
    </TPAInfo>
    <MessageData>
      <MessageId>%(message_id)s</MessageId>
      <TimeStamp>20001016T110000.000Z</TimeStamp>
      <RefToMessageId/>
    </MessageData>
    <ReliableMessagingInfo DeliverySemantics="OnceAndOnlyOnce"/>
  </Header>
  <RoutingHeader>
    <SenderURI>%(sender_uri)s</SenderURI>
    <ReceiverURI>%(receiver_uri)s</ReceiverURI>
    <ErrorURI>%(sender_uri)s</ErrorURI>
    <Timestamp>20001016T110000.250Z</Timestamp>
    <SequenceNumber>%(number)d</SequenceNumber>
  </RoutingHeader>
</ebXMLHeader>
\r
--{_BOUNDARY}\r
Content-ID: <payload-%(message_id)s>\r
Content-Type: application/xml\r
\r
{ORDER}\r
--{_BOUNDARY}--\r
"""


_ACKNOWLEDGEMENT = f"""\
--{_BOUNDARY}\r
Content-ID: <header-%(message_id)s>\r
Content-Type: application/vnd.eb+xml; version="0.21"; charset="UTF-8"\r
\r
<?xml version="1.0" encoding="UTF-8"?>
<ebXMLHeader xmlns="http://www.ebxml.org/namespaces/messageHeader" Version="0.21" \
MessageType="Acknowledgement">
  <Manifest/>
  <Header>
    <From><PartyId context="URI">%(sender_uri)s</PartyId></From>
    <To><PartyId context="URI">%(receiver_uri)s</PartyId></To>
    <TPAInfo>
      <TPAId>%(tpa_id)s</TPAId>
      <ConversationId>%(ref)s</ConversationId>
      <ServiceInterface/>
      <Action/>
    </TPAInfo>
    <MessageData>
      <MessageId>%(message_id)s</MessageId>
      <TimeStamp>20001016T110000.000Z</TimeStamp>
      <RefToMessageId>%(ref)s</RefToMessageId>
    </MessageData>
    <ReliableMessagingInfo DeliverySemantics="BestEffort"/>
  </Header>
  <RoutingHeader>
    <SenderURI>%(sender_uri)s</SenderURI>
    <ReceiverURI>%(receiver_uri)s</ReceiverURI>
    <ErrorURI>%(sender_uri)s</ErrorURI>
    <Timestamp>20001016T110000.250Z</Timestamp>
  </RoutingHeader>
</ebXMLHeader>
\r
--{_BOUNDARY}--\r
"""


_EBMS2_HEADERS = (
    f'Content-Type: multipart/related; type="text/xml"; boundary="{_BOUNDARY}"\r\n'
    'SOAPAction: "ebXML"'
)
_EBMS2_BODY = f"""\
--{_BOUNDARY}\r
Content-ID: <header-%(message_id)s>\r
Content-Type: text/xml; charset="UTF-8"\r
\r
<?xml version="1.0" encoding="UTF-8"?>
<SOAP:Envelope xmlns:SOAP="http://schemas.xmlsoap.org/soap/envelope/" \
xmlns:eb="http://www.oasis-open.org/committees/ebxml-msg/schema/msg-header-2_0.xsd" \
xmlns:xlink="http://www.w3.org/1999/xlink">
  <SOAP:Header>
    <eb:MessageHeader SOAP:mustUnderstand="1" eb:version="2.0">
      <eb:From><eb:PartyId eb:type="urn:oasis:duns">%(from_party)s</eb:PartyId></eb:From>
      <eb:To><eb:PartyId eb:type="urn:oasis:duns">%(to_party)s</eb:PartyId></eb:To>
      <eb:CPAId>%(tpa_id)s</eb:CPAId>
      <eb:ConversationId>%(message_id)s</eb:ConversationId>
      <eb:Service eb:type="name">QuoteToCollect</eb:Service>
      <eb:Action>NewPurchaseOrder</eb:Action>
      <eb:MessageData>
        <eb:MessageId>%(message_id)s</eb:MessageId>
        <eb:Timestamp>2026-11-23T11:00:00Z</eb:Timestamp>
      </eb:MessageData>
      <eb:DuplicateElimination/>
    </eb:MessageHeader>
    <eb:AckRequested SOAP:mustUnderstand="1" eb:version="2.0" eb:signed="false" \
SOAP:actor="urn:oasis:names:tc:ebxml-msg:actor:toPartyMSH"/>
  </SOAP:Header>
  <SOAP:Body>
    <eb:Manifest eb:version="2.0">
      <eb:Reference xlink:type="simple" xlink:href="cid:payload-%(message_id)s">
        <eb:Description xml:lang="en">PurchaseOrder</eb:Description>
      </eb:Reference>
    </eb:Manifest>
  </SOAP:Body>
</SOAP:Envelope>
\r
--{_BOUNDARY}\r
Content-ID: <payload-%(message_id)s>\r
Content-Type: application/xml\r
\r
{ORDER}\r
--{_BOUNDARY}--\r
"""
_DIALECTS = {"trp": (HEADERS, _BODY), "ebms2": (_EBMS2_HEADERS, _EBMS2_BODY)}
ACKNOWLEDGEMENTS = (b'MessageType="Acknowledgement"', b":Action>Acknowledgment<")
"""What one of them has in each dialect."""


@dataclass(slots=True)
class Pair:
    """One partner as it sends to the MSH under test. `number` is the last one used."""

    name: str
    sender_uri: str
    receiver_uri: str
    from_party: str
    to_party: str
    tpa_id: str
    token: str
    dialect: str = "trp"
    number: int = 0

    def next_request(self) -> bytes:
        """The POST of the pair's next message, whole."""
        authorization = f"Authorization: Bearer {self.token}"
        headers, _ = _DIALECTS[self.dialect]
        return post("/ebxml/", self.next_body().encode(), headers, authorization)

    def next_body(self) -> str:
        """The package of the pair's next message."""
        self.number += 1
        values = {
            "message_id": f"{uuid4()}@{self.name}.example",
            "from_party": self.from_party,
            "to_party": self.to_party,
            "tpa_id": self.tpa_id,
            "sender_uri": self.sender_uri,
            "receiver_uri": self.receiver_uri,
            "number": self.number,
        }
        _, body = _DIALECTS[self.dialect]
        return body % values


def acknowledgement(ref: str, *, tpa_id: str, sender_uri: str, receiver_uri: str) -> bytes:
    """The package of an Acknowledgement of the message `ref`, to be sent with HEADERS."""
    values = {
        "message_id": uuid4(),
        "ref": ref,
        "tpa_id": tpa_id,
        "sender_uri": sender_uri,
        "receiver_uri": receiver_uri,
    }
    return (_ACKNOWLEDGEMENT % values).encode()


def payload_of(size: int) -> bytes:
    """An XML document of so many bytes that do not compress; the usual order where that is 0."""
    if not size:
        return ORDER.encode()
    return b"<Order>" + random.Random(size).randbytes(size // 2 - 8).hex().encode() + b"</Order>"


def sample() -> str:
    """The package of one such message, for the floors."""
    uri = "http://127.0.0.1:65535/load-00/"
    return Pair("load-00", uri, uri, "300000", "299999", "load-00", "").next_body()


def envelope() -> bytes:
    """The SOAP envelope of a message of ebMS 2.0."""
    uri = "http://127.0.0.1:65535/load-00/"
    pair = Pair("load-00", uri, uri, "300000", "299999", "load-00", "", "ebms2")
    package, end = pair.next_body(), "</SOAP:Envelope>"
    return package[package.index("<?xml") : package.index(end) + len(end)].encode()
