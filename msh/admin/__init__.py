"""The console: pages for operators. Imported here is every module that registers a page."""

from .deliveries import delivery
from .incidents import bulk_job, incident
from .links import (
    inbound_conversation,
    inbound_link,
    maintenance,
    outbound_conversation,
    outbound_link,
)
from .messages import history, inbound_message, outbound_message, signal
from .setup import (
    agreement,
    api_token,
    channel,
    consumer,
    partner,
    schedules,
    setting_change,
    users,
    webhook,
)

__all__ = [
    "agreement",
    "api_token",
    "bulk_job",
    "channel",
    "consumer",
    "delivery",
    "history",
    "inbound_conversation",
    "inbound_link",
    "inbound_message",
    "incident",
    "maintenance",
    "outbound_conversation",
    "outbound_link",
    "outbound_message",
    "partner",
    "schedules",
    "setting_change",
    "signal",
    "users",
    "webhook",
]
