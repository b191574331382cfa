"""The stored bytes of a message: its header document, its payloads, and the body that each copy had
on the wire."""

import hashlib
from dataclasses import dataclass

from django.db.models.functions import Coalesce

from msh import wire
from msh.models import InboundMessage, InboundPayload, OutboundMessage, OutboundPayload
from msh.wire.dialect import dialect_named

Message = OutboundMessage | InboundMessage


class BytesMissing(Exception):
    """They are not here, or not as they were. `str()` is a sentence."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Exact bytes, and what they were called. `sha256` is in hexadecimal digits."""

    name: str
    content_type: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def header_of(message: Message) -> Stored:
    """The header document as it was sent, or as it came. Raises BytesMissing."""
    if isinstance(message, InboundMessage):
        document = bytes(message.header)
    elif message.head is None:
        raise BytesMissing("The header is composed when the message is first sent.")
    else:
        document = wire.stored_document(bytes(message.head), message.boundary)
    return Stored("header.xml", "application/xml", document)


def payload_of(message: Message, position: int) -> Stored:
    """One payload, decoded. Raises BytesMissing."""
    part: InboundPayload | OutboundPayload | None
    if isinstance(message, InboundMessage):
        part = message.payloads.filter(position=position).first()
    else:
        part = message.payloads.filter(position=position).first()
    if part is None:
        raise BytesMissing(f"There is no payload {position}, or it was removed by retention.")
    if isinstance(part, InboundPayload):
        content = bytes(part.content)
    else:
        content = wire.part_content(bytes(part.wire), part.message.boundary)
    return Stored(part.label, part.content_type, content)


def body_of(message: OutboundMessage) -> Stored:
    """The body of every copy that was sent. Raises BytesMissing."""
    if message.head is None or message.body_sha256 is None:
        raise BytesMissing("The body is composed when the message is first sent.")
    parts = OutboundPayload.objects.filter(message=message).order_by("position")
    sent = parts.values_list(Coalesce("encrypted", "wire"), flat=True)
    body = b"".join(bytes(each) for each in (message.head, *sent))
    if hashlib.sha256(body).digest() != bytes(message.body_sha256):
        gone = message.size > 0 and not parts.exists()
        why = (
            "its payloads were removed by retention"
            if gone
            else ("the stored payloads have changed")
        )
        raise BytesMissing(
            f"The bytes of message {message} cannot be shown as they were sent: {why}."
        )
    dialect = dialect_named(message.agreement.dialect)
    return Stored("", dialect.content_type(message.boundary, parts.exists()), body)
