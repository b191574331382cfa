"""What the cells of the table share: the type of their results, how a lane is suspended, and how a
message leaves it."""

from datetime import datetime

from msh.protocol import effects as do
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.protocol.lane import Lane, LaneState
from msh.protocol.reason import Reason

Outcome = tuple[Lane, tuple[do.SenderEffect, ...]]
"""The lane afterwards, and the effects that belong into its transaction."""


def stay(lane: Lane, event: object, now: datetime) -> Outcome:
    return lane, ()


def suspend(lane: Lane, kind: IncidentKind, detail: str, reason: Reason = Reason.NONE) -> Outcome:
    message_id = lane.flying.message_id
    return lane.suspends(kind), (
        do.OpenIncident(kind, message_id, detail, reason),
        do.NotifyFromParty(PartyEventKind.SUSPENDED, message_id, detail, kind),
    )


def end_flight(lane: Lane, *effects: do.SenderEffect) -> Outcome:
    """Nothing is in flight: the next message may go, unless the partner asked for a wait (D28)."""
    after = lane.ends_flight()
    if after.state is not LaneState.IDLE:
        return after, effects
    if lane.flying.probing:  # D41: the partner answers again
        effects = (*effects, do.ResolveIncidents())
    return after, (*effects, do.PollLane())


def suspend_at_transient_limit(lane: Lane) -> Outcome:
    since = f"{lane.flying.transient_since:%Y-%m-%d %H:%M:%S} UTC"
    detail = f"{lane.flying.transients} TransientErrors since {since}"
    return suspend(lane, IncidentKind.TRANSIENT_LIMIT, detail)
