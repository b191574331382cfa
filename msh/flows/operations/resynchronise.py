"""Numbers that are out of sync: both sides are compared, then repaired (D17, D43).

The partner's MSH is asked, or an operator types in what the partner says. Nothing is changed but
by `apply`, on a suspended link, from rows that are read under its lock.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Count, F, Max, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Length

from msh.flows.errors import NotPossible, Proposal
from msh.flows.numbers import require_numbers
from msh.flows.operations.change_link import Done, require_as_seen
from msh.flows.operations.guard import allowed
from msh.flows.operations.inspection.copies import under_way
from msh.flows.receiving.link_status import enquire
from msh.flows.wake_up import WakeUp, wake_up, wake_up_for
from msh.models import (
    Direction,
    InboundLink,
    InboundMessage,
    OutboundLink,
    OutboundMessage,
    OutboundPayload,
    OutboundState,
    place_of,
)
from msh.protocol import link_status, receiver
from msh.protocol.errors import IllegalTransition
from msh.protocol.events import (
    AckReceived,
    Numbered,
    OperatorResumed,
    SequenceAdopted,
    SequenceReset,
    SequenceRewound,
)
from msh.protocol.four_eyes import Act, Verb
from msh.protocol.kinds import Verdict
from msh.protocol.lane import LaneState
from msh.protocol.link_status import LinkStatus
from msh.protocol.resynchronisation import Arriving, Plan, Repair, Run, Sent, arriving, plan
from msh.store.history import Actor
from msh.store.operations.operator_actions import cancel_queued, lock_messages, open_links
from msh.store.sending.links import OutboundLinks
from partners.models import Partner

QUEUED_ASKED = 1_000
"""Queued messages that a partner is asked about, from the head: after a restore of ours it may
have them already."""
RESYNCHRONISE, REWIND = "resynchronise", "rewind"
"""Names of the acts that a second person confirms."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of a pair. `received`: MessageIds queued here that the partner has already."""

    ours: Sent
    theirs: LinkStatus
    plan: Plan
    received: tuple[str, ...]
    arriving: Arriving
    arriving_text: str

    @property
    def agreed(self) -> str:
        made = self.plan
        return f"{made.repair}: {made.text} {made.lost} {made.duplicated} {len(self.received)}"


def ask(partner: Partner) -> LinkStatus:
    """Ask the partner's MSH for its link status, also about messages whose outcome is uncertain.
    Over the network.

    Raises NoStatus.
    """
    link = _link(partner)
    flying = [link.in_flight.message_id] if link.in_flight else []
    theirs = enquire(partner, flying)
    if plan(sent(link, theirs), theirs).repair is not Repair.ADOPT:
        return theirs
    queue = OutboundMessage.objects.head_of_queue(link.pk, QUEUED_ASKED)
    queued = list(queue.values_list("message_id", flat=True))
    return enquire(partner, [*flying, *queued])


def compare(partner: Partner, theirs: LinkStatus) -> Comparison:
    link = _link(partner)
    ours = sent(link, theirs)
    verdict, text = _arriving(partner, theirs)
    return Comparison(ours, theirs, plan(ours, theirs), _received(link, theirs), verdict, text)


def apply(
    partner: Partner,
    theirs: LinkStatus,
    actor: Actor,
    *,
    agreed: str = "",
    only: Repair | None = None,
    act: str = RESYNCHRONISE,
) -> Comparison:
    """Do what the plan says, then resume. Raises NotPossible, with nothing changed, if the plan
    asks a person, the link is not suspended, or a copy is still under way.

    `agreed`: what the operator has seen (`Comparison.agreed`), `only`: what helps; if under the
    lock it is another, nothing is done. `act`: what the operator chose, RESYNCHRONISE or REWIND.
    """
    require_numbers(partner)
    with transaction.atomic():
        links = OutboundLinks.lock([partner.pk])
        if partner.pk not in links or links.lane(partner.pk).state is not LaneState.SUSPENDED:
            raise NotPossible(
                f"The link to {partner.name} is not suspended: suspend it first, so that nothing"
                " is sent in the meantime."
            )
        comparison = compare(partner, theirs)
        if comparison.plan.repair is Repair.REWIND:
            _keep_from_retention(_link(partner), comparison.ours.anchor)
            comparison = compare(partner, theirs)
        _check_agreed(comparison, agreed, only)
        if under_way(_link(partner)):
            raise NotPossible(
                "A copy of the message in flight is still being sent. Retry in a moment."
            )
        with _confirmed(partner, comparison, actor, act):
            _repair(links, partner, comparison, actor)
            links.write()
            # The queue's head may be another now.
            resumed = OutboundLinks.load([partner.pk], links.now)
            resumed.step(partner.pk, OperatorResumed(), actor)
            resumed.write()
    wake_up(WakeUp.TRANSMIT)
    wake_up_for(links)
    wake_up_for(resumed)
    return comparison


def _confirmed(
    partner: Partner, comparison: Comparison, actor: Actor, chosen: str
) -> AbstractContextManager[None]:
    """A rewind may need a second person, by whichever action it is started. Values that an operator
    typed in are parameters; the answer of the partner's MSH is a fact, and it is asked again."""
    made, theirs = comparison.plan, comparison.theirs
    if made.repair is not Repair.REWIND:
        return nullcontext()
    said = f"the partner accepted {theirs.accepted_number or 'nothing'}"
    typed = None if was_asked(theirs) else link_status.as_typed(theirs)
    parameters = {"partner": partner.pk, "typed": typed}
    named = f", MessageId {theirs.accepted_message_id}" if theirs.accepted_message_id else ""
    known = f"; queued messages that it has already: {len(comparison.received)}"
    facts = f"{said}{named}. {made.text} Verdict: {made.verdict}{known}"
    act = Act(Verb.REWIND, chosen, parameters, facts)
    return allowed(_proposal(_link(partner), act, f"{partner.name}, {said}: {made.text}"), actor)


def was_asked(theirs: LinkStatus) -> bool:
    """Whether an MSH said it: it says what it sends next, an operator does not."""
    return theirs.next_number is not None


def _check_agreed(comparison: Comparison, agreed: str, only: Repair | None) -> None:
    made = comparison.plan
    if agreed and comparison.agreed != agreed:
        raise NotPossible("Nothing was done: the state of one side has changed. Compare again.")
    if only is Repair.REWIND and made.repair is not only:
        raise NotPossible(f"Nothing to rewind. {made.text}")
    if made.repair is Repair.ASK:
        raise NotPossible(made.text)


def _repair(links: OutboundLinks, partner: Partner, comparison: Comparison, actor: Actor) -> None:
    made, theirs = comparison.plan, comparison.theirs
    flying = comparison.ours.in_flight_message_id
    accepted = theirs.accepted_number or "nothing"
    sides = f"the partner accepted {accepted}, our next is {comparison.ours.coming}"
    detail = f"{sides}; {made.repair}: {made.text} Verdict: {made.verdict}"
    links.record(partner.pk, "", "Resynchronised", detail=detail, actor=actor)
    if made.completes:
        links.step(partner.pk, AckReceived(flying), actor)  # its word is as good as an Ack
    match made.repair:
        case Repair.REWIND if made.last is not None:
            links.step(partner.pk, SequenceRewound(made.last), actor)
        case Repair.ADOPT:
            lacks = theirs.has(flying) is False
            links.step(partner.pk, SequenceAdopted(made.next_number, lacks), actor)
    queued = OutboundMessage.objects.queued().filter(
        link__partner=partner, message_id__in=comparison.received
    )
    for message in lock_messages(queued.values_list("pk", flat=True)):
        if message.state == OutboundState.QUEUED:
            cancel_queued(links, message, Verdict.RECEIVED, actor)


def sent(link: OutboundLink, theirs: LinkStatus) -> Sent:
    numbered = OutboundMessage.objects.filter(link=link, sequence_number__isnull=False)
    last_theirs = numbered.filter(message_id=theirs.accepted_message_id).first()
    anchor = None
    if theirs.accepted_message_id and last_theirs and last_theirs.epoch:
        anchor = Numbered(last_theirs.sequence_number or 0, last_theirs.epoch)
    flying = link.in_flight
    return Sent(
        next_number=link.next_number,
        in_flight_number=flying.sequence_number if flying else None,
        in_flight_message_id=flying.message_id if flying else "",
        anchor=anchor,
        after_anchor=_runs(link, anchor),
    )


def _keep_from_retention(link: OutboundLink, anchor: Numbered | None) -> None:
    """Lock the messages to be sent again until this transaction ends: retention passes over locked
    rows. Rows that it is removing now are waited for, and do not count as stored then."""
    due = _due(link, anchor)
    list(due.order_by("pk").select_for_update(no_key=True).values_list("pk"))
    parts = OutboundPayload.objects.filter(message__in=due.values("pk")).order_by("pk")
    list(parts.select_for_update(no_key=True).values_list("pk"))


def _due(link: OutboundLink, anchor: Numbered | None) -> QuerySet[OutboundMessage]:
    """The messages after the anchor that the partner is to have; without one, of the last epoch."""
    due = OutboundMessage.objects.filter(link=link, sequence_number__isnull=False).filter(
        Q(state__in=[OutboundState.ACKNOWLEDGED, OutboundState.IN_FLIGHT, OutboundState.REWOUND])
        | Q(state=OutboundState.CANCELLED, outcome=Verdict.RECEIVED)
    )
    if anchor is None:
        epoch = due.aggregate(last=Max("epoch"))["last"]
        return due.filter(epoch=epoch)
    later = Q(epoch=anchor.epoch, sequence_number__gt=anchor.sequence_number)
    return due.filter(later | Q(epoch__gt=anchor.epoch))


def _runs(link: OutboundLink, anchor: Numbered | None) -> tuple[Run, ...]:
    """Return the runs of messages that are due. A message whose payloads retention has removed
    cannot be sent again: it does not count as stored."""
    parts = OutboundPayload.objects.filter(message=OuterRef("pk")).order_by().values("message")
    kept = Subquery(parts.annotate(size=Sum(Length("wire"))).values("size"))
    whole = Count("pk", filter=Q(size=0) | Q(kept__gte=F("size")))  # with its MIME headers
    runs = (
        _due(link, anchor)
        .annotate(kept=kept)
        .order_by()
        .values("epoch")
        .annotate(first=Min("sequence_number"), last=Max("sequence_number"), count=whole)
    )
    found = runs.order_by("epoch")
    return tuple(Run(r["epoch"] or 0, r["first"], r["last"], r["count"]) for r in found)


def _received(link: OutboundLink, theirs: LinkStatus) -> tuple[str, ...]:
    has = [message_id for message_id in theirs.known if theirs.acknowledges(message_id)]
    queued = OutboundMessage.objects.queued().filter(link=link, message_id__in=has)
    return tuple(queued.order_by("pk").values_list("message_id", flat=True))


def rewind(
    partner: Partner, theirs: LinkStatus, actor: Actor, *, agreed: str = "", act: str = REWIND
) -> Comparison:
    return apply(partner, theirs, actor, agreed=agreed, only=Repair.REWIND, act=act)


def _arriving(partner: Partner, theirs: LinkStatus) -> tuple[Arriving, str]:
    link = InboundLink.objects.filter(partner=partner).first()
    last = link.last_number if link else None
    expected = receiver.expected_after(last)
    flying = theirs.in_flight_message_id
    mine = InboundMessage.objects.filter(link__partner=partner, message_id=flying)
    return arriving(expected, theirs, bool(flying) and mine.exists())


def _link(partner: Partner) -> OutboundLink:
    open_links(partner)
    return OutboundLink.objects.select_related("in_flight", "partner").get(partner=partner)


def reset_sequence(
    partner: Partner,
    actor: Actor,
    if_message: str | None = None,
    if_suspended_since: datetime | None = None,
) -> Done:
    """The next message gets number 1 (D17). Only when nothing is in flight or in doubt."""
    require_numbers(partner)
    link = _link(partner)
    with transaction.atomic():
        links = OutboundLinks.lock([partner.pk])
        require_as_seen(links, partner, if_message, if_suspended_since)
        in_doubt = OutboundMessage.objects.filter(link=link, state=OutboundState.REWOUND).count()
        before = links.lane(partner.pk).next_number
        try:
            lane = links.step(partner.pk, SequenceReset(in_doubt), actor)
        except IllegalTransition:
            what = (
                f"{in_doubt} messages must still be sent again with their old numbers"
                if in_doubt
                else "a message is in flight: wait for its Acknowledgement or cancel it first"
            )
            raise NotPossible(
                f"The numbers to {partner.name} cannot start again at 1: {what}."
            ) from None
        act = Act(
            Verb.RESET, "reset_sequence", {"partner": partner.pk}, f"the next number is {before}"
        )
        text = f"the next message to {partner.name} gets number 1 instead of {before}."
        with allowed(_proposal(link, act, text), actor):
            links.write()
    wake_up(WakeUp.TRANSMIT)
    return Done(lane.state, "the next message gets number 1")


def _proposal(link: OutboundLink, act: Act, text: str) -> Proposal:
    return Proposal(act, text, link.partner_id, Direction.OUT, about=place_of(link))
