"""The tables: every durable thing is a row of one, here or in a feature. Messages, links and
deliveries are changed by `msh.store` alone; what administrators set up is saved by forms and flows
too."""

from .api_token import PERMISSIONS, ApiToken, Scope, is_machine, missing_permissions
from .applied_default import AppliedDefault
from .bulk import EVER, BulkAction, BulkItem, BulkJob, BulkState
from .consumer import Consumer, ConsumerKind
from .conversation import InboundConversation
from .delivery import Delivery
from .flight import Flight, OutboundConversation
from .history import History
from .inbound import InboundMessage, InboundState
from .incident import Direction, Incident, IncidentNote
from .link import InboundLink, OutboundLink, link_of
from .maintenance import MaintenanceWindow
from .operators.act_request import ActRequest, RequestState, place_of
from .operators.preference import Preference
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
from .payload import (
    InboundPayload,
    OutboundPayload,
    RemovedInboundPayload,
    RemovedOutboundPayload,
)
from .prune_run import PruneRun
from .saved_filter import SavedFilter
from .setting_change import SettingChange
from .signal import Signal, SignalKind
from .submitted_id import SubmittedId
from .webhook import Webhook

__all__ = [
    "EVER",
    "FLIGHTS_IN",
    "HELD",
    "PERMISSIONS",
    "SHOWN_STATES",
    "ActRequest",
    "ApiToken",
    "AppliedDefault",
    "Attempt",
    "BulkAction",
    "BulkItem",
    "BulkJob",
    "BulkState",
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
    "MaintenanceWindow",
    "OutboundConversation",
    "OutboundLink",
    "OutboundMessage",
    "OutboundPayload",
    "OutboundState",
    "PartyEvent",
    "Preference",
    "PruneRun",
    "RemovedInboundPayload",
    "RemovedOutboundPayload",
    "RequestState",
    "SavedFilter",
    "Scope",
    "SettingChange",
    "Signal",
    "SignalKind",
    "SubmittedId",
    "Webhook",
    "is_machine",
    "link_of",
    "missing_permissions",
    "place_of",
    "shown_state",
]
