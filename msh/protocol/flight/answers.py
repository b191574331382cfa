"""Cells of the flight's table: what the partner answers, an Acknowledgment or an ErrorList."""

from collections.abc import Sequence
from datetime import datetime

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.kinds import IncidentKind, PartyEventKind, Verdict
from msh.protocol.message import ErrorReport
from msh.protocol.reason import of_words
from msh.protocol.vocabulary import Severity

from .outcome import Outcome, fail, stop_flight
from .value import Flight, FlightState


def events_of(
    message_id: str, reports: Sequence[ErrorReport], *, acknowledged: bool
) -> tuple[on.ErrorReceived | on.AckReceived, ...]:
    """Return the events of an answer to a message: its warnings, then its Errors or the
    Acknowledgment. An Error beside an Acknowledgment wins (EB-060); the first decides, the others
    are noted."""
    warnings = [one for one in reports if one.severity is Severity.WARNING]
    errors = [one for one in reports if one.severity is not Severity.WARNING]
    events = [on.ErrorReceived(message_id, one) for one in (*warnings, *errors)]
    if acknowledged and not errors:
        return (*events, on.AckReceived(message_id))
    return tuple(events)


def complete(flight: Flight, event: on.AckReceived, now: datetime) -> Outcome:
    return _complete(flight, "")


def complete_late(flight: Flight, event: on.AckReceived, now: datetime) -> Outcome:
    return _complete(flight, "late, after it had failed")


def _complete(flight: Flight, detail: str) -> Outcome:
    return stop_flight(
        flight,
        FlightState.ACKNOWLEDGED,
        do.Complete(flight.message_id),
        do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, flight.message_id, detail),
    )


def count_duplicate_ack(flight: Flight, event: on.AckReceived, now: datetime) -> Outcome:
    return flight, (do.CountDuplicateAck(flight.message_id),)


def record_late_verdict(flight: Flight, event: on.AckReceived, now: datetime) -> Outcome:
    message_id, kind = flight.message_id, PartyEventKind.CANCELLED
    return flight, (
        do.RecordLateVerdict(message_id),
        do.NotifyFromParty(kind, message_id, "received after all", Verdict.RECEIVED),
    )


def fail_for_error(flight: Flight, event: on.ErrorReceived, now: datetime) -> Outcome:
    report = event.report
    if report.severity is Severity.WARNING:
        note, text = _noted(flight, report)
        return flight, (note, _warned(flight.message_id, text, report))
    reason = of_words(text_of(report))
    return fail(flight, IncidentKind.ERROR_RECEIVED, _text(report), _code(report), reason=reason)


def note_error(flight: Flight, event: on.ErrorReceived, now: datetime) -> Outcome:
    return flight, (_noted(flight, event.report)[0],)


def tell_after_acknowledgment(flight: Flight, event: on.ErrorReceived, now: datetime) -> Outcome:
    """An intermediary acknowledges, and reports later what its next hop did. What is acknowledged
    stays so."""
    message_id, report = flight.message_id, event.report
    note, text = _noted(flight, report)
    if report.severity is Severity.WARNING:
        return flight, (note, _warned(message_id, text, report))
    return flight, (
        note,
        do.OpenIncident(
            IncidentKind.ERROR_RECEIVED,
            message_id,
            f"after its Acknowledgment: {text}",
            of_words(text),
        ),
        do.NotifyFromParty(PartyEventKind.ERROR, message_id, text, report.code),
    )


def after_error_of_best_effort(
    message_id: str, report: ErrorReport, *, is_open: bool
) -> tuple[do.Fail | do.OpenIncident | do.NotifyFromParty | do.Note, ...]:
    """Return the effects of an Error about a BestEffort message. `is_open`: it is on its way, or
    sent."""
    text = text_of(report)
    if report.severity is Severity.WARNING:
        note = do.Note(message_id, f"{report.severity} {text}")
        return note, _warned(message_id, text, report)
    if not is_open:
        return (do.Note(message_id, f"{report.severity} {text}"),)
    return (
        do.Fail(message_id, _code(report), report.severity, _text(report)),
        do.OpenIncident(IncidentKind.ERROR_RECEIVED, message_id, text, of_words(text)),
        do.NotifyFromParty(PartyEventKind.FAILED, message_id, text, IncidentKind.ERROR_RECEIVED),
    )


def _warned(message_id: str, text: str, report: ErrorReport) -> do.NotifyFromParty:
    return do.NotifyFromParty(PartyEventKind.WARNING, message_id, text, report.code)


def _noted(flight: Flight, report: ErrorReport) -> tuple[do.Note, str]:
    text = text_of(report)
    return do.Note(flight.message_id, f"{report.severity} {text}"), text


def text_of(report: ErrorReport) -> str:
    """Code, description and location, as people are told."""
    return f"{_code(report)}: {_text(report)}"


def _code(report: ErrorReport) -> str:
    return report.code_text or report.code


def _text(report: ErrorReport) -> str:
    at = f"at {report.location}" if report.location else ""
    of = f"code of {report.code_context}" if report.code_context else ""
    where = ", ".join(filter(None, (at, of)))
    return f"{report.description} ({where})" if where else report.description
