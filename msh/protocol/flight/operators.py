"""Cells of the flight's table: what an operator does to the message."""

from dataclasses import replace
from datetime import datetime

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.kinds import PartyEventKind, Verdict
from msh.protocol.lane import OPERATOR
from msh.protocol.table import illegal

from .outcome import Outcome, check_may_be_sent, stop_flight
from .value import Flight, FlightState


def suspend(flight: Flight, event: on.OperatorSuspended, now: datetime) -> Outcome:
    return stop_flight(flight, FlightState.HELD, held_for=OPERATOR)


def resume(flight: Flight, event: on.OperatorResumed | on.RetriesReset, now: datetime) -> Outcome:
    check_may_be_sent(flight, event, now)
    ready = flight.with_fresh_retries().is_ready(now)
    return ready, (do.ResolveIncidents(), do.Transmit())


def send_again(flight: Flight, event: on.OperatorResumed, now: datetime) -> Outcome:
    """Send a failed message again that blocks its conversation until it is acknowledged
    (EB-124)."""
    if flight.number is None:
        raise illegal(flight, event)
    return resume(flight, event, now)


def reset_retries(flight: Flight, event: on.RetriesReset, now: datetime) -> Outcome:
    """The copy that is on its way is the first of the new budget."""
    check_may_be_sent(flight, event, now)
    copies = 1 if flight.state is FlightState.WAITING else 0
    return replace(flight, copies=copies, unreached=0), ()


def send_now(flight: Flight, event: on.SendNowRequested, now: datetime) -> Outcome:
    """Spends nothing: the claim counts the copy that is taken back here."""
    check_may_be_sent(flight, event, now)
    effects: tuple[do.FlightEffect, ...] = (do.Transmit(),)
    if flight.state is FlightState.HELD:
        effects = (do.ResolveIncidents(), do.Transmit())
    return replace(flight, copies=max(flight.copies - 1, 0)).is_ready(now), effects


def send_ready_now(flight: Flight, event: on.SendNowRequested, now: datetime) -> Outcome:
    """Possible, though the flight does not change: it waits for a worker, for a slot of the window,
    or for the partner."""
    check_may_be_sent(flight, event, now)
    return flight, (do.Transmit(),)


def cancel(flight: Flight, event: on.MessageCancelled, now: datetime) -> Outcome:
    if event.verdict is Verdict.NOT_RECEIVED and not event.nothing_sent:
        raise illegal(flight, event)
    message_id = flight.message_id
    return stop_flight(
        flight,
        FlightState.CANCELLED,
        do.Cancel(message_id, event.verdict),
        do.NotifyFromParty(PartyEventKind.CANCELLED, message_id, event.verdict, event.verdict),
    )


def cancel_failed(flight: Flight, event: on.MessageCancelled, now: datetime) -> Outcome:
    """A failed message is cancelled only if it blocks its conversation (EB-124)."""
    if flight.number is None:
        raise illegal(flight, event)
    return cancel(flight, event, now)
