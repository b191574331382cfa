"""Everything that happened to one message, in one table."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msh.models import Attempt, Direction, History, InboundMessage, OutboundMessage, PartyEvent

from . import cells
from .tables import Table

HEADERS = ("At", "What", "State", "By", "Detail")

Entry = tuple[datetime, str, str, str, str]
"""When, what, the state after it, by whom, in which words."""


def timeline(message: OutboundMessage | InboundMessage) -> Table:
    """History, attempts and events to the From-Party, by time."""
    entries = list(_history(message))
    if isinstance(message, OutboundMessage):
        entries += _attempts(message)
        entries += _told(message)
    entries.sort(key=lambda entry: entry[0])
    return Table("Timeline", HEADERS, [_row(entry) for entry in entries], "Nothing is recorded.")


def _row(entry: Entry) -> tuple[Any, ...]:
    at, what, state, by, detail = entry
    return cells.time_of(at), what, state or cells.DASH, by, cells.verbatim(detail)


def _history(message: OutboundMessage | InboundMessage) -> Iterator[Entry]:
    outbound = isinstance(message, OutboundMessage)
    rows = History.objects.filter(
        message_id=message.message_id,
        partner=message.link.partner_id,
        direction=Direction.OUT if outbound else Direction.IN,
    )
    for row in rows:
        yield row.at, row.event, row.to_state, row.actor, row.detail


def _attempts(message: OutboundMessage) -> Iterable[Entry]:
    for attempt in Attempt.objects.filter(message=message):
        name = f"Attempt {attempt.number}"
        yield attempt.claimed_at, f"{name} begins", "", "msh", ""
        if attempt.ended_at:
            yield attempt.ended_at, f"{name} ends", attempt.outcome, "msh", attempt.detail


def _told(message: OutboundMessage) -> Iterable[Entry]:
    """What the From-Party's application was told."""
    for event in PartyEvent.objects.filter(message=message):
        if event.delivered_at:
            what = f"Application told: {event.kind}"
            yield event.delivered_at, what, "", "msh", event.detail
