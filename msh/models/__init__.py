"""What we keep. Every durable thing is a row here; `flows.advance` alone writes state."""

from .bulk import BulkItem, BulkJob, BulkState, BulkVerb
from .consumer import Consumer, ConsumerKind
from .delivery import Delivery
from .history import History
from .inbound import InboundMessage, InboundState
from .incident import Direction, Incident, IncidentNote
from .link import InboundLink, OutboundLink
from .notice import Channel, OperatorNotice
from .outbound import Attempt, OutboundMessage, OutboundState
from .party_event import PartyEvent
from .payload import InboundPayload, OutboundPayload
from .signal import Signal, SignalKind
from .traffic import Traffic

__all__ = [
    "Attempt",
    "BulkItem",
    "BulkJob",
    "BulkState",
    "BulkVerb",
    "Channel",
    "Consumer",
    "ConsumerKind",
    "Delivery",
    "Direction",
    "History",
    "InboundLink",
    "InboundMessage",
    "InboundPayload",
    "InboundState",
    "Incident",
    "IncidentNote",
    "OperatorNotice",
    "OutboundLink",
    "OutboundMessage",
    "OutboundPayload",
    "OutboundState",
    "PartyEvent",
    "Signal",
    "SignalKind",
    "Traffic",
]
