"""What can be read of an ebXML message on the wire, with the standard library alone: of the draft's
dialect, and of OASIS ebMS 2.0.

Deliberately not the product's parser: the checker must not repeat its mistakes.
"""

import re
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from hashlib import sha256
from xml.etree import ElementTree

UNREADABLE = "unreadable"
NORMAL = "Normal"
ACKNOWLEDGEMENT = "Acknowledgement"
ERROR = "Error"
_EB = "{http://www.oasis-open.org/committees/ebxml-msg/schema/msg-header-2_0.xsd}"
_OF_THE_MSHS = "urn:oasis:names:tc:ebxml-msg:service"
_KINDS = {"Acknowledgment": ACKNOWLEDGEMENT, "MessageError": ERROR}
"""Of a message with the reserved Service, by its Action."""
_ENVELOPE = re.compile(rb"<((?:[\w.-]+:)?Envelope)[\s>]")


@dataclass(frozen=True, slots=True)
class Sighting:
    """One body as seen on the wire. `lane` is the pair and direction of the Normal message
    that it is or that it answers, so that an Ack stands beside what it acknowledges: URIs of the
    MSHs or, of ebMS 2.0, PartyIds."""

    kind: str
    lane: str
    message_id: str
    ref_to_message_id: str
    sequence_number: int | None
    sha256: str


def lane_name(sender: str, receiver: str) -> str:
    return f"{sender} > {receiver}"


def sight(body: bytes) -> Sighting:
    """Read a request body. One that cannot be read is a sighting of kind `unreadable`."""
    return _sighting(body, sha256(body).hexdigest())


def sight_mail(mail: bytes) -> Sighting:
    """Read a mail. Its own headers are not looked at: each copy has a Message-ID of its own."""
    digest = sha256(mail.partition(b"\r\n\r\n")[2]).hexdigest()
    part: Message | None = message_from_bytes(mail)
    while part is not None and part.is_multipart():
        part = next(iter(part.get_payload()), None)
    document = part.get_payload(decode=True) if part is not None else b""
    return _sighting(document if isinstance(document, bytes) else b"", digest)


def _sighting(body: bytes, digest: str) -> Sighting:
    values = _header_values(body)
    if values is None:
        return _sighting_of_envelope(body, digest)
    kind = values["MessageType"]
    ends = (values.get("SenderURI", ""), values.get("ReceiverURI", ""))
    number = values.get("SequenceNumber", "")
    return Sighting(
        kind=kind,
        lane=lane_name(*(ends if kind == NORMAL else reversed(ends))),
        message_id=values.get("MessageId", ""),
        ref_to_message_id=values.get("RefToMessageId", ""),
        sequence_number=int(number) if number.isdigit() else None,
        sha256=digest,
    )


def _sighting_of_envelope(body: bytes, digest: str) -> Sighting:
    header = _message_header(body)
    if header is None:
        return Sighting(UNREADABLE, "", "", "", None, digest)
    kind = NORMAL
    if _text(header, "Service") == _OF_THE_MSHS:
        action = _text(header, "Action")
        kind = _KINDS.get(action, action)
    ends = (_text(header, "From/PartyId"), _text(header, "To/PartyId"))
    return Sighting(
        kind=kind,
        lane=lane_name(*(ends if kind == NORMAL else reversed(ends))),
        message_id=_text(header, "MessageData/MessageId"),
        ref_to_message_id=_text(header, "MessageData/RefToMessageId"),
        sequence_number=None,
        sha256=digest,
    )


def _message_header(body: bytes) -> ElementTree.Element | None:
    """Of the envelope, which is the body or its first part."""
    begin = _ENVELOPE.search(body)
    if begin is None:
        return None
    end_tag = b"</" + begin[1] + b">"
    end = body.find(end_tag, begin.start())
    if end < 0:
        return None
    try:
        root = ElementTree.fromstring(body[begin.start() : end] + end_tag)
    except ElementTree.ParseError:
        return None
    return next(root.iter(f"{_EB}MessageHeader"), None)


def _text(header: ElementTree.Element, path: str) -> str:
    found = header.findtext("/".join(_EB + name for name in path.split("/")))
    return (found or "").strip()


def _header_values(body: bytes) -> dict[str, str] | None:
    """Local element name to text, and the MessageType; of the header document only."""
    start = body.find(b"<ebXMLHeader")
    end = body.find(b"</ebXMLHeader>", start)
    if start < 0 or end < 0:
        return None
    try:
        root = ElementTree.fromstring(body[start:end] + b"</ebXMLHeader>")
    except ElementTree.ParseError:
        return None
    values = {_local(element.tag): (element.text or "").strip() for element in root.iter()}
    return values | {"MessageType": root.get("MessageType", UNREADABLE)}


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
