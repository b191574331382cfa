"""What a step of the Sender asks for, as writes: a function for each effect, and their order."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msh.models import hot
from msh.models.link import LaneRow
from msh.protocol import effects as do
from msh.protocol.events import LaneLooked, SenderEvent, Verdict
from msh.protocol.lane import Lane

from . import relay
from .actor import Actor

if TYPE_CHECKING:
    from .lanes import Lanes


@dataclass(slots=True)
class Locked:
    """A locked lane while this transaction steps it."""

    row: LaneRow
    lane: Lane
    head: tuple[int, LaneLooked] | None
    keys: dict[str, int]
    """MessageId → row id, of every message that the steps may name."""
    relays: dict[str, int] = field(default_factory=dict)
    """MessageId → row id of the inbound message that is sent on as this one."""
    changed: bool = False
    suspended: tuple[datetime | None, str, str] = (None, "", "")


def _put_in_flight(
    lanes: "Lanes", locked: Locked, effect: do.PutInFlight, event: SenderEvent, actor: Actor
) -> None:
    terms = json.dumps(asdict(effect.terms))
    key = locked.keys[effect.message_id]
    lanes.add(hot.PUT_IN_FLIGHT, (effect.sequence_number, effect.epoch, terms, key))
    lanes.record(
        locked.row.partner_id,
        effect.message_id,
        "PutInFlight",
        "queued",
        "in_flight",
        f"number {effect.sequence_number}",
    )


def _transmit(
    lanes: "Lanes", locked: Locked, effect: Any, event: SenderEvent, actor: Actor
) -> None:
    lanes.transmits = True


def _complete(
    lanes: "Lanes", locked: Locked, effect: do.Complete, event: SenderEvent, actor: Actor
) -> None:
    message_id = effect.message_id
    lanes.add(hot.COMPLETE_MESSAGE, ("acknowledged", lanes.now, locked.keys[message_id]))
    name = type(event).__name__
    lanes.record(locked.row.partner_id, message_id, name, "in_flight", "acknowledged")
    _tell_origin(lanes, locked, message_id, relay.OWE_WITHHELD_ACK)


def _tell_origin(
    lanes: "Lanes", locked: Locked, message_id: str, statement: str, *detail: str
) -> None:
    """Owe the MSH that a message came from what it waits for, if it does (D20)."""
    if message_id in locked.relays:
        lanes.add(statement, (locked.relays[message_id], lanes.now, *detail))
        lanes.transmits = True


def _cancel(
    lanes: "Lanes", locked: Locked, effect: do.Cancel, event: SenderEvent, actor: Actor
) -> None:
    key = locked.keys[effect.message_id]
    lanes.add(hot.CANCEL_MESSAGE, (lanes.now, effect.verdict, effect.free_number, key))
    partner_id = locked.row.partner_id
    lanes.record(
        partner_id,
        effect.message_id,
        "MessageCancelled",
        "in_flight",
        "cancelled",
        f"outcome {effect.verdict}",
        actor,
    )
    if effect.verdict is not Verdict.RECEIVED:
        text = f"cancelled by the operator of the router, outcome {effect.verdict}"
        _tell_origin(lanes, locked, effect.message_id, relay.OWE_DELIVERY_FAILURE, text)
    else:
        _tell_origin(lanes, locked, effect.message_id, relay.OWE_WITHHELD_ACK)


def _requeue(
    lanes: "Lanes", locked: Locked, effect: do.Requeue, event: SenderEvent, actor: Actor
) -> None:
    key, partner_id = locked.keys[effect.message_id], locked.row.partner_id
    lanes.add(hot.REQUEUE_MESSAGE, (key,))
    name = type(event).__name__
    lanes.record(partner_id, effect.message_id, name, "in_flight", "queued", actor=actor)


def _rewind(
    lanes: "Lanes", locked: Locked, effect: do.Rewind, event: SenderEvent, actor: Actor
) -> None:
    after = (locked.row.id, effect.last.epoch, effect.last.sequence_number)
    who = (lanes.now, actor.name, locked.row.partner_id, actor.reason)
    lanes.add(hot.REWIND_MESSAGES, (*after, *who))


def _late_verdict(
    lanes: "Lanes", locked: Locked, effect: do.RecordLateVerdict, event: SenderEvent, actor: Actor
) -> None:
    partner_id, message_id = locked.row.partner_id, effect.message_id
    lanes.add(hot.RECORD_LATE_VERDICT, (locked.keys[message_id],))
    text = "acknowledged after it was cancelled: received"
    lanes.add(hot.NOTE_ON_INCIDENTS, (f"; {text}", partner_id, message_id))
    lanes.record(partner_id, message_id, type(event).__name__, "cancelled", detail=text)
    _tell_origin(lanes, locked, effect.message_id, relay.OWE_WITHHELD_ACK)


def _open_incident(
    lanes: "Lanes", locked: Locked, effect: do.OpenIncident, event: SenderEvent, actor: Actor
) -> None:
    partner_id = locked.row.partner_id
    what = (partner_id, "out", effect.kind, effect.message_id, effect.detail)
    lanes.add(hot.OPEN_INCIDENT, (*what, lanes.now, lanes.now))
    name = type(event).__name__
    detail = f"{effect.kind}: {effect.detail}"
    lanes.record(partner_id, effect.message_id, name, detail=detail, counts=True)
    if effect.kind in relay.REFUSED_ONWARD:
        _tell_origin(
            lanes,
            locked,
            effect.message_id,
            relay.OWE_DELIVERY_FAILURE,
            f"refused: {effect.detail}",
        )


def _resolve(
    lanes: "Lanes", locked: Locked, effect: do.ResolveIncidents, event: SenderEvent, actor: Actor
) -> None:
    who = (lanes.now, actor.name, actor.reason, locked.row.partner_id)
    lanes.add(hot.RESOLVE_INCIDENTS, who)


def _notify(
    lanes: "Lanes", locked: Locked, effect: do.NotifyFromParty, event: SenderEvent, actor: Actor
) -> None:
    if effect.message_id in locked.relays:
        return  # its From-Party is no application of ours
    lanes.notifies = True
    key = locked.keys[effect.message_id]
    lanes.add(hot.NOTIFY_FROM_PARTY, (key, effect.kind, effect.detail, lanes.now, lanes.now))


def _note(
    lanes: "Lanes", locked: Locked, effect: do.Note, event: SenderEvent, actor: Actor
) -> None:
    name = type(event).__name__
    partner_id = locked.row.partner_id
    lanes.record(partner_id, effect.message_id, name, detail=effect.detail, counts=True)


def _count_duplicate_ack(
    lanes: "Lanes", locked: Locked, effect: do.CountDuplicateAck, event: SenderEvent, actor: Actor
) -> None:
    if effect.message_id in locked.keys:
        lanes.add(hot.COUNT_DUPLICATE_ACK, (locked.keys[effect.message_id],))


def _look(lanes: "Lanes", locked: Locked, effect: Any, event: SenderEvent, actor: Actor) -> None:
    lanes.look(locked.row.partner_id)


EFFECTS: dict[type, Callable[["Lanes", Locked, Any, SenderEvent, Actor], None]] = {
    do.PutInFlight: _put_in_flight,
    do.Transmit: _transmit,
    do.Complete: _complete,
    do.Cancel: _cancel,
    do.Requeue: _requeue,
    do.Rewind: _rewind,
    do.RecordLateVerdict: _late_verdict,
    do.OpenIncident: _open_incident,
    do.ResolveIncidents: _resolve,
    do.NotifyFromParty: _notify,
    do.Note: _note,
    do.CountDuplicateAck: _count_duplicate_ack,
    do.LookAtLane: _look,
}

# A message must have its number before the lane may point at it, and messages come before events.
ORDER = [
    hot.LEASE_BEST_EFFORT,
    hot.COMPLETE_MESSAGE,
    hot.CANCEL_MESSAGE,
    hot.RECORD_LATE_VERDICT,
    hot.NOTE_ON_INCIDENTS,
    hot.COUNT_DUPLICATE_ACK,
    hot.PUT_IN_FLIGHT,
    hot.COMPOSE_MESSAGE,
    hot.WRITE_LANE,
    hot.REQUEUE_MESSAGE,
    hot.REWIND_MESSAGES,
    hot.CLAIM_ATTEMPT,
    hot.END_ATTEMPT,
    hot.OPEN_INCIDENT,
    hot.RESOLVE_INCIDENTS,
    hot.NOTIFY_FROM_PARTY,
    hot.CLAIM_SIGNAL,
    hot.SIGNAL_CARRIED,
    hot.SIGNAL_FAILED,
    hot.SIGNAL_REFUSED,
    relay.OWE_WITHHELD_ACK,
    relay.OWE_DELIVERY_FAILURE,
    hot.WRITE_HISTORY,
    hot.COUNT_HISTORY,
]
