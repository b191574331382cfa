"""The one table of header fields: where each stands, how it is read, how it is written.

A section is an element and the value it holds. Its places are in the order we write; on input
names are checked, order is not (D58). All else in this dialect follows from the table.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from msh.protocol.message import Field
from msh.protocol.vocabulary import DeliverySemantics, MessageType

from . import values as form
from .values import Form

ROOT = "ebXMLHeader"
ROUTING_LIMIT = 100
"""RoutingHeaders of one message: one, and one more for each router (D21)."""


class Kind(IntEnum):
    """The kinds of headers: the more a message promises, the more fields its header must have."""

    SIGNAL = 0
    NORMAL = 1
    RELIABLE = 2

    @classmethod
    def of(cls, message_type: MessageType, semantics: DeliverySemantics) -> "Kind":
        if message_type.is_signal:
            return cls.SIGNAL
        reliable = semantics is DeliverySemantics.ONCE_AND_ONLY_ONCE
        return cls.RELIABLE if reliable else cls.NORMAL


@dataclass(frozen=True, slots=True)
class Place:
    """One field: the attribute of the value that holds it, and its path in the section.

    After `@` the path names an attribute, which the form sees to. From kind `needed_from` on
    the field may not be missing or empty; elsewhere `default` stands for what is not there.
    `also` are other names of the element that are taken on input.
    """

    attribute: str
    field: Field
    path: str
    form: Form
    needed_from: Kind | None = None
    default: Any = ""
    also: tuple[str, ...] = ()

    @property
    def element_path(self) -> tuple[str, ...]:
        return tuple(step for step in self.path.split("/") if not step.startswith("@"))


@dataclass(frozen=True, slots=True)
class Section:
    """An element, by its path below the root, and the places in it."""

    path: str
    places: tuple[Place, ...]


def _section(path: str, *places: Place) -> Section:
    return Section(path, places)


_ALWAYS, _NORMAL, _RELIABLE = Kind

HEADER = _section(
    "Header",
    Place("from_party", Field.FROM, "From/PartyId", form.PARTY, _ALWAYS),
    Place("to_party", Field.TO, "To/PartyId", form.PARTY, _ALWAYS),
    Place("tpa_id", Field.TPA_ID, "TPAInfo/TPAId", form.TEXT, _NORMAL),
    Place("conversation_id", Field.CONVERSATION_ID, "TPAInfo/ConversationId", form.TEXT, _NORMAL),
    Place(
        "service_interface",
        Field.SERVICE_INTERFACE,
        "TPAInfo/ServiceInterface",
        form.TEXT,
        _NORMAL,
    ),
    Place("action", Field.ACTION, "TPAInfo/Action", form.TEXT, _NORMAL),
    Place("message_id", Field.MESSAGE_ID, "MessageData/MessageId", form.MESSAGE_ID, _ALWAYS),
    Place(
        "timestamp",
        Field.TIMESTAMP,
        "MessageData/TimeStamp",
        form.INSTANT,
        _ALWAYS,
        also=("Timestamp",),  # D31
    ),
    Place(
        "ref_to_message_id",
        Field.REF_TO_MESSAGE_ID,
        "MessageData/RefToMessageId",
        form.MESSAGE_ID,
    ),
    Place(
        "semantics",
        Field.DELIVERY_SEMANTICS,
        "ReliableMessagingInfo/@DeliverySemantics",
        form.SEMANTICS,
        _NORMAL,  # D57
        default=DeliverySemantics.BEST_EFFORT,
    ),
)

ROUTING = _section(
    "RoutingHeader",
    Place("sender_uri", Field.SENDER_URI, "SenderURI", form.TEXT, _ALWAYS),
    Place("receiver_uri", Field.RECEIVER_URI, "ReceiverURI", form.TEXT, _ALWAYS),
    Place("error_uri", Field.ERROR_URI, "ErrorURI", form.TEXT, _ALWAYS),
    Place(
        "timestamp",
        Field.ROUTING_TIMESTAMP,
        "Timestamp",
        form.INSTANT,
        _ALWAYS,
        also=("TimeStamp",),  # D31
    ),
    Place(
        "sequence_number",
        Field.SEQUENCE_NUMBER,
        "SequenceNumber",
        form.SEQUENCE_NUMBER,
        _RELIABLE,
        default=None,
    ),
)

REFERENCE = _section(
    "Manifest/DocumentReference",
    Place("label", Field.MANIFEST, "DocumentLabel", form.PROSE),
    Place("content_id", Field.MANIFEST, "DocumentId", form.CONTENT_ID, _ALWAYS),
    Place("description", Field.MANIFEST, "DocumentDescription", form.DESCRIPTION),
)

ERROR = _section(
    "ErrorHeader/Error",
    Place("code", Field.ERROR, "ErrorCode", form.CODE),
    Place("severity", Field.ERROR, "Severity", form.SEVERITY, default=None),
    Place("min_retry_secs", Field.ERROR, "MinRetrySecs", form.SECONDS, default=None),
    Place("location", Field.ERROR, "Location", form.PROSE),
    Place("description", Field.ERROR, "Description", form.DESCRIPTION),
)

_WHOLE_ELEMENTS = {
    Field.MESSAGE: f"/{ROOT}",
    Field.MESSAGE_TYPE: f"/{ROOT}/@MessageType",
    Field.MANIFEST: f"/{ROOT}/Manifest",
    Field.ROUTING: f"/{ROOT}/RoutingHeader",
    Field.ERROR: f"/{ROOT}/ErrorHeader",
}
_LOCATIONS = {
    place.field: f"/{ROOT}/{section.path}/{place.path}"
    for section in (HEADER, ROUTING)
    for place in section.places
} | _WHOLE_ELEMENTS


def locate(field: Field) -> str:
    return _LOCATIONS[field]
