"""What the peer sends: drafts of messages in which everything can be bent."""

import base64
import quopri
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from .reading import Message
from .writing import OMIT, document

NAMESPACE = "http://www.ebxml.org/namespaces/messageHeader"
ONCE = "OnceAndOnlyOnce"
BEST_EFFORT = "BestEffort"


@dataclass(frozen=True)
class Payload:
    """One payload part. `content_id` None: made up. `listed` False: not named by the Manifest."""

    content: bytes
    content_type: str = "application/xml"
    content_id: str | None = None
    transfer_encoding: str = "binary"
    label: str = "Document"
    description: str = ""
    listed: bool = True
    sent: bool = True

    def encoded(self) -> bytes:
        match self.transfer_encoding.lower():
            case "base64":
                return base64.encodebytes(self.content).replace(b"\n", b"\r\n")
            case "quoted-printable":
                return quopri.encodestring(self.content)
        return self.content


@dataclass(frozen=True)
class Draft:
    """A message to be. `fields` is what was said; the sending Peer's `defaults` fill the rest."""

    fields: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def message_id(self) -> str:
        return str(self["message_id"])

    def __getitem__(self, name: str) -> Any:
        return {**FIELDS, **self.defaults, **self.fields}[name]

    def but(self, **fields: Any) -> "Draft":
        """The same message with other fields: same MessageId and times unless named."""
        return replace(self, fields={**self.fields, **_known(fields)})

    def under(self, defaults: Mapping[str, Any]) -> "Draft":
        """With what the sender knows: its URIs and parties."""
        return replace(self, defaults={**defaults, **self.defaults})

    @property
    def content_type(self) -> str:
        if self["content_type"] is not None:
            return str(self["content_type"])
        if self["plain"]:
            return str(self["header_content_type"])
        start = f'; start="{self["start"]}"' if self["start"] else ""
        return (
            f'multipart/related; type="application/vnd.eb+xml"; version="0.21"; '
            f'boundary="{self["boundary"]}"{start}'
        )

    @property
    def body(self) -> bytes:
        if self["body"] is not None:
            return bytes(self["body"])
        if self["plain"]:
            return self.header_document
        parts = [self._header_part(), *self._payload_parts()]
        boundary = str(self["boundary"]).encode()
        delimited = [b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts]
        return b"".join([*delimited, b"--" + boundary + b"--\r\n"])

    @property
    def header_document(self) -> bytes:
        if self["header_document"] is not None:
            return bytes(self["header_document"])
        return document(self).encode()

    def content_id(self, number: int) -> str:
        """The content id of a payload, counted from 1."""
        own = self["payloads"][number - 1].content_id
        return own if own is not None else f"payload-{number}@peer.example"

    def _header_part(self) -> bytes:
        head = (
            f"Content-ID: <{self['header_content_id']}>\r\n"
            f"Content-Type: {self['header_content_type']}\r\n\r\n"
        )
        return head.encode() + self.header_document

    def _payload_parts(self) -> list[bytes]:
        return [
            f"Content-ID: <{self.content_id(number)}>\r\n"
            f"Content-Type: {payload.content_type}\r\n"
            f"Content-Transfer-Encoding: {payload.transfer_encoding}\r\n\r\n".encode()
            + payload.encoded()
            for number, payload in enumerate(self["payloads"], 1)
            if payload.sent
        ]


FIELDS: dict[str, Any] = {
    # the envelope
    "namespace": NAMESPACE,
    "version": "0.21",
    "message_type": "Normal",
    "doctype": "",
    "manifest": None,
    "extra": "",
    # Header
    "from_party": "222222222",
    "from_context": "DUNS",
    "to_party": "111111111",
    "to_context": "DUNS",
    "tpa_id": "tpa-4711",
    "conversation_id": "conversation-1",
    "service_interface": "QuoteToCollect",
    "action": "NewPurchaseOrder",
    "message_id": "",
    "timestamp": "",
    "ref_to_message_id": "",
    "semantics": ONCE,
    "semantics_element": OMIT,
    "header_extra": "",
    # RoutingHeader
    "sender_uri": "http://peer.example/ebxml/",
    "receiver_uri": "http://msh.example/ebxml/",
    "error_uri": "http://peer.example/ebxml/",
    "routing_timestamp": "",
    "sequence_number": OMIT,
    "routing_headers": None,
    # ErrorHeader
    "code": None,
    "severity": "HardError",
    "min_retry_secs": OMIT,
    "location": "/ebXMLHeader",
    "description": "The peer says so.",
    # the package
    "payloads": (),
    "boundary": "",
    "start": "",
    "plain": False,
    "header_content_id": "ebxmlheader@peer.example",
    "header_content_type": 'application/vnd.eb+xml; version="0.21"; charset="UTF-8"',
    "header_document": None,
    "content_type": None,
    "body": None,
}
"""Every field of a Draft and its default. `routing_headers` is a list of mappings, each a
RoutingHeader that overrides the fields above; empty: none. `manifest`, `extra` and
`header_extra` are XML. `semantics_element` writes DeliverySemantics as a child element."""


def normal(**fields: Any) -> Draft:
    """A Normal message: reliable, with number 1 and one small order, unless said otherwise."""
    numbered = fields.get("semantics", ONCE) == ONCE or "semantics_element" in fields
    return _draft(
        {
            "sequence_number": 1 if numbered else OMIT,
            "payloads": (Payload(b"<Order><Quantity>100</Quantity></Order>"),),
        },
        fields,
    )


def acknowledgement(of: "Message | Draft | str", **fields: Any) -> Draft:
    """An Acknowledgement of a message that came, of a Draft, or of a MessageId."""
    return _draft({"message_type": "Acknowledgement", **_signal_fields(of)}, fields)


def error(of: "Message | Draft | str", code: str = "TransientError", **fields: Any) -> Draft:
    """An Error Message for a message that came, for a Draft, or for a MessageId."""
    severity = "TransientError" if code == "TransientError" else "HardError"
    given = {"message_type": "Error", "code": code, "severity": severity, **_signal_fields(of)}
    return _draft(given, fields)


def timestamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"


def new_message_id() -> str:
    return f"{uuid.uuid4()}@peer.example"


def _draft(given: Mapping[str, Any], fields: Mapping[str, Any]) -> Draft:
    now = timestamp()
    made = {
        "message_id": new_message_id(),
        "timestamp": now,
        "routing_timestamp": now,
        "boundary": f"peer-{uuid.uuid4().hex}",
    }
    return Draft({**made, **given, **_known(fields)})


def _known(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    if unknown := fields.keys() - FIELDS.keys():
        raise TypeError(f"no such field: {', '.join(sorted(unknown))}")
    return fields


def _signal_fields(of: "Message | Draft | str") -> dict[str, Any]:
    fields: dict[str, Any] = {
        "semantics": BEST_EFFORT,
        "service_interface": "",
        "action": "",
        "from_context": "URI",
        "to_context": "URI",
        "ref_to_message_id": of if isinstance(of, str) else of.message_id,
    }
    if isinstance(of, Message):
        fields |= {
            "from_party": of.receiver_uri,
            "to_party": of.sender_uri,
            "sender_uri": of.receiver_uri,
            "receiver_uri": of.sender_uri,
            "tpa_id": of.tpa_id,
            "conversation_id": of.conversation_id,
        }
    return fields
