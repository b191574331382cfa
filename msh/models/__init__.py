"""What we keep. Every durable thing is a row here; `flows.advance` alone writes state."""

from .api_token import ApiToken, Scope
from .consumer import Consumer, ConsumerKind
from .delivery import Delivery
from .history import History
from .inbound import InboundMessage, InboundState
from .incident import Direction, Incident
from .link import InboundLink, OutboundLink
from .new_message import NewMessage
from .outbound import Attempt, OutboundMessage, OutboundState
from .party_event import PartyEvent
from .payload import InboundPayload, OutboundPayload
from .signal import Signal, SignalKind

__all__ = [
    "ApiToken",
    "Attempt",
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
    "NewMessage",
    "OutboundLink",
    "OutboundMessage",
    "OutboundPayload",
    "OutboundState",
    "PartyEvent",
    "Scope",
    "Signal",
    "SignalKind",
]
