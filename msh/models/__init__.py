"""What we keep. Every durable thing is a row here; only `msh.store` writes."""

from .api_token import PERMISSIONS, ApiToken, Scope, missing_permissions
from .applied_default import AppliedDefault
from .bulk import BulkAction, BulkItem, BulkJob, BulkState
from .consumer import Consumer, ConsumerKind
from .conversation import InboundConversation
from .delivery import Delivery
from .flight import Flight, OutboundConversation
from .history import History, Traffic
from .inbound import InboundMessage, InboundState
from .incident import Channel, Direction, Incident, IncidentNote, OperatorNotice
from .link import InboundLink, OutboundLink
from .outbound import (
    FLIGHTS_IN,
    HELD,
    SHOWN_STATES,
    Attempt,
    OutboundMessage,
    OutboundState,
    shown_state,
)
from .party_event import PartyEvent
from .payload import InboundPayload, OutboundPayload
from .prune_run import PruneRun
from .setting_change import SettingChange
from .signal import Signal, SignalKind

__all__ = [
    "FLIGHTS_IN",
    "HELD",
    "PERMISSIONS",
    "SHOWN_STATES",
    "ApiToken",
    "AppliedDefault",
    "Attempt",
    "BulkAction",
    "BulkItem",
    "BulkJob",
    "BulkState",
    "Channel",
    "Consumer",
    "ConsumerKind",
    "Delivery",
    "Direction",
    "Flight",
    "History",
    "InboundConversation",
    "InboundLink",
    "InboundMessage",
    "InboundPayload",
    "InboundState",
    "Incident",
    "IncidentNote",
    "OperatorNotice",
    "OutboundConversation",
    "OutboundLink",
    "OutboundMessage",
    "OutboundPayload",
    "OutboundState",
    "PartyEvent",
    "PruneRun",
    "Scope",
    "SettingChange",
    "Signal",
    "SignalKind",
    "Traffic",
    "missing_permissions",
    "shown_state",
]
