"""Cells of the flight's table: its copies are sent and wait."""

from dataclasses import replace
from datetime import datetime

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.kinds import EARLY_WARNING, IncidentKind, PartyEventKind
from msh.protocol.vocabulary import ErrorCode

from .events import DeadlinePassed, Expired, ProbeClaimed
from .outcome import Outcome, check_may_be_sent, fail, give_up
from .value import Flight


def claim(flight: Flight, event: on.AttemptClaimed, now: datetime) -> Outcome:
    check_may_be_sent(flight, event, now)
    departed = replace(flight.departs(event.http_deadline, now), copies=flight.copies + 1)
    return departed, _early_warning(flight)


def _early_warning(flight: Flight) -> tuple[do.FlightEffect, ...]:
    """`flight.copies` is the number of the retry that is being claimed."""
    if not flight.copies or flight.copies != flight.terms.early_warning:
        return ()
    detail = f"retry {flight.copies} of {flight.terms.retries}: no Acknowledgement yet"
    return (do.NotifyFromParty(PartyEventKind.DELAYED, flight.message_id, detail, EARLY_WARNING),)


def probe(flight: Flight, event: ProbeClaimed, now: datetime) -> Outcome:
    check_may_be_sent(flight, event, now)
    note = do.Note(flight.message_id, "probe: one copy, the partner stays suspended")
    return flight.departs(event.http_deadline, now), (note,)


def wait_for_ack(flight: Flight, event: on.AttemptTransmitted, now: datetime) -> Outcome:
    after, _ = note_transmitted(flight, event, now)
    return replace(after, due=now + flight.retry_interval), ()  # from the attempt's end (EB-080)


def note_transmitted(flight: Flight, event: on.AttemptTransmitted, now: datetime) -> Outcome:
    return replace(flight, carried=True, reached=True), ()


def wait_for_retry(flight: Flight, event: on.AttemptFailed, now: datetime) -> Outcome:
    after, effects = note_failed(flight, event, now)
    wait = flight.terms.wait_after_failure(event.retry_after)  # EB-089
    return replace(after, due=now + wait), effects


def note_failed(flight: Flight, event: on.AttemptFailed, now: datetime) -> Outcome:
    """Another copy was asked for meanwhile, or an operator holds the message."""
    warning = do.Note(event.message_id, event.detail, EARLY_WARNING)
    effects = (warning,) if event.doubted else ()
    if event.nothing_sent:
        flight = flight.sent_nothing()
    if event.unreachable:
        return replace(flight, unreached=flight.unreached + 1), effects
    if event.asked_to_wait and flight.attempt <= flight.terms.transient_count_limit:
        flight = replace(flight, copies=max(flight.copies - 1, 0))  # spends no retry (EB-090)
    return replace(flight, reached=True), effects


def fail_as_refused(flight: Flight, event: on.AttemptRefused, now: datetime) -> Outcome:
    return fail(flight, IncidentKind.REFUSED_BY_PEER, event.detail, reason=event.reason)


def retry_or_give_up(flight: Flight, event: DeadlinePassed, now: datetime) -> Outcome:
    if not flight.is_due(now):
        return flight, ()
    if flight.is_expired(now):
        return expire(flight, Expired(), now)
    if why := flight.why_not_sent_again(now):
        return give_up(flight, why)
    if not flight.budget_spent:
        return flight.is_ready(now), (do.Transmit(),)  # the claim spends the retry
    if flight.reached or not 0 < flight.unreached <= event.failures:
        return give_up(flight)
    # Nothing else came through either: it is the partner, and the message waits (EB-091).
    detail = f"{event.failures} attempts in a row were not answered"
    report = do.ReportUnreachable(flight.message_id, detail)
    return flight.with_fresh_retries().is_ready(now), (report, do.Transmit())


def expire(flight: Flight, event: Expired, now: datetime) -> Outcome:
    if not flight.is_expired(now):
        return flight, ()
    detail = f"not acknowledged by {flight.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    code = ErrorCode.TIME_TO_LIVE_EXPIRED
    return fail(flight, IncidentKind.MESSAGE_EXPIRED, detail, code)


def expire_before_it_is_sent(flight: Flight, event: Expired, now: datetime) -> Outcome:
    if flight.is_expired(now) or not (why := flight.why_not_sent_again(now)):
        return expire(flight, event, now)
    return give_up(flight, why)
