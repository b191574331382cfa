"""What can be read of an ebXML message on the wire, with the standard library alone.

Deliberately not the product's parser: the checker must not repeat its mistakes.
"""

from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from hashlib import sha256
from xml.etree import ElementTree

UNREADABLE = "unreadable"
NORMAL = "Normal"
ACKNOWLEDGEMENT = "Acknowledgement"
ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Sighting:
    """One body as seen on the wire. `lane` is the pair and direction of the Normal message
    that it is or that it answers, so that an Ack stands beside what it acknowledges."""

    kind: str
    lane: str
    message_id: str
    ref_to_message_id: str
    sequence_number: int | None
    sha256: str


def lane_name(sender_uri: str, receiver_uri: str) -> str:
    return f"{sender_uri} > {receiver_uri}"


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
        return Sighting(UNREADABLE, "", "", "", None, digest)
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
