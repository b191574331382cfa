"""The only writer of state: whoever changes a message, a lane or a signal calls this."""

from .delivery import Due, delivered, delivery_failed, due_deliveries, lock_head
from .events import Handler, due_events, event_failed, event_told, lock_event
from .inbound import Received, note_unexpected, owe_error, receive_message
from .incidents import resolve_incident
from .lanes import OPERATOR, SYSTEM, Actor, Lanes
from .outbound import end_best_effort, lock_best_effort, submitted
from .signals import end_signals, lock_owed_signals
from .start import start_link

__all__ = [
    "OPERATOR",
    "SYSTEM",
    "Actor",
    "Due",
    "Handler",
    "Lanes",
    "Received",
    "delivered",
    "delivery_failed",
    "due_deliveries",
    "due_events",
    "end_best_effort",
    "end_signals",
    "event_failed",
    "event_told",
    "lock_best_effort",
    "lock_event",
    "lock_head",
    "lock_owed_signals",
    "note_unexpected",
    "owe_error",
    "receive_message",
    "resolve_incident",
    "start_link",
    "submitted",
]
