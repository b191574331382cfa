"""May a new message be stored now? If not, its Sender is told to wait (000 §4.2).

Asked only of a message that would be accepted: a known MessageId is acknowledged again whatever
is short here, and a number out of turn stays an Error (docs/spec/tables.md, Signals).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

RATE_WINDOW = timedelta(minutes=1)  # a partner's limit of messages is one for each minute


class Shortage(StrEnum):
    """The resource that is short."""

    STORE = "store"
    """The disk or the database is nearly full, or cannot be written."""
    BACKLOG = "backlog"
    """The consumer does not keep up: too many messages, or bytes, wait for it."""
    RATE = "rate"
    """The partner sends faster than was agreed."""


_WAITS = {Shortage.STORE: 60, Shortage.BACKLOG: 30}
"""Seconds that the Sender is asked to wait. For RATE they are known to the second."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what we store for a partner. 0: no limit. `rate` in reliable messages a minute."""

    rate: int = 0
    undelivered_messages: int = 0
    undelivered_bytes: int = 0

    @property
    def any(self) -> bool:
        return bool(self.rate or self.undelivered_messages or self.undelivered_bytes)


@dataclass(frozen=True, slots=True)
class Usage:
    """What we store of a partner now. `rate_reached_at`: when the message was accepted that stands
    `rate` messages before this one, None if there is none."""

    undelivered_messages: int = 0
    undelivered_bytes: int = 0
    rate_reached_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Postponed:
    """The refusal of a message that may be sent again later. `wait` in whole seconds, at least 1;
    `text` is a sentence for the partner."""

    shortage: Shortage
    wait: int
    text: str


def store_short(text: str) -> Postponed:
    return Postponed(Shortage.STORE, _WAITS[Shortage.STORE], text)


def admission(limits: Limits, usage: Usage, now: datetime) -> Postponed | None:
    """Return None if one more message of the partner may be stored now, else when it may be sent
    again."""
    wait = _WAITS[Shortage.BACKLOG]
    if 0 < limits.undelivered_messages <= usage.undelivered_messages:
        text = (
            f"{usage.undelivered_messages} messages are waiting for their consumer; send this later"
        )
        return Postponed(Shortage.BACKLOG, wait, text)
    if 0 < limits.undelivered_bytes <= usage.undelivered_bytes:
        text = f"{usage.undelivered_bytes} bytes are waiting for their consumer; send this later"
        return Postponed(Shortage.BACKLOG, wait, text)
    if limits.rate and usage.rate_reached_at is not None:
        left = (usage.rate_reached_at + RATE_WINDOW - now).total_seconds()
        if left > 0:
            text = (
                f"more than {limits.rate} messages in a minute, the agreed limit; send this later"
            )
            seconds = min(int(left) + 1, int(RATE_WINDOW.total_seconds()))
            return Postponed(Shortage.RATE, seconds, text)
    return None
