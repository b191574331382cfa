"""Cells of the Sender's table: what the partner answers, an Acknowledgement or an Error."""

from dataclasses import replace
from datetime import datetime
from math import ceil

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.kinds import IncidentKind, PartyEventKind, Verdict
from msh.protocol.lane import OPERATOR, Lane, LaneState
from msh.protocol.reason import Reason, of_words
from msh.protocol.vocabulary import Severity

from .outcome import Outcome, end_flight, suspend, suspend_at_transient_limit

_UNEXPLAINED = (IncidentKind.RETRIES_SPENT, IncidentKind.REFUSED_BY_PEER)
"""The kinds of suspension for which the partner has sent no Error Message."""
_AnyError = on.SequenceErrorReceived | on.ErrorReceived | on.ErrorForOtherReceived


def complete(lane: Lane, event: on.AckReceived, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return count_duplicate_ack(lane, event, now)
    return end_flight(lane, *_completed(event.message_id))


def complete_while_suspended(lane: Lane, event: on.AckReceived, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return count_duplicate_ack(lane, event, now)
    completed = _completed(event.message_id)
    if event.resumes and lane.suspended_for in do.SILENCE:
        return lane.ends_flight().rests(), (*completed, do.ResolveIncidents(), do.PollLane())
    # Only an operator resumes (D12).
    return replace(lane.ends_flight(), late_ack=True), completed


def _completed(message_id: str) -> tuple[do.SenderEffect, ...]:
    return (
        do.Complete(message_id),
        do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, message_id),
    )


def count_duplicate_ack(lane: Lane, event: on.AckReceived, now: datetime) -> Outcome:
    return lane, (do.CountDuplicateAck(event.message_id),)


def record_ack_of_other(lane: Lane, event: on.AckOfOtherReceived, now: datetime) -> Outcome:
    if event.cancelled:
        return lane, (
            do.RecordLateVerdict(event.message_id),
            do.NotifyFromParty(
                PartyEventKind.CANCELLED, event.message_id, "received after all", Verdict.RECEIVED
            ),
        )
    return lane, (do.CountDuplicateAck(event.message_id),)


def note_ack_of_unknown(lane: Lane, event: on.AckOfUnknownReceived, now: datetime) -> Outcome:
    return lane, (
        do.Note(event.message_id, "Acknowledgement of a message that was never sent from here"),
    )


def wait_as_asked(lane: Lane, event: on.TransientErrorReceived, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return lane, ()
    probing = lane.in_flight.probing
    flying = lane.in_flight.with_fresh_retries() if probing else lane.in_flight
    since = flying.transient_since or now
    flying = replace(flying, transients=flying.transients + 1, transient_since=since)
    waiting = replace(
        lane.has_no_copy_to_send(),
        state=LaneState.TRANSIENT,
        in_flight=flying,
        due=now + flying.terms.granted(event.min_retry_secs),
    )
    if flying.transient_limit_reached(now):
        return suspend_at_transient_limit(waiting)
    asked = "none" if event.min_retry_secs is None else f"{event.min_retry_secs} s"
    note = do.Note(event.message_id, f"TransientError, wait asked for: {asked}")
    return waiting, (note, do.ResolveIncidents()) if probing else (note,)


def wait_asked_for(
    lane: Lane, event: on.AttemptFailed
) -> on.AttemptFailed | on.TransientErrorReceived:
    """A 429 or 503 with Retry-After to the latest copy is a TransientError without a message: the
    wait is the longer of it and RetryInterval, and no retry is spent (D54)."""
    flying = lane.in_flight
    latest = flying is not None and (flying.message_id, flying.attempt) == (
        event.message_id,
        event.attempt,
    )
    if (
        flying is None
        or not latest
        or not event.asked_to_wait
        or (lane.unsent and not lane.promised)
    ):
        return event
    wait = flying.terms.wait_after_failure(event.retry_after)
    return on.TransientErrorReceived(event.message_id, ceil(wait.total_seconds()), event.detail)


def note_transient_error(lane: Lane, event: on.TransientErrorReceived, now: datetime) -> Outcome:
    return lane, (do.Note(event.message_id, f"TransientError: {event.detail}"),)


def suspend_out_of_step(lane: Lane, event: on.SequenceErrorReceived, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return report_out_of_step(lane, event, now)
    detail = f"{event.report.code}: {event.report.description}"
    return suspend(lane, IncidentKind.RESYNCHRONISE, detail, Reason.NUMBERS)


def report_out_of_step(lane: Lane, event: on.SequenceErrorReceived, now: datetime) -> Outcome:
    detail = f"{event.report.code}: {event.report.description}"
    return lane, (_out_of_step(event.message_id, detail),)


def _out_of_step(message_id: str, detail: str) -> do.OpenIncident:
    return do.OpenIncident(IncidentKind.RESYNCHRONISE, message_id, detail, Reason.NUMBERS)


def explain_out_of_step(lane: Lane, event: on.SequenceErrorReceived, now: datetime) -> Outcome:
    """The lane stays as it is; an operator who resumes it without this would send the same number
    again. The reason that another operator recorded is kept: it gets an incident beside it."""
    after, noted = note_error(lane, event, now)
    detail = f"{event.report.code}: {event.report.description}"
    if lane.in_flight is not None and lane.suspended_for in _UNEXPLAINED:
        return after, (*noted, do.ExplainSuspension(event.message_id, detail, Reason.NUMBERS))
    if lane.suspended_for == OPERATOR:
        return after, (*noted, _out_of_step(event.message_id, detail))
    return after, noted


def suspend_for_error(lane: Lane, event: on.ErrorReceived, now: datetime) -> Outcome:
    if lane.in_flight is None or event.report.severity is Severity.WARNING:
        return note_error(lane, event, now)
    detail = f"{event.report.code_text or event.report.code}: {event.report.description}"
    return suspend(lane, IncidentKind.ERROR_RECEIVED, detail, of_words(detail))


def note_error(lane: Lane, event: _AnyError, now: datetime) -> Outcome:
    report = event.report
    text = f"Error {report.code_text or report.code}: {report.description}"
    return lane, (do.Note(event.message_id, text),)
