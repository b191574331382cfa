"""What the cells of the table share: the type of their results, and how a message fails."""

from datetime import datetime

from msh.protocol import effects as do
from msh.protocol.attempt import unacknowledged_after
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.protocol.reason import Reason
from msh.protocol.vocabulary import ErrorCode, Severity

from .value import Flight, FlightState, OnSilence

Outcome = tuple[Flight, tuple[do.FlightEffect, ...]]
"""The flight afterwards, and the effects that belong into its transaction."""


def stay(flight: Flight, event: object, now: datetime) -> Outcome:
    return flight, ()


def stop_flight(
    flight: Flight, state: FlightState, *effects: do.FlightEffect, held_for: str = ""
) -> Outcome:
    """The flight ends, or waits for an operator: the incidents it had are resolved, its place is
    free for another."""
    if flight.state in (FlightState.HELD, FlightState.FAILED):
        effects = (do.ResolveIncidents(), *effects)
    if flight.under_way:
        effects = (*effects, do.PollLane())
    return flight.stops(state, held_for), effects


def fail(
    flight: Flight,
    kind: IncidentKind,
    detail: str,
    code: str = ErrorCode.DELIVERY_FAILURE,
    severity: Severity = Severity.HARD_ERROR,
    reason: Reason = Reason.NONE,
) -> Outcome:
    message_id = flight.message_id
    return stop_flight(
        flight,
        FlightState.FAILED,
        do.Fail(message_id, code, severity, detail),
        do.OpenIncident(kind, message_id, f"{code}: {detail}", reason),
        do.NotifyFromParty(PartyEventKind.FAILED, message_id, f"{code}: {detail}", kind),
    )


def give_up(flight: Flight, detail: str = "") -> Outcome:
    """The partner was silent to the end (EB-082), or no further copy is allowed (EB-084)."""
    kind = IncidentKind.RETRIES_SPENT
    silence = unacknowledged_after(flight.attempt)
    detail = f"{detail}: {silence}" if detail else silence
    if flight.on_silence is OnSilence.FAIL:
        severity = Severity.WARNING if flight.carried else Severity.HARD_ERROR
        return fail(flight, kind, detail, severity=severity)
    return stop_flight(
        flight,
        FlightState.HELD,
        do.OpenIncident(kind, flight.message_id, detail),
        do.NotifyFromParty(PartyEventKind.SUSPENDED, flight.message_id, detail, kind),
        held_for=kind,
    )


def check_may_be_sent(flight: Flight, event: object, now: datetime) -> None:
    """Raises IllegalTransition if no further copy may leave, with the reason (EB-084)."""
    if why := flight.why_not_sent_again(now):
        raise IllegalTransition(why, type(event).__name__)
