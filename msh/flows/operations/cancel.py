"""An operator ends a message that is not done: queued, or in flight with a verdict (D18)."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from django.db import transaction

from msh.flows.errors import NotPossible, Proposal
from msh.flows.operations import change_flight
from msh.flows.operations.guard import allowed
from msh.flows.operations.inspection.copies import under_way
from msh.flows.receiving.link_status import NoStatus, enquire
from msh.flows.wake_up import WakeUp, wake_up, wake_up_for
from msh.models import (
    Direction,
    OutboundLink,
    OutboundMessage,
    OutboundState,
    place_of,
)
from msh.protocol import sender
from msh.protocol.errors import IllegalTransition
from msh.protocol.events import MessageCancelled
from msh.protocol.four_eyes import Act, Verb
from msh.protocol.kinds import Verdict
from msh.protocol.lane import InFlight, Lane
from msh.protocol.link_status import LinkStatus
from msh.store.clock import read_clock
from msh.store.flights.flights import Flights
from msh.store.history import Actor
from msh.store.operations.operator_actions import cancel_queued, find_links, lock_messages
from msh.store.sending.links import OutboundLinks
from msh.store.sending.message_sql import LockedMessage
from partners.models import Partner


@dataclass(frozen=True, slots=True)
class _Answer:
    """The partner's answer after this attempt ended, and before a later one began."""

    status: LinkStatus
    attempt: int


def find(message_id: str, partner: Partner | None = None) -> OutboundMessage:
    """The message with this MessageId. Raises NotPossible if there is none, or one for each of
    several partners."""
    found = OutboundMessage.objects.filter(message_id=message_id)
    if partner is not None:
        found = found.filter(link__partner=partner)
    messages = list(found.select_related("link__partner", "agreement")[:2])
    if not messages:
        raise NotPossible(f"No message {message_id} was submitted here.")
    if len(messages) > 1:
        raise NotPossible(f"Several partners have a message {message_id}: specify --partner.")
    return messages[0]


def cancel(message: OutboundMessage, verdict: Verdict | None, actor: Actor) -> LinkStatus | None:
    """End it, and tell its From-Party. For one in flight a verdict is needed.

    Returns what the partner said, if NOT_RECEIVED had to be proven by asking it. Raises
    NotPossible, with nothing changed, for what makes no sense or is not proven.
    """
    partner = message.link.partner
    if message.flies:
        change_flight.cancel(message, verdict, actor)
        return None
    answer = None
    if verdict is Verdict.NOT_RECEIVED and not change_flight.nothing_was_sent_of(message):
        answer = _ask(message)
    with transaction.atomic():
        links = OutboundLinks.lock([partner.pk])
        (locked,) = lock_messages([message.pk])
        if why := _why_not_cancelled(links, locked, verdict):
            raise NotPossible(why)
        flying = links.lane(partner.pk).in_flight
        guard: AbstractContextManager[None] = nullcontext()
        if locked.state == OutboundState.QUEUED:
            if actor.approval is not None:  # it was in flight when it was asked for
                guard = allowed(_unknown(message, locked), actor)
            cancel_queued(links, locked, Verdict.NOT_RECEIVED, actor)
        elif flying is not None and verdict is not None:
            _cancel_in_flight(links, message, flying, verdict, answer, actor)
            if verdict is Verdict.UNKNOWN:
                guard = allowed(_unknown(message, locked), actor)
        with guard:
            links.write()
    wake_up(WakeUp.TRANSMIT)
    wake_up_for(links)
    return answer.status if answer else None


def cancel_many(keys: Iterable[int], actor: Actor) -> Mapping[int, str]:
    """Cancel those of these messages, by row id, that need no verdict, as `cancel` does, in the
    caller's transaction. Returns why not, a sentence, of each that is there; empty if it was
    cancelled."""
    found = find_links(keys)
    partners = {one.partner_id for one in found}
    links = OutboundLinks.lock(partners)
    flights = Flights.lock_named(partners, [one.id for one in found if one.flies])
    why_not = {key: change_flight.end(flights, key, None, actor) for key in flights}
    for message in lock_messages(one.id for one in found if not one.flies):
        why_not[message.id] = _why_not_cancelled(links, message, None)
        if not why_not[message.id]:
            cancel_queued(links, message, Verdict.NOT_RECEIVED, actor)
    flights.write_together()
    links.write_together()
    transaction.on_commit(lambda: _wake_up(links, flights))
    return why_not


def _wake_up(links: OutboundLinks, flights: Flights) -> None:
    wake_up(WakeUp.TRANSMIT)
    wake_up_for(links)
    wake_up_for(flights)


def _why_not_cancelled(
    links: OutboundLinks, message: LockedMessage, verdict: Verdict | None
) -> str:
    """As a sentence; empty if it may be cancelled, or with this verdict if that is proven."""
    if message.state == OutboundState.QUEUED:
        return ""
    flying = links.lane(message.partner_id).in_flight
    is_ours = flying is not None and flying.message_id == message.message_id
    if message.state != OutboundState.IN_FLIGHT or not is_ours:
        return _why_not(message)
    if verdict is None:
        return (
            f"Message {message.message_id} is in flight: did the partner receive it? Specify the"
            " verdict received, not_received or unknown."
        )
    return ""


def _unknown(message: OutboundMessage, locked: LockedMessage) -> Proposal:
    partner, number = message.link.partner, locked.sequence_number
    facts = f"message {message.message_id} is {locked.state} with number {number}"
    return Proposal(
        Act(Verb.UNKNOWN, "cancel", {"message": message.pk}, facts),
        f"message {message.message_id}, number {number} to {partner.name}, is cancelled with the"
        " verdict unknown. The next message gets number 1.",
        partner.pk,
        Direction.OUT,
        message.message_id,
        place_of(message),
    )


def _cancel_in_flight(
    links: OutboundLinks,
    message: OutboundMessage,
    flying: InFlight,
    verdict: Verdict,
    answer: _Answer | None,
    actor: Actor,
) -> None:
    partner_id = message.link.partner_id
    proven = change_flight.nothing_was_sent_of(message) or _partner_lacks(
        message, flying.attempt, answer
    )
    try:
        links.step(partner_id, MessageCancelled(verdict, nothing_sent=proven), actor)
    except IllegalTransition:
        status = answer.status if answer else None
        instead = is_possible(links.lane(partner_id), Verdict.UNKNOWN)
        number = flying.sequence_number
        said = _why_no_verdict(verdict, message, number, status, unknown=instead)
        raise NotPossible(said) from None


def is_possible(lane: Lane, verdict: Verdict) -> bool:
    """Whether the message in flight may be cancelled so, if it is true: one that is sent again
    after a rewind only as received."""
    try:
        sender.step(lane, MessageCancelled(verdict, nothing_sent=True), now=read_clock())
    except IllegalTransition:
        return False
    return True


def _partner_lacks(message: OutboundMessage, attempt: int, answer: _Answer | None) -> bool:
    """Proven by the partner's word (D18): every copy had ended when it was asked, and this
    attempt, the latest, is none that it had not seen then."""
    if answer is None or answer.attempt != attempt:
        return False
    by_mail = message.link.partner.is_reached_by_mail
    return answer.status.has(message.message_id) is False and not by_mail


def _ask(message: OutboundMessage) -> _Answer | None:
    """None if the answer would prove nothing, as a copy is under way, or if there is none."""
    link = OutboundLink.objects.select_related("partner").get(pk=message.link_id)
    if under_way(link):
        return None
    try:
        return _Answer(enquire(link.partner, [message.message_id]), link.attempt)
    except NoStatus:
        return None


def _why_not(message: LockedMessage) -> str:
    if message.state == OutboundState.REWOUND:
        return (
            f"Message {message.message_id} will be sent again as number"
            f" {message.sequence_number}, before the messages behind it: it cannot be skipped."
        )
    state = OutboundState(message.state).label
    return f"Message {message.message_id} is {state}: it has already ended."


def _why_no_word(message: OutboundMessage) -> str:
    if message.link.partner.is_reached_by_mail:
        return "the mail may still arrive; ask the partner's operator"
    if under_way(message.link):
        return "it is being sent; suspend the link, wait until the attempt ends, then retry"
    return (
        "the partner's MSH has not confirmed that it does not have the message; retry when it"
        " answers"
    )


def _why_no_verdict(
    verdict: Verdict,
    message: OutboundMessage,
    number: int,
    status: LinkStatus | None,
    *,
    unknown: bool,
) -> str:
    """`unknown`: whether that verdict is possible."""
    about = f"Message {message.message_id}, number {number},"
    if status is not None and status.acknowledges(message.message_id):
        return f"{about} was received, as the partner reports: cancel it with the verdict received."
    if status is not None and message.message_id in status.withheld:
        return f"{about} is at the partner, which forwards it and then acknowledges it."
    if verdict is Verdict.NOT_RECEIVED:
        return (
            f"{about} may have been received: an attempt began to send it, and"
            f" {_why_no_word(message)}{', or use the verdict unknown' if unknown else ''}."
        )
    return f"{about} will be sent again after a rewind: only the verdict received leaves no gap."
