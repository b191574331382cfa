"""The peer's own ebMS 2.0: writes and reads messages by the standard library only.

`message()`, `acknowledgment()` and `message_error()` make an Outgoing; `but(...)` is a copy with
other fields and the same MessageId. A field that is "" is left out, and `extra` goes into the SOAP
Header as it is. `Envelope` reads what came.
"""

import uuid
from dataclasses import dataclass, field, replace
from typing import Any, Self
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
EB = "http://www.oasis-open.org/committees/ebxml-msg/schema/msg-header-2_0.xsd"
XLINK = "http://www.w3.org/1999/xlink"
SERVICE = "urn:oasis:names:tc:ebxml-msg:service"
TO_PARTY_MSH = "urn:oasis:names:tc:ebxml-msg:actor:toPartyMSH"
NEXT_MSH = "urn:oasis:names:tc:ebxml-msg:actor:nextMSH"

_BLOCK = 'eb:version="2.0" SOAP:mustUnderstand="1"'
SYNC_REPLY = f'<eb:SyncReply {_BLOCK} SOAP:actor="http://schemas.xmlsoap.org/soap/actor/next"/>'

SIGNATURE = (
    '<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:SignedInfo/>'
    "<ds:SignatureValue>AAAA</ds:SignatureValue></ds:Signature>"
)


def ack_requested(actor: str = TO_PARTY_MSH) -> str:
    return f'<eb:AckRequested {_BLOCK} SOAP:actor="{actor}" eb:signed="false"/>'


def message_order(number: int, status: str = "Continue") -> str:
    inner = f'<eb:SequenceNumber eb:status="{status}">{number}</eb:SequenceNumber>'
    return f"<eb:MessageOrder {_BLOCK}>{inner}</eb:MessageOrder>"


def _new_id() -> str:
    return f"{uuid.uuid4()}@peer.example"


@dataclass(frozen=True)
class Outgoing:
    """A message. `payloads` are (content id, content type, bytes); without any it is one entity."""

    from_party: str = "222222222"
    to_party: str = "111111111"
    party_type: str = "DUNS"
    from_role: str = ""
    to_role: str = ""
    cpa_id: str = "cpa-1"
    conversation_id: str = "conversation-1"
    service: str = "urn:example:orders"
    service_type: str = ""
    action: str = "Order"
    message_id: str = field(default_factory=_new_id)
    timestamp: str = "2026-11-22T12:00:00Z"
    ref_to_message_id: str = ""
    time_to_live: str = ""
    eliminates: bool = True
    ack_requested: str = field(default_factory=ack_requested)
    extra: str = ""
    body_blocks: str = ""
    payloads: tuple[tuple[str, str, bytes], ...] = (("order@peer", "text/xml", b"<order/>"),)
    references: tuple[str, ...] | None = None
    boundary: str = "peer-boundary"

    def but(self, **fields: Any) -> Self:
        return replace(self, **fields)

    @property
    def content_type(self) -> str:
        if not self.payloads:
            return 'text/xml; charset="UTF-8"'
        return (
            f'multipart/related; type="text/xml"; boundary="{self.boundary}";'
            ' start="<envelope@peer>"'
        )

    @property
    def body(self) -> bytes:
        if not self.payloads:
            return self.envelope.encode()
        parts = [("envelope@peer", "text/xml; charset=UTF-8", self.envelope.encode())]
        lines = b"".join(
            f"--{self.boundary}\r\nContent-ID: <{name}>\r\nContent-Type: {kind}\r\n\r\n".encode()
            + content
            + b"\r\n"
            for name, kind, content in (*parts, *self.payloads)
        )
        return lines + f"--{self.boundary}--\r\n".encode()

    @property
    def envelope(self) -> str:
        return (
            f'<SOAP:Envelope xmlns:SOAP="{SOAP}" xmlns:eb="{EB}" xmlns:xlink="{XLINK}">'
            f"<SOAP:Header>{self._header}{self.ack_requested}{self.extra}</SOAP:Header>"
            f"<SOAP:Body>{self._manifest}{self.body_blocks}</SOAP:Body></SOAP:Envelope>"
        )

    @property
    def _header(self) -> str:
        kind = f' eb:type="{self.service_type}"' if self.service_type else ""
        return "".join(
            (
                f"<eb:MessageHeader {_BLOCK}>",
                self._party("From", self.from_party, self.from_role),
                self._party("To", self.to_party, self.to_role),
                _element("CPAId", self.cpa_id),
                _element("ConversationId", self.conversation_id),
                f"<eb:Service{kind}>{escape(self.service)}</eb:Service>",
                _element("Action", self.action),
                "<eb:MessageData>",
                _element("MessageId", self.message_id),
                _element("Timestamp", self.timestamp),
                _element("RefToMessageId", self.ref_to_message_id),
                _element("TimeToLive", self.time_to_live),
                "</eb:MessageData>",
                "<eb:DuplicateElimination/>" if self.eliminates else "",
                "</eb:MessageHeader>",
            )
        )

    def _party(self, name: str, value: str, role: str) -> str:
        kind = f' eb:type="{self.party_type}"' if self.party_type else ""
        party_id = f"<eb:PartyId{kind}>{escape(value)}</eb:PartyId>"
        return f"<eb:{name}>{party_id}{_element('Role', role)}</eb:{name}>"

    @property
    def _manifest(self) -> str:
        named = [f"cid:{name}" for name, _, _ in self.payloads]
        hrefs = named if self.references is None else self.references
        if not hrefs:
            return ""
        inner = "".join(
            f'<eb:Reference xlink:type="simple" xlink:href="{href}"/>' for href in hrefs
        )
        return f'<eb:Manifest eb:version="2.0">{inner}</eb:Manifest>'


def _element(name: str, text: str) -> str:
    return f"<eb:{name}>{escape(text)}</eb:{name}>" if text else ""


def message(**fields: Any) -> Outgoing:
    return Outgoing(**fields)


def _signal(action: str, of: str, **fields: Any) -> Outgoing:
    bare: dict[str, Any] = {"eliminates": False, "ack_requested": "", "payloads": ()}
    about = {"service": SERVICE, "action": action, "ref_to_message_id": of}
    return Outgoing(**{**bare, **about, **fields})


def acknowledgment_block(of: str, actor: str = TO_PARTY_MSH) -> str:
    inner = f"{_element('Timestamp', '2026-11-22T12:00:01Z')}{_element('RefToMessageId', of)}"
    return f'<eb:Acknowledgment {_BLOCK} SOAP:actor="{actor}">{inner}</eb:Acknowledgment>'


def acknowledgment(of: str, **fields: Any) -> Outgoing:
    return _signal("Acknowledgment", of, extra=acknowledgment_block(of), **fields)


def error_list(
    code: str = "Inconsistent",
    severity: str = "Error",
    description: str = "",
    location: str = "",
) -> str:
    where = f' eb:location="{location}"' if location else ""
    head = f'eb:errorCode="{code}" eb:severity="{severity}"{where}'
    said = f'<eb:Description xml:lang="en">{escape(description)}</eb:Description>'
    error = f"<eb:Error {head}>{said if description else ''}</eb:Error>"
    return f'<eb:ErrorList {_BLOCK} eb:highestSeverity="{severity}">{error}</eb:ErrorList>'


def message_error(of: str, code: str = "Inconsistent", **fields: Any) -> Outgoing:
    return _signal("MessageError", of, extra=error_list(code), **fields)


def ping(**fields: Any) -> Outgoing:
    return _signal("Ping", "", **fields)


def status_request(of: str, **fields: Any) -> Outgoing:
    block = (
        f'<eb:StatusRequest eb:version="2.0">{_element("RefToMessageId", of)}</eb:StatusRequest>'
    )
    return _signal("StatusRequest", "", body_blocks=block, **fields)


def pong(of: str, **fields: Any) -> Outgoing:
    return _signal("Pong", of, **fields)


def status_response(of: str, about: str, code: str, at: str = "", **fields: Any) -> Outgoing:
    inner = _element("RefToMessageId", about) + _element("Timestamp", at)
    head = f'eb:version="2.0" eb:messageStatus="{code}"'
    block = f"<eb:StatusResponse {head}>{inner}</eb:StatusResponse>"
    return _signal("StatusResponse", of, body_blocks=block, **fields)


class Envelope:
    """An envelope that came, in a request or an answer."""

    def __init__(self, document: bytes) -> None:
        self.root = ET.fromstring(document)

    def all(self, path: str) -> list[ET.Element]:
        """Elements by a path such as "eb:From/eb:PartyId", wherever it begins."""
        return self.root.findall(f".//{path}", {"eb": EB, "SOAP": SOAP})

    def text(self, path: str) -> str:
        found = self.all(path)
        return (found[0].text or "") if found else ""

    @property
    def action(self) -> str:
        return self.text("eb:Action")

    @property
    def ref_to_message_id(self) -> str:
        return self.text("eb:MessageData/eb:RefToMessageId")

    @property
    def fault_code(self) -> str:
        return self.text("faultcode").rpartition(":")[2]

    @property
    def errors(self) -> list[tuple[str, str]]:
        """Code and location of each."""
        return [
            (one.get(f"{{{EB}}}errorCode", ""), one.get(f"{{{EB}}}location", ""))
            for one in self.all("eb:Error")
        ]
