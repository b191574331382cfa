"""What each effect of a flight's table writes, and of a gate's, beyond what all have in common."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from msh.protocol import effects as do
from msh.protocol.flight.gate import GateEvent, MessageUnreached
from msh.protocol.kinds import IncidentKind
from msh.protocol.reason import Reason
from msh.store.engine import run
from msh.store.history import SYSTEM
from msh.store.sending.effects import COMMON, Method, Writer, text_of

from . import flight_sql, gate_sql
from .locked_flight import LockedFlight


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
    """The kind of the incident that is opened, empty if none is."""
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


@dataclass(slots=True)
class FlightWriter(Writer):
    METHODS: ClassVar[Mapping[type, Method]]

    one: LockedFlight = field(kw_only=True)
    step_gate: Callable[[int, GateEvent], None] = field(kw_only=True)
    """Lets an event happen to the gate of a partner."""

    def complete(self, effect: do.Complete) -> None:
        self._end("acknowledged")

    def fail(self, effect: do.Fail) -> None:
        self._end("failed")

    def cancel(self, effect: do.Cancel) -> None:
        self._end("cancelled", effect.verdict)

    def _end(self, state: str, outcome: str = "") -> None:
        what = {"key": self.one.key, "state": state, "outcome": outcome}
        terms = text_of(self.one.flight.terms)
        self.unit.add(flight_sql.END_MESSAGE(**what, at=self.unit.now, terms=terms))

    def open_incident(self, effect: do.OpenIncident) -> None:
        if effect.kind is IncidentKind.RETRIES_SPENT:
            detail, reason = with_last_words(self.one.key, effect.detail)
            effect = replace(effect, detail=detail, reason=reason)
        Writer.open_incident(self, effect)

    def resolve_incidents(self, effect: do.ResolveIncidents) -> None:
        self.unit.add(
            flight_sql.RESOLVE_OF_MESSAGE(
                partner_id=self.partner_id,
                message_id=self.one.row.message_id,
                at=self.unit.now,
                actor=self.actor.name,
                resolution=self.actor.reason,
            )
        )

    def report_unreachable(self, effect: do.ReportUnreachable) -> None:
        words = with_last_words(self.one.key, effect.detail)
        self.step_gate(self.partner_id, MessageUnreached(effect.message_id, *words))


FlightWriter.METHODS = {
    **COMMON,
    do.Complete: FlightWriter.complete,
    do.Fail: FlightWriter.fail,
    do.Cancel: FlightWriter.cancel,
    do.RecordLateVerdict: FlightWriter.record_late_verdict,
    do.OpenIncident: FlightWriter.open_incident,
    do.ResolveIncidents: FlightWriter.resolve_incidents,
    do.PollLane: FlightWriter.transmit,
    do.ReportUnreachable: FlightWriter.report_unreachable,
}


@dataclass(slots=True)
class GateWriter(Writer):
    METHODS: ClassVar[Mapping[type, Method]]

    def resolve_incidents(self, effect: do.ResolveIncidents) -> None:
        about = {"partner_id": self.partner_id, "at": self.unit.now, "actor": SYSTEM}
        resolution = "the partner answers again"
        self.unit.add(gate_sql.RESOLVE_OF_GATE(**about, resolution=resolution))


GateWriter.METHODS = {
    do.OpenIncident: GateWriter.open_incident,
    do.ResolveIncidents: GateWriter.resolve_incidents,
    do.PollLane: GateWriter.transmit,
}
