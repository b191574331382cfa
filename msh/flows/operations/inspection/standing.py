"""What is stopped for a message or an incident: it decides which actions an advice may name."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from msh.flows.operations import change_incident
from msh.flows.operations.many import stopped_messages
from msh.models import (
    EVER,
    HELD,
    Attempt,
    Delivery,
    Direction,
    Flight,
    InboundConversation,
    Incident,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    OutboundState,
    shown_state,
)
from msh.protocol.flight.value import FlightState
from msh.protocol.kinds import DeliveryState, IncidentKind
from msh.protocol.reason import Reason
from msh.store.flights.conversations import count_outstanding

from .flights import flight_of
from .ways import Standing


def standing_of_link(link: OutboundLink) -> Standing:
    """Return the standing of a suspended link."""
    return Standing.GATE if link.in_flight_id is None else Standing.LINK


def standing_of_message(message: OutboundMessage, now: datetime) -> Standing:
    """With its link and agreement, and its flight if it has one."""
    if message.state == OutboundState.FAILED and not message.holds_up:
        return Standing.FAILED
    if not message.flies:
        return Standing.OVER
    flight = flight_of(message)
    if flight is None or flight.state not in (FlightState.HELD, FlightState.FAILED):
        return Standing.OVER
    if flight.why_not_sent_again(now):
        return Standing.LAPSED
    return Standing.HELD if flight.state is FlightState.HELD else Standing.STOPS


def standing_of_broken(conversation: OutboundConversation) -> Standing:
    """Return the standing of a conversation with a missing number that was given up."""
    return Standing.OUTSTANDING if count_outstanding(conversation.pk) else Standing.BROKEN


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is stopped for an incident, and the first stopped message, if there is one."""

    standing: Standing
    message: OutboundMessage | None = None


def trouble_of(incident: Incident, now: datetime) -> Trouble:
    """LINK for an incident that no action on a message ends."""
    if incident.direction != Direction.OUT:
        return Trouble(Standing.LINK if _waits_here(incident) else Standing.OVER)
    if change_incident.suspends(incident):
        return Trouble(standing_of_link(incident.partner.outbound_link))
    if (message := _standing_still(incident)) is not None:
        return Trouble(standing_of_message(message, now), message)
    broken = _conversations(incident) if incident.kind == IncidentKind.CONVERSATION_STOPPED else ()
    found = [standing_of_broken(one) for one in broken]
    return Trouble(min(found, default=Standing.OVER))  # one that can be restarted comes first


DELIVERIES: dict[str, tuple[DeliveryState, ...]] = {
    IncidentKind.DELIVERY_FAILED: (DeliveryState.BLOCKED, DeliveryState.PARKED),
    IncidentKind.DELIVERY_IN_DOUBT: (DeliveryState.IN_DOUBT,),
    IncidentKind.DELIVERY_REJECTED: (DeliveryState.REJECTED,),
}
"""For incidents about deliveries: the states of the deliveries concerned."""


def _waits_here(incident: Incident) -> bool:
    """Whether a delivery or a conversation of the partner still stands as the incident says. True
    for incidents about something else."""
    if states := DELIVERIES.get(incident.kind):
        of_partner = Delivery.objects.filter(message__link__partner=incident.partner_id)
        return of_partner.filter(state__in=states).exists()
    if incident.kind == IncidentKind.PREDECESSOR_MISSING:
        waiting = InboundConversation.objects.waiting()
        return waiting.filter(link__partner=incident.partner_id).exists()
    return True


def failed_for(incident: Incident) -> QuerySet[OutboundMessage]:
    """Messages that failed for it, and of which no copy was submitted."""
    failed = stopped_messages.of(stopped_messages.failed(EVER), "", "", incident.pk)
    return failed.filter(corrected_by=None)


def _standing_still(incident: Incident) -> OutboundMessage | None:
    """The last message of the incident, if it stands still, or else the first that does."""
    messages = OutboundMessage.objects.of_partner(incident.partner_id).defer("head")
    messages = messages.select_related("link__partner", "agreement", "flight")
    messages = messages.annotate(shown=shown_state())
    if incident.kind == IncidentKind.CONVERSATION_STOPPED:
        stopping = [one for row in _conversations(incident) for one in row.stopped_by]
        return messages.filter(message_id__in=stopping).order_by("pk").first()
    last = messages.filter(message_id=incident.message_id).first() if incident.message_id else None
    if last is not None and _stands_still(last):
        return last
    held = Flight.objects.filter(
        state=HELD, link__partner=incident.partner_id, held_for=incident.kind
    )
    first = messages.filter(pk__in=held.order_by("pk").values("pk")[:1]).first()
    return first or failed_for(incident).first()


def _stands_still(message: OutboundMessage) -> bool:
    if message.state == OutboundState.FAILED:
        return not message.corrected_by.exists()
    flight = getattr(message, "flight", None)
    return flight is not None and flight.state == HELD


def _conversations(incident: Incident) -> list[OutboundConversation]:
    stopped = OutboundConversation.objects.waiting().filter(link__partner=incident.partner_id)
    return list(stopped[:100])


def last_attempt(incident: Incident) -> Attempt | None:
    """The last copy of its message."""
    if incident.direction != Direction.OUT or not incident.message_id:
        return None
    of_message = {"message__message_id": incident.message_id}
    sent = Attempt.objects.filter(message__link__partner=incident.partner_id, **of_message)
    return sent.order_by("-claimed_at").first()


def last_reason(incident: Incident) -> Reason:
    last = last_attempt(incident)
    return Reason(last.reason) if last else Reason.NONE
