"""What the peer makes of a message, by its own code."""

import email.message
import email.parser
import email.policy
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import cached_property


class NotAMessage(ValueError):
    """The bytes are not an ebXML message."""


@dataclass(frozen=True)
class Part:
    """One part of the package, its content decoded."""

    headers: email.message.Message
    raw: bytes

    @property
    def content_id(self) -> str:
        return (self.headers["Content-ID"] or "").strip().removeprefix("<").removesuffix(">")

    @property
    def content_type(self) -> str:
        return str(self.headers["Content-Type"] or "")

    @property
    def content(self) -> bytes:
        encoding = (self.headers["Content-Transfer-Encoding"] or "binary").strip().lower()
        if encoding in {"7bit", "8bit", "binary"}:
            return self.raw
        carrier = email.message.Message()
        carrier["Content-Transfer-Encoding"] = encoding
        carrier.set_payload(self.raw.decode("ascii"))
        decoded = carrier.get_payload(decode=True)
        assert isinstance(decoded, bytes)
        return decoded


class Message:
    """A message read from its Content-Type and bytes. Texts are as they stand, not stripped."""

    def __init__(self, content_type: str, body: bytes) -> None:
        self.content_type = content_type
        self.body = body
        self.parts = _parts(content_type, body)

    @cached_property
    def root(self) -> ET.Element:
        """The ebXMLHeader."""
        try:
            return ET.fromstring(self.header_document)
        except ET.ParseError as problem:
            raise NotAMessage(str(problem)) from problem

    @property
    def header_document(self) -> bytes:
        return self.parts[0].content

    @property
    def payloads(self) -> list[bytes]:
        return [part.content for part in self.parts[1:]]

    def find(self, path: str) -> ET.Element | None:
        """The first element at a path of local names, such as "Header/From/PartyId"."""
        return next(iter(self.find_all(path)), None)

    def find_all(self, path: str) -> list[ET.Element]:
        found = [self.root]
        for name in path.split("/"):
            found = [child for parent in found for child in parent if local_name(child) == name]
        return found

    def text(self, path: str) -> str | None:
        """The text there: "" for an empty element, None if there is no such element."""
        element = self.find(path)
        return None if element is None else element.text or ""

    def of_hop(self, name: str) -> str | None:
        """As `text`, of the last RoutingHeader: that of the hop by which it came."""
        last = self.find_all("RoutingHeader")[-1:]
        found = [child for element in last for child in element if local_name(child) == name]
        return found[0].text or "" if found else None

    @property
    def message_type(self) -> str:
        return self.root.get("MessageType", "")

    @property
    def message_id(self) -> str:
        return self.text("Header/MessageData/MessageId") or ""

    @property
    def ref_to_message_id(self) -> str:
        return self.text("Header/MessageData/RefToMessageId") or ""

    @property
    def tpa_id(self) -> str:
        return self.text("Header/TPAInfo/TPAId") or ""

    @property
    def conversation_id(self) -> str:
        return self.text("Header/TPAInfo/ConversationId") or ""

    @property
    def action(self) -> str:
        return self.text("Header/TPAInfo/Action") or ""

    @property
    def from_party(self) -> str:
        return self.text("Header/From/PartyId") or ""

    @property
    def to_party(self) -> str:
        return self.text("Header/To/PartyId") or ""

    @property
    def semantics(self) -> str:
        info = self.find("Header/ReliableMessagingInfo")
        return "" if info is None else info.get("DeliverySemantics", "")

    @property
    def sender_uri(self) -> str:
        return self.of_hop("SenderURI") or ""

    @property
    def receiver_uri(self) -> str:
        return self.of_hop("ReceiverURI") or ""

    @property
    def sequence_number(self) -> int | None:
        text = self.of_hop("SequenceNumber")
        return None if text is None else int(text)

    @property
    def error_code(self) -> str:
        return self.text("ErrorHeader/Error/ErrorCode") or ""

    def outline(self) -> list[str]:
        """Local names of the header's elements in document order, with their depth as dots."""
        return _outline(self.root, 0)


def local_name(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _outline(element: ET.Element, depth: int) -> list[str]:
    lines = ["." * depth + local_name(element)]
    for child in element:
        lines += _outline(child, depth + 1)
    return lines


def _parts(content_type: str, body: bytes) -> list[Part]:
    head = _headers(b"Content-Type: " + content_type.encode("latin-1") + b"\r\n\r\n")
    if head.get_content_maintype() != "multipart":
        return [Part(head, body)]
    boundary = head.get_param("boundary")
    if not isinstance(boundary, str):
        raise NotAMessage(f"no boundary in {content_type!r}")
    delimiter = b"\r\n--" + boundary.encode("latin-1")
    _, *pieces = (b"\r\n" + body).split(delimiter)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise NotAMessage("the package is not closed by its boundary")
    return [_part(piece) for piece in pieces[:-1]]


def _part(piece: bytes) -> Part:
    head, separator, content = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
    if not separator:
        raise NotAMessage("a part has no end of its headers")
    return Part(_headers(head + separator), content)


def _headers(head: bytes) -> email.message.Message:
    return email.parser.BytesParser(policy=email.policy.compat32).parsebytes(head, headersonly=True)
