"""Operators come in: a file per model. Everything is read-only but for the operator's verbs."""

from . import (
    agreement,
    bulk,
    consumer,
    delivery,
    history,
    inbound_link,
    inbound_message,
    incident,
    notice,
    outbound_link,
    outbound_message,
    schedules,
    signal,
    users,
)

__all__ = [
    "agreement",
    "bulk",
    "consumer",
    "delivery",
    "history",
    "inbound_link",
    "inbound_message",
    "incident",
    "notice",
    "outbound_link",
    "outbound_message",
    "schedules",
    "signal",
    "users",
]
