"""The only writer of state: whoever changes a message, a lane or a signal calls this."""

from .delivery import Due, delivered, delivery_failed, due_deliveries, lock_head
from .events import Handler, due_events, event_failed, event_told, lock_event
from .forward import (
    NoWayOnward,
    due_forwards,
    lock_routed,
    send_on_failed,
    sent_on,
    way_onward,
)
from .inbound import Received, accept_at_once, note_unexpected, owe_error, receive_message
from .incidents import resolve_incident
from .lanes import OPERATOR, SYSTEM, Actor, Lanes
from .outbound import end_best_effort, submitted, use_outbound_link
from .signals import SignalResult, signal_claim, signal_end
from .start import start_link
from .work import AT_ONCE, Work, find_work, no_more_work

__all__ = [
    "AT_ONCE",
    "OPERATOR",
    "SYSTEM",
    "Actor",
    "Due",
    "Handler",
    "Lanes",
    "NoWayOnward",
    "Received",
    "SignalResult",
    "Work",
    "accept_at_once",
    "delivered",
    "delivery_failed",
    "due_deliveries",
    "due_events",
    "due_forwards",
    "end_best_effort",
    "event_failed",
    "event_told",
    "find_work",
    "lock_event",
    "lock_head",
    "lock_routed",
    "no_more_work",
    "note_unexpected",
    "owe_error",
    "receive_message",
    "resolve_incident",
    "send_on_failed",
    "sent_on",
    "signal_claim",
    "signal_end",
    "start_link",
    "submitted",
    "use_outbound_link",
    "way_onward",
]
