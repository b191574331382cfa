"""What each effect of the Sender's table writes: one function for each, in `EFFECTS`."""

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msh.protocol import effects as do
from msh.protocol.agreement import Terms
from msh.protocol.events import SenderEvent
from msh.protocol.kinds import Verdict
from msh.store import incidents
from msh.store.history import Actor

from . import message_sql, party_events, upstream
from .locked_link import Locked

if TYPE_CHECKING:
    from .links import OutboundLinks


@lru_cache(maxsize=1000)
def text_of(terms: Terms) -> str:
    """As they are stored with a message in flight."""
    return json.dumps(asdict(terms))


def _put_in_flight(
    links: "OutboundLinks", locked: Locked, effect: do.PutInFlight, event: SenderEvent, actor: Actor
) -> None:
    links.add(
        message_sql.PUT_IN_FLIGHT(
            key=locked.keys[effect.message_id],
            sequence_number=effect.sequence_number,
            epoch=effect.epoch,
            terms=text_of(effect.terms),
        )
    )
    links.record(
        locked.row.partner_id,
        effect.message_id,
        "PutInFlight",
        ("queued", "in_flight"),
        f"number {effect.sequence_number}",
    )


def _transmit(
    links: "OutboundLinks", locked: Locked, effect: do.Transmit, event: SenderEvent, actor: Actor
) -> None:
    links.transmits.add(locked.row.partner_id)


def _complete(
    links: "OutboundLinks", locked: Locked, effect: do.Complete, event: SenderEvent, actor: Actor
) -> None:
    message_id = effect.message_id
    key = locked.keys[message_id]
    links.add(message_sql.COMPLETE(key=key, state="acknowledged", at=links.now))
    name = type(event).__name__
    links.record(locked.row.partner_id, message_id, name, ("in_flight", "acknowledged"))
    _queue_withheld_ack(links, locked, message_id)


def _queue_withheld_ack(links: "OutboundLinks", locked: Locked, message_id: str) -> None:
    if message_id in locked.forwards:
        links.add(upstream.queue_withheld_ack(locked.forwards[message_id], links.now))
        links.has_signals = True


def _queue_delivery_failure(
    links: "OutboundLinks", locked: Locked, message_id: str, why: str
) -> None:
    if message_id in locked.forwards:
        links.add(upstream.queue_delivery_failure(locked.forwards[message_id], links.now, why))
        links.has_signals = True


def _cancel(
    links: "OutboundLinks", locked: Locked, effect: do.Cancel, event: SenderEvent, actor: Actor
) -> None:
    links.add(
        message_sql.CANCEL(
            key=locked.keys[effect.message_id],
            at=links.now,
            outcome=effect.verdict,
            free_number=effect.free_number,
        )
    )
    links.record(
        locked.row.partner_id,
        effect.message_id,
        "MessageCancelled",
        ("in_flight", "cancelled"),
        f"outcome {effect.verdict}",
        actor,
    )
    if effect.verdict is Verdict.RECEIVED:
        _queue_withheld_ack(links, locked, effect.message_id)
    else:
        why = f"cancelled by the operator of the router, outcome {effect.verdict}"
        _queue_delivery_failure(links, locked, effect.message_id, why)


def _requeue(
    links: "OutboundLinks", locked: Locked, effect: do.Requeue, event: SenderEvent, actor: Actor
) -> None:
    key, partner_id = locked.keys[effect.message_id], locked.row.partner_id
    links.add(message_sql.REQUEUE(key=key))
    name = type(event).__name__
    links.record(partner_id, effect.message_id, name, ("in_flight", "queued"), actor=actor)


def _rewind(
    links: "OutboundLinks", locked: Locked, effect: do.Rewind, event: SenderEvent, actor: Actor
) -> None:
    links.add(
        message_sql.REWIND(
            link_id=locked.row.id,
            epoch=effect.last.epoch,
            sequence_number=effect.last.sequence_number,
            at=links.now,
            actor=actor.name,
            partner_id=locked.row.partner_id,
            reason=actor.reason,
        )
    )


def _record_late_verdict(
    links: "OutboundLinks",
    locked: Locked,
    effect: do.RecordLateVerdict,
    event: SenderEvent,
    actor: Actor,
) -> None:
    partner_id, message_id = locked.row.partner_id, effect.message_id
    text = "acknowledged after it was cancelled: received"
    links.add(message_sql.RECORD_LATE_VERDICT(key=locked.keys[message_id]))
    links.add(
        incidents.APPEND_TO_DETAIL(text=f"; {text}", partner_id=partner_id, message_id=message_id)
    )
    name = type(event).__name__
    links.record(partner_id, message_id, name, ("cancelled", ""), detail=text)
    _queue_withheld_ack(links, locked, message_id)


def _explain_suspension(
    links: "OutboundLinks",
    locked: Locked,
    effect: do.ExplainSuspension,
    event: SenderEvent,
    actor: Actor,
) -> None:
    explained = locked.suspended._replace(detail=effect.detail, reason=effect.reason)
    locked.suspended, locked.changed = explained, True
    links.add(
        incidents.EXPLAIN(
            text=effect.detail,
            reason=effect.reason,
            partner_id=locked.row.partner_id,
            message_id=effect.message_id,
        )
    )


def _open_incident(
    links: "OutboundLinks",
    locked: Locked,
    effect: do.OpenIncident,
    event: SenderEvent,
    actor: Actor,
) -> None:
    partner_id, message_id = locked.row.partner_id, effect.message_id
    new = incidents.NewIncident(
        partner_id, "out", effect.kind, message_id, effect.detail, links.now, reason=effect.reason
    )
    links.add(incidents.open_incident(new))
    name = type(event).__name__
    links.record(partner_id, message_id, name, detail=effect.detail, code=effect.kind, counts=True)
    if effect.kind in upstream.REFUSED_BY_NEXT_HOP:
        _queue_delivery_failure(links, locked, message_id, f"refused: {effect.detail}")


def _resolve_incidents(
    links: "OutboundLinks",
    locked: Locked,
    effect: do.ResolveIncidents,
    event: SenderEvent,
    actor: Actor,
) -> None:
    links.add(
        incidents.RESOLVE_OUTBOUND(
            partner_id=locked.row.partner_id,
            at=links.now,
            actor=actor.name,
            resolution=actor.reason,
        )
    )


def _notify_from_party(
    links: "OutboundLinks",
    locked: Locked,
    effect: do.NotifyFromParty,
    event: SenderEvent,
    actor: Actor,
) -> None:
    if effect.message_id in locked.forwards:
        return  # its From-Party is no application of ours
    links.notifies = True
    key = locked.keys[effect.message_id]
    links.add(party_events.insert_event(key, effect.kind, effect.detail, links.now))


def _note(
    links: "OutboundLinks", locked: Locked, effect: do.Note, event: SenderEvent, actor: Actor
) -> None:
    name = type(event).__name__
    partner_id = locked.row.partner_id
    links.record(
        partner_id, effect.message_id, name, detail=effect.detail, code=effect.code, counts=True
    )


def _count_duplicate_ack(
    links: "OutboundLinks",
    locked: Locked,
    effect: do.CountDuplicateAck,
    event: SenderEvent,
    actor: Actor,
) -> None:
    if effect.message_id in locked.keys:
        links.add(message_sql.COUNT_DUPLICATE_ACK(key=locked.keys[effect.message_id]))


def _start_next(
    links: "OutboundLinks", locked: Locked, effect: object, event: SenderEvent, actor: Actor
) -> None:
    links.start_next(locked.row.partner_id)


EFFECTS: dict[type, Callable[["OutboundLinks", Locked, Any, SenderEvent, Actor], None]] = {
    do.PutInFlight: _put_in_flight,
    do.Transmit: _transmit,
    do.Complete: _complete,
    do.Cancel: _cancel,
    do.Requeue: _requeue,
    do.Rewind: _rewind,
    do.RecordLateVerdict: _record_late_verdict,
    do.OpenIncident: _open_incident,
    do.ResolveIncidents: _resolve_incidents,
    do.ExplainSuspension: _explain_suspension,
    do.NotifyFromParty: _notify_from_party,
    do.Note: _note,
    do.CountDuplicateAck: _count_duplicate_ack,
    do.PollLane: _start_next,
}
