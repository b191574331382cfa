"""Operators come in: a file per model. Everything is read-only but for the operator's verbs."""

from . import (
    agreement,
    api_token,
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
    setting_change,
    signal,
    users,
)
from .setup import partner

__all__ = [
    "agreement",
    "api_token",
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
    "partner",
    "schedules",
    "setting_change",
    "signal",
    "users",
]
