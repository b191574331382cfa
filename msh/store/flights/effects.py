"""What each effect of a flight's table writes, and of a gate's: one function for each."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msh.protocol import effects as do
from msh.protocol.flight.gate import MessageUnreached
from msh.protocol.kinds import IncidentKind
from msh.protocol.reason import Reason
from msh.store import incidents
from msh.store.engine import run
from msh.store.history import SYSTEM, Actor
from msh.store.sending import message_sql, party_events

from . import flight_sql, gate_sql
from .locked_flight import LockedFlight, text_of

if TYPE_CHECKING:
    from .flights import Flights


def detail_of(effects: Iterable[object]) -> str:
    """Why, in the words of the effect that says it best."""
    for effect in effects:
        match effect:
            case do.Fail():
                return f"{effect.severity}: {effect.code}: {effect.detail}"
            case do.Cancel():
                return f"outcome {effect.verdict}"
            case do.OpenIncident():
                return effect.detail
            case do.NotifyFromParty() | do.ReportUnreachable():
                return effect.detail
    return ""


def code_of(effects: Iterable[object]) -> str:
    """Of the incident that is opened."""
    return next((effect.kind for effect in effects if isinstance(effect, do.OpenIncident)), "")


def reason_of(effects: Iterable[object]) -> Reason:
    opened = (effect.reason for effect in effects if isinstance(effect, do.OpenIncident))
    return next(opened, Reason.NONE)


def with_last_words(key: int, detail: str) -> tuple[str, Reason]:
    """What the last attempt failed with, behind a sentence that says only how often: the cause is
    what an operator needs. `key` is the row id of the message."""
    (rows,) = run(flight_sql.LAST_FAILURE(key=key))
    if not rows:
        return detail, Reason.NONE
    last = rows[0]
    return f"{detail}, the last: {last.detail}" if last.detail else detail, Reason(last.reason)


def _end(flights: "Flights", one: LockedFlight, state: str, outcome: str = "") -> None:
    terms = text_of(one.flight.terms)
    flights.add(
        flight_sql.END_MESSAGE(
            key=one.key, state=state, at=flights.now, outcome=outcome, terms=terms
        )
    )


def _complete(
    flights: "Flights", one: LockedFlight, effect: do.Complete, event: str, actor: Actor
) -> None:
    _end(flights, one, "acknowledged")


def _fail(flights: "Flights", one: LockedFlight, effect: do.Fail, event: str, actor: Actor) -> None:
    _end(flights, one, "failed")


def _cancel(
    flights: "Flights", one: LockedFlight, effect: do.Cancel, event: str, actor: Actor
) -> None:
    _end(flights, one, "cancelled", effect.verdict)


def _record_late_verdict(
    flights: "Flights", one: LockedFlight, effect: do.RecordLateVerdict, event: str, actor: Actor
) -> None:
    partner_id, message_id = one.row.partner_id, one.row.message_id
    text = "acknowledged after it was cancelled: received"
    flights.add(message_sql.RECORD_LATE_VERDICT(key=one.key))
    flights.add(
        incidents.APPEND_TO_DETAIL(text=f"; {text}", partner_id=partner_id, message_id=message_id)
    )
    flights.record(one, event, "cancelled", detail=text)


def _open_incident(
    flights: "Flights", one: LockedFlight, effect: do.OpenIncident, event: str, actor: Actor
) -> None:
    partner_id, message_id = one.row.partner_id, one.row.message_id
    detail, reason = effect.detail, effect.reason
    if effect.kind is IncidentKind.RETRIES_SPENT:
        detail, reason = with_last_words(one.key, detail)
    new = incidents.NewIncident(
        partner_id, "out", effect.kind, message_id, detail, flights.now, reason=reason
    )
    flights.add(incidents.open_incident(new))


def _resolve_incidents(
    flights: "Flights", one: LockedFlight, effect: do.ResolveIncidents, event: str, actor: Actor
) -> None:
    flights.add(
        flight_sql.RESOLVE_OF_MESSAGE(
            partner_id=one.row.partner_id,
            message_id=one.row.message_id,
            at=flights.now,
            actor=actor.name,
            resolution=actor.reason,
        )
    )


def _notify_from_party(
    flights: "Flights", one: LockedFlight, effect: do.NotifyFromParty, event: str, actor: Actor
) -> None:
    flights.notifies = True
    flights.add(party_events.insert_event(one.key, effect.kind, effect.detail, flights.now))


def _note(flights: "Flights", one: LockedFlight, effect: do.Note, event: str, actor: Actor) -> None:
    flights.record(one, event, detail=effect.detail, code=effect.code, counts=True)


def _count_duplicate_ack(
    flights: "Flights", one: LockedFlight, effect: do.CountDuplicateAck, event: str, actor: Actor
) -> None:
    flights.add(message_sql.COUNT_DUPLICATE_ACK(key=one.key))


def _transmit(
    flights: "Flights", one: LockedFlight, effect: object, event: str, actor: Actor
) -> None:
    flights.transmits.add(one.row.partner_id)


def _report_unreachable(
    flights: "Flights", one: LockedFlight, effect: do.ReportUnreachable, event: str, actor: Actor
) -> None:
    unreached = MessageUnreached(effect.message_id, *with_last_words(one.key, effect.detail))
    flights.step_gate(one.row.partner_id, unreached)


FLIGHT_EFFECTS: dict[type, Callable[["Flights", LockedFlight, Any, str, Actor], None]] = {
    do.Transmit: _transmit,
    do.Complete: _complete,
    do.Fail: _fail,
    do.Cancel: _cancel,
    do.RecordLateVerdict: _record_late_verdict,
    do.OpenIncident: _open_incident,
    do.ResolveIncidents: _resolve_incidents,
    do.NotifyFromParty: _notify_from_party,
    do.Note: _note,
    do.CountDuplicateAck: _count_duplicate_ack,
    do.PollLane: _transmit,
    do.ReportUnreachable: _report_unreachable,
}


def _open_incident_of_gate(flights: "Flights", partner_id: int, effect: do.OpenIncident) -> None:
    about = (partner_id, "out", effect.kind, effect.message_id, effect.detail, flights.now)
    new = incidents.NewIncident(*about, reason=effect.reason)
    flights.add(incidents.open_incident(new))


def _resolve_of_gate(flights: "Flights", partner_id: int, effect: object) -> None:
    resolution = "the partner answers again"
    flights.add(
        gate_sql.RESOLVE_OF_GATE(
            partner_id=partner_id, at=flights.now, actor=SYSTEM, resolution=resolution
        )
    )


def _poll(flights: "Flights", partner_id: int, effect: object) -> None:
    flights.transmits.add(partner_id)


GATE_EFFECTS: dict[type, Callable[["Flights", int, Any], None]] = {
    do.OpenIncident: _open_incident_of_gate,
    do.ResolveIncidents: _resolve_of_gate,
    do.PollLane: _poll,
}
