"""A message as values: what every wire dialect composes from and parses to."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .vocabulary import DeliverySemantics, ErrorCode, MessageType, Severity

MESSAGE_ID_LIMIT = 255  # D44
IDENTITY_BYTES = 16
"""Bytes of each half of a `content_digest`: the digest of the header's identifying fields, and of
the payloads."""


class Field(StrEnum):
    """Header fields that an Error can point at. A wire dialect knows where each is in the
    document."""

    MESSAGE = "message"
    MESSAGE_TYPE = "message_type"
    MANIFEST = "manifest"
    FROM = "from_party"
    TO = "to_party"
    TPA_ID = "tpa_id"
    CONVERSATION_ID = "conversation_id"
    SERVICE_INTERFACE = "service_interface"
    ACTION = "action"
    MESSAGE_ID = "message_id"
    TIMESTAMP = "timestamp"
    REF_TO_MESSAGE_ID = "ref_to_message_id"
    DELIVERY_SEMANTICS = "semantics"
    ROUTING = "routing"
    SENDER_URI = "sender_uri"
    RECEIVER_URI = "receiver_uri"
    ERROR_URI = "error_uri"
    ROUTING_TIMESTAMP = "routing_timestamp"
    SEQUENCE_NUMBER = "sequence_number"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Party:
    """The content of From or To: a PartyId and its context, the kind of identifier ("DUNS", "URI",
    or nothing)."""

    party_id: str
    context: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """One RoutingHeader. `sequence_number` is None unless OnceAndOnlyOnce (D31)."""

    sender_uri: str
    receiver_uri: str
    error_uri: str
    timestamp: datetime
    sequence_number: int | None = None


@dataclass(frozen=True, slots=True)
class DocumentReference:
    """One entry of the Manifest: names a payload part by its content id."""

    content_id: str
    label: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The content of an Error Message. `min_retry_secs` in seconds, None if absent or unusable
    (D54)."""

    code: ErrorCode
    severity: Severity
    location: str = ""
    description: str = ""
    min_retry_secs: int | None = None
    code_text: str = ""
    """The code as it stood on the wire, where it was not one of ours."""
    code_context: str = ""
    """The list that the code is from, if the partner names another one than that of its dialect."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a Normal message, an Acknowledgement or an Error."""

    message_type: MessageType
    from_party: Party
    to_party: Party
    tpa_id: str
    conversation_id: str
    service_interface: str
    action: str
    message_id: str
    timestamp: datetime
    semantics: DeliverySemantics
    routing: tuple[Route, ...]
    ref_to_message_id: str = ""
    manifest: tuple[DocumentReference, ...] = ()
    error: ErrorReport | None = None

    @property
    def route(self) -> Route:
        """The RoutingHeader that governs this hop: the last (D21)."""
        return self.routing[-1]

    @property
    def reliable(self) -> bool:
        return self.semantics is DeliverySemantics.ONCE_AND_ONLY_ONCE


@dataclass(frozen=True, slots=True)
class Payload:
    """One payload: decoded bytes, any type. `content_id` without angle brackets or `cid:`."""

    content: bytes
    content_type: str = "application/xml"
    content_id: str = ""
    label: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class PartialHeader:
    """The readable part of the header of a refused message (D52). Fields that cannot be read are
    empty."""

    message_type: MessageType | None = None
    message_id: str = ""
    tpa_id: str = ""
    conversation_id: str = ""
    sender_uri: str = ""
    receiver_uri: str = ""
    sequence_text: str = ""
