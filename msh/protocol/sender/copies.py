"""Cells of the Sender's table: a message is put in flight, its copies are sent and wait."""

from dataclasses import replace
from datetime import datetime, timedelta

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.attempt import unacknowledged_after
from msh.protocol.kinds import EARLY_WARNING, IncidentKind, PartyEventKind
from msh.protocol.lane import PROMISED_FOR, InFlight, Lane
from msh.protocol.table import illegal

from .outcome import Outcome, suspend, suspend_at_transient_limit


def put_in_flight(lane: Lane, event: on.LanePolled, now: datetime) -> Outcome:
    if event.message_id is None or event.terms is None:
        return lane, ()
    if event.again is None:
        number, epoch = lane.next_number, lane.epoch
        after = lane.takes(event.message_id, event.terms, now, event.attempts)
    else:  # rewound: the same number and bytes, and the next number stays what it is
        number, epoch = event.again.sequence_number, event.again.epoch
        flying = InFlight(event.message_id, number, event.terms, event.attempts)
        after = lane.transmits(flying, now)
    return after, (
        do.PutInFlight(event.message_id, number, epoch, event.terms),
        do.Transmit(),
    )


def promise(lane: Lane, event: on.CopyPromised, now: datetime) -> Outcome:
    if lane.in_flight is None or not lane.unsent or lane.promised:
        raise illegal(lane, event)
    flying = replace(lane.in_flight, attempt=lane.in_flight.attempt + 1)
    return replace(lane, in_flight=flying, promised=True, due=now + PROMISED_FOR), ()


def claim(lane: Lane, event: on.AttemptClaimed, now: datetime) -> Outcome:
    """A promise of which nobody has written that it was kept is claimed under the next attempt
    number and spends no retry. Its own number stays with the worker that may have sent a copy: one
    number for two copies would let the end of one deny the other (D18)."""
    if lane.in_flight is None or not lane.unsent or (lane.promised and not lane.is_due(now)):
        raise illegal(lane, event)
    flying = replace(lane.in_flight, attempt=lane.in_flight.attempt + 1)
    # A worker that dies here leaves an ordinary deadline behind.
    return _is_sent(replace(lane, in_flight=flying), now, event.http_deadline), ()


def _is_sent(lane: Lane, now: datetime, http_deadline: float) -> Lane:
    due = now + timedelta(seconds=http_deadline) + lane.flying.wait
    return replace(lane.has_no_copy_to_send(), due=due)


def begin(lane: Lane, event: on.AttemptBegun, now: datetime) -> Outcome:
    if not lane.promised:  # its POST has ended, or another worker has claimed the copy
        return lane, ()
    return _is_sent(lane, now, event.http_deadline), ()


def claim_while_transient(lane: Lane, event: on.AttemptClaimed, now: datetime) -> Outcome:
    if lane.in_flight is None or not lane.is_due(now):
        raise illegal(lane, event)
    return claim(lane.transmits(lane.in_flight, now), event, now)


def wait_for_answer(lane: Lane, event: on.AttemptTransmitted, now: datetime) -> Outcome:
    if lane.unsent and not lane.promised:  # "send now" has asked for another copy meanwhile
        return lane, ()
    return _is_sent(lane, now, 0.0), ()  # from the attempt's end (D11)


def wait_for_retry(lane: Lane, event: on.AttemptFailed, now: datetime) -> Outcome:
    warning = do.Note(event.message_id, event.detail, EARLY_WARNING)
    effects = (warning,) if event.doubted else ()
    if lane.unsent and not lane.promised:
        return lane, effects
    due = now + lane.flying.terms.wait_after_failure(event.retry_after)
    return replace(lane.has_no_copy_to_send(), due=due), effects


def suspend_as_refused(lane: Lane, event: on.AttemptRefused, now: datetime) -> Outcome:
    return suspend(lane, IncidentKind.REFUSED_BY_PEER, event.detail, event.reason)


def retry_or_suspend(lane: Lane, event: on.DeadlinePassed, now: datetime) -> Outcome:
    if lane.unsent or not lane.is_due(now):
        return lane, ()
    flying = lane.flying
    detail = unacknowledged_after(flying.attempt)
    if flying.probing:  # the From-Party knows that it is suspended
        incident = do.OpenIncident(IncidentKind.RETRIES_SPENT, flying.message_id, detail)
        return lane.suspends(IncidentKind.RETRIES_SPENT), (incident,)
    if flying.retries_spent >= flying.terms.retries:
        return suspend(lane, IncidentKind.RETRIES_SPENT, detail)
    flying = replace(flying, retries_spent=flying.retries_spent + 1)
    return lane.transmits(flying, now), (*_early_warning(flying), do.Transmit())


def _early_warning(flying: InFlight) -> tuple[do.SenderEffect, ...]:
    if flying.retries_spent != flying.terms.early_warning:
        return ()
    detail = f"retry {flying.retries_spent} of {flying.terms.retries}: no Acknowledgement yet"
    return (do.NotifyFromParty(PartyEventKind.DELAYED, flying.message_id, detail, EARLY_WARNING),)


def end_transient_wait(lane: Lane, event: on.DeadlinePassed, now: datetime) -> Outcome:
    if not lane.is_due(now):
        return lane, ()
    if lane.in_flight is not None and lane.in_flight.transient_limit_reached(now):
        return suspend_at_transient_limit(lane)
    return end_wait(lane, event, now)


def end_wait(lane: Lane, event: on.DeadlinePassed | on.OperatorResumed, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return lane.rests(), (do.PollLane(),)
    return lane.transmits(lane.in_flight, now), (do.Transmit(),)  # spends no retry (D10)


def probe(lane: Lane, event: on.ProbeDue, now: datetime) -> Outcome:
    if lane.in_flight is None or lane.suspended_for not in do.SILENCE:
        raise illegal(lane, event)
    note = do.Note(lane.in_flight.message_id, "probe: one more copy, the partner stays suspended")
    return lane.transmits(lane.in_flight.probes(), now), (note, do.Transmit())
