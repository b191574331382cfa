"""Operators' actions on one message that has a flight: the same as on a link."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from msh.flows.errors import NotPossible, Proposal
from msh.flows.operations.guard import allowed
from msh.flows.wake_up import wake_up_for
from msh.models import Direction, OutboundMessage, place_of
from msh.protocol.attempt import Trace, nothing_was_sent
from msh.protocol.errors import IllegalTransition
from msh.protocol.events import (
    MessageCancelled,
    OperatorResumed,
    OperatorSuspended,
    RetriesReset,
    SendNowRequested,
)
from msh.protocol.flight import Flight, FlightState, step
from msh.protocol.four_eyes import Act, Verb
from msh.protocol.kinds import Verdict
from msh.store.flights.flights import Flights
from msh.store.flights.locked_flight import shown_state
from msh.store.history import Actor
from msh.store.operations.operator_actions import find_links

_Verb = OperatorSuspended | OperatorResumed | RetriesReset | SendNowRequested


@dataclass(frozen=True, slots=True)
class Done:
    """The state of the message now, as it is shown, and what happens next."""

    state: str
    text: str


@dataclass(frozen=True, slots=True)
class FlightChange:
    """One event of a flight, with who and why. Called, it raises NotPossible where the event may
    not happen: "Cannot `what` message ID: …"."""

    event: _Verb
    what: str
    done: str

    def __call__(self, message: OutboundMessage, actor: Actor) -> Done:
        require_flight(message)
        with transaction.atomic():
            flights = _lock(message)
            if why := self._step(flights, message.pk, actor):
                raise NotPossible(why)
            flights.write()
            transaction.on_commit(lambda: wake_up_for(flights))
        return Done(shown_state(flights.flight(message.pk)), self.done)

    def of_many(self, keys: Iterable[int], actor: Actor) -> Mapping[int, str]:
        """Do it to these messages, by row id, in the caller's transaction. Returns why not, a
        sentence, of each that flies or flew; empty if it was done."""
        flying = [one for one in find_links(keys) if one.flies]
        partners = {one.partner_id for one in flying}
        flights = Flights.lock_named(partners, [one.id for one in flying])
        why_not = {key: self._step(flights, key, actor) for key in flights}
        flights.write_together()
        transaction.on_commit(lambda: wake_up_for(flights))
        return why_not

    def _step(self, flights: Flights, key: int, actor: Actor) -> str:
        """Why not, a sentence; empty if it was stepped."""
        try:
            flights.step(key, self.event, actor)
        except IllegalTransition:
            message_id = flights.locked(key).row.message_id
            why = _why_not(flights.flight(key), flights.now)
            return f"Cannot {self.what} message {message_id}: {why}."
        return ""


hold = FlightChange(OperatorSuspended(), "hold", "no copy of it is sent until it is resumed")
"""Its place in the window goes to another message. An Acknowledgement still completes it."""
resume = FlightChange(
    OperatorResumed(), "resume", "it is sent again with the same bytes and all its retries"
)
reset_retries = FlightChange(
    RetriesReset(), "reset the retries of", "its retry counter is 0; its deadline stays"
)
send_now = FlightChange(
    SendNowRequested(), "send now", "one more copy is sent now and uses no retry"
)
VERBS = {"suspend": hold, "resume": resume, "reset_retries": reset_retries, "send_now": send_now}
"""By the name of the link's action that does the same."""


def cancel(message: OutboundMessage, verdict: Verdict | None, actor: Actor) -> None:
    """End it, and notify its From-Party. A message of which no copy was claimed needs no verdict.

    Raises NotPossible, with nothing changed, for what makes no sense or is not proven.
    """
    with transaction.atomic():
        flights = _lock(message)
        before = shown_state(flights.flight(message.pk))
        proven = nothing_was_sent_of(message)
        if why := end(flights, message.pk, verdict, actor, nothing_sent=proven):
            raise NotPossible(why)
        unknown = verdict is Verdict.UNKNOWN
        with allowed(_unknown(message, before), actor) if unknown else nullcontext():
            flights.write()
        transaction.on_commit(lambda: wake_up_for(flights))


def end(
    flights: Flights,
    key: int,
    verdict: Verdict | None,
    actor: Actor,
    *,
    nothing_sent: bool = False,
) -> str:
    """Cancel a message of `flights`, which the caller writes. `nothing_sent`: it is proven that not
    a byte of it has left us. Returns why not, a sentence; empty if it was cancelled."""
    flight, message_id = flights.flight(key), flights.locked(key).row.message_id
    ends = MessageCancelled(Verdict.UNKNOWN, nothing_sent=False)
    if why := why_not(flight, ends, flights.now):  # whatever the verdict is
        return f"Cannot cancel message {message_id}: {why}."
    if verdict is None and flight.attempt == 0:  # no copy of it was claimed
        verdict, nothing_sent = Verdict.NOT_RECEIVED, True
    if verdict is None:
        return (
            f"Message {message_id} is in flight: did the partner receive it? Specify the verdict"
            " received, not_received or unknown."
        )
    try:
        flights.step(key, MessageCancelled(verdict, nothing_sent=nothing_sent), actor)
    except IllegalTransition:
        return (
            f"Cannot cancel message {message_id}: it may have been received, because an attempt"
            " began to send it; ask the partner, or use the verdict unknown."
        )
    return ""


def _unknown(message: OutboundMessage, state: str) -> Proposal:
    partner = message.link.partner
    return Proposal(
        Act(
            Verb.UNKNOWN,
            "cancel",
            {"message": message.pk},
            f"message {message.message_id} is {state}",
        ),
        f"message {message.message_id} to {partner.name} is cancelled with the verdict unknown.",
        partner.pk,
        Direction.OUT,
        message.message_id,
        place_of(message),
    )


def why_not(flight: Flight, event: _Verb | MessageCancelled, now: datetime) -> str:
    """Why this may not happen to it now, as a clause; empty if it may."""
    try:
        step(flight, event, now=now)
    except IllegalTransition:
        return _why_not(flight, now)
    return ""


def require_flight(message: OutboundMessage) -> None:
    if not message.flies:
        raise NotPossible(
            f"Messages to partner {message.link.partner} are sent one after the other: use the"
            f" actions of the link, not of message {message.message_id}."
        )


def _lock(message: OutboundMessage) -> Flights:
    # Also the link: an export reads all under its lock.
    flights = Flights.lock_named([message.link.partner_id], [message.pk])
    if message.pk not in flights:
        raise NotPossible(f"No message {message.message_id} was submitted here.")
    return flights


def nothing_was_sent_of(message: OutboundMessage) -> bool:
    traces = [
        Trace(ended_at is not None, body_sent)
        for ended_at, body_sent in message.attempts.values_list("ended_at", "body_sent")
    ]
    return nothing_was_sent(traces, by_mail=message.link.partner.is_reached_by_mail)


def _why_not(flight: Flight, now: datetime) -> str:
    if why := flight.why_not_sent_again(now):
        return f"it is {why}"
    if flight.state in (FlightState.ACKNOWLEDGED, FlightState.FAILED, FlightState.CANCELLED):
        return f"it is {flight.state}: it has already ended"
    return f"it is {shown_state(flight)}"
