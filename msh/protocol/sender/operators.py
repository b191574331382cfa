"""Cells of the Sender's table: what an operator does to the lane or to the message in flight."""

from dataclasses import replace
from datetime import datetime

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol import sequence
from msh.protocol.kinds import PartyEventKind, Verdict
from msh.protocol.lane import OPERATOR, Lane
from msh.protocol.table import illegal

from .outcome import Outcome, end_flight


def resume(lane: Lane, event: on.OperatorResumed, now: datetime) -> Outcome:
    if lane.in_flight is None:
        return lane.rests(), (do.ResolveIncidents(), do.PollLane())
    flying = lane.in_flight.with_fresh_retries()
    return lane.transmits(flying, now), (do.ResolveIncidents(), do.Transmit())


def reset_retries(lane: Lane, event: on.RetriesReset, now: datetime) -> Outcome:
    if lane.in_flight is None:
        raise illegal(lane, event)
    after = replace(lane, in_flight=replace(lane.in_flight, retries_spent=0))
    # With retries left it is no probe any more: the operator has resumed it (D41).
    return after, (do.ResolveIncidents(),) if lane.in_flight.probing else ()


def send_now(lane: Lane, event: on.SendNowRequested, now: datetime) -> Outcome:
    if lane.in_flight is None:
        raise illegal(lane, event)
    return lane.transmits(lane.in_flight, now), (do.Transmit(),)


def suspend_by_operator(lane: Lane, event: on.OperatorSuspended, now: datetime) -> Outcome:
    return lane.suspends(OPERATOR), ()


def cancel(lane: Lane, event: on.MessageCancelled, now: datetime) -> Outcome:
    flying = lane.in_flight
    not_received = event.verdict is Verdict.NOT_RECEIVED
    if flying is None or (not_received and not event.nothing_sent):
        raise illegal(lane, event)
    rewound = sequence.following(flying.sequence_number) != lane.next_number
    if rewound and event.verdict is not Verdict.RECEIVED:
        raise illegal(lane, event)  # those behind it keep their numbers, so it keeps its own
    if event.verdict is Verdict.UNKNOWN:
        lane = lane.restarts()
    elif not_received:
        lane = lane.takes_back(flying.sequence_number)
    return end_flight(
        lane,
        do.Cancel(flying.message_id, event.verdict, free_number=not_received),
        do.NotifyFromParty(
            PartyEventKind.CANCELLED, flying.message_id, event.verdict, event.verdict
        ),
    )


def reset_numbers(lane: Lane, event: on.SequenceReset, now: datetime) -> Outcome:
    if lane.in_flight is not None or event.in_doubt:
        raise illegal(lane, event)
    return lane.restarts(), ()


def rewind(lane: Lane, event: on.SequenceRewound, now: datetime) -> Outcome:
    return replace(lane, in_flight=None), (do.Rewind(event.last),)


def adopt_numbers(lane: Lane, event: on.SequenceAdopted, now: datetime) -> Outcome:
    flying = lane.in_flight
    after = replace(lane, in_flight=None).restarts(event.next_number)
    if flying is None:
        return after, ()
    if not event.not_received:
        raise illegal(lane, event)
    return after, (do.Requeue(flying.message_id),)
