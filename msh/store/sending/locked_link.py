"""A link while a transaction holds it: made of its row, and what is written of it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from msh.models.link import lane_of, terms_of
from msh.protocol.events import LanePolled, Numbered
from msh.protocol.lane import Lane
from msh.protocol.reason import Reason

from . import link_sql
from .link_sql import LinkRow


class Suspension(NamedTuple):
    """A suspension of a link: since when, for what, and why in words and as a Reason."""

    since: datetime | None
    kind: str
    detail: str
    reason: str


NOT_SUSPENDED = Suspension(None, "", "", Reason.NONE)


@dataclass(slots=True)
class Locked:
    """A locked link while this transaction steps it."""

    row: LinkRow
    lane: Lane
    head: tuple[int, LanePolled] | None
    """Row id and event of the head of the queue."""
    keys: dict[str, int]
    """MessageId → row id, of every message that the steps may name."""
    forwards: dict[str, int] = field(default_factory=dict)
    """MessageId → row id of the inbound message that is forwarded as this one."""
    changed: bool = False
    suspended: Suspension = NOT_SUSPENDED


def locked_of(row: LinkRow) -> Locked:
    lane = lane_of(row, row if row.in_flight_id else None)
    keys, forwards = {}, {}
    if row.in_flight_id and row.message_id:
        keys[row.message_id] = row.in_flight_id
        if row.forwards_id:
            forwards[row.message_id] = row.forwards_id
    head = (row.head_id, _poll_of(row)) if row.head_id else None
    return Locked(row, lane, head, keys, forwards, suspended=suspension_of(row))


def suspension_of(row: LinkRow) -> Suspension:
    return Suspension(
        row.suspended_since, row.suspended_for, row.suspended_detail, row.suspended_reason
    )


def _poll_of(row: LinkRow) -> LanePolled:
    """Return the event of the head of the queue; one that has a number is rewound and keeps it."""
    number, epoch = row.head_sequence_number, row.head_epoch
    again = None if number is None or epoch is None else Numbered(number, epoch)
    return LanePolled(row.head_message_id, terms_of(row), again, row.head_earlier_attempts or 0)


def link_state(locked: Locked) -> link_sql.LinkState:
    lane, flying = locked.lane, locked.lane.in_flight
    suspended = locked.suspended
    return link_sql.LinkState(
        link_id=locked.row.id,
        state=lane.state,
        next_number=lane.next_number,
        epoch=lane.epoch,
        in_flight_id=locked.keys[flying.message_id] if flying else None,
        due=lane.due,
        unsent=lane.unsent,
        promised=lane.promised,
        attempt=flying.attempt if flying else 0,
        retries_spent=flying.retries_spent if flying else 0,
        transients=flying.transients if flying else 0,
        transient_since=flying.transient_since if flying else None,
        late_ack=lane.late_ack,
        suspended_since=suspended.since,
        suspended_for=suspended.kind,
        suspended_detail=suspended.detail,
        suspended_reason=suspended.reason,
    )
