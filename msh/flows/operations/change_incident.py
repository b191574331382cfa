"""Operators' actions on an incident: resolve it, assign it, add a note."""

from django.db import transaction

from msh.flows.errors import NotPossible
from msh.models import (
    Direction,
    InboundConversation,
    Incident,
    OutboundConversation,
    OutboundLink,
)
from msh.protocol.flight import serial
from msh.protocol.flight.numbering import NumberingState
from msh.protocol.kinds import IncidentKind
from msh.store.delivery import deliveries
from msh.store.history import Actor
from msh.store.incidents import add_note, assign_incident, resolve_incident


def suspends(incident: Incident) -> bool:
    suspended = OutboundLink.objects.suspended().filter(suspended_for=incident.kind)
    sending = incident.resolved_at is None and incident.direction == Direction.OUT
    return sending and suspended.filter(partner=incident.partner_id).exists()


def cause_left(incident: Incident) -> str:
    """Return what has to be done instead of resolving it, as sentences; empty if it may be
    resolved.

    A suspended link has to be resumed, a waiting delivery needs a decision, and a stopped
    conversation, or one with a missing number, needs its message: no new incident would be opened
    for them.
    """
    if suspends(incident):
        return (
            f"Sending to partner {incident.partner.name} is suspended for this reason."
            " Resume the link."
        )
    if waiting := deliveries.undecided(incident.partner_id, incident.kind):
        return (
            f"Deliveries from partner {incident.partner.name} still need a decision: {waiting}."
            " Decide on them; the incident is resolved with the last one."
        )
    if lacking := _lacking_conversation(incident):
        number = serial.FIRST if lacking.next_number is None else lacking.next_number
        return (
            f"Conversation {lacking} of partner {incident.partner.name} lacks number {number}."
            " Extend the wait, skip the missing messages, or drop the held ones; the incident"
            " is resolved with the last conversation."
        )
    if stopped := _stopped_conversation(incident):
        return (
            f"A conversation with {incident.partner.name} is stopped: {stopped}. Resume its"
            " message, or restart it; the incident is resolved with the last conversation."
        )
    return ""


def _stopped_conversation(incident: Incident) -> OutboundConversation | None:
    if incident.kind != IncidentKind.CONVERSATION_STOPPED:
        return None
    stopped = OutboundConversation.objects.filter(state=NumberingState.STOPPED)
    return stopped.filter(link__partner=incident.partner_id).order_by("pk").first()


def _lacking_conversation(incident: Incident) -> InboundConversation | None:
    """Whose hole an incident was opened for."""
    if incident.kind != IncidentKind.PREDECESSOR_MISSING:
        return None
    called = InboundConversation.objects.waiting().filter(called=True)
    return called.filter(link__partner=incident.partner_id).first()


def resolve(incident: Incident, actor: Actor) -> None:
    with transaction.atomic():
        if instead := cause_left(incident):
            raise NotPossible(instead)
        if not resolve_incident(incident, actor):
            raise NotPossible("The incident is already resolved.")


def take(incident: Incident, actor: Actor) -> None:
    assign(incident, actor, actor.name)


def assign(incident: Incident, actor: Actor, to: str) -> None:
    with transaction.atomic():
        if not assign_incident(incident, to, actor):
            raise NotPossible("The incident is resolved and cannot be assigned.")
        why = f": {actor.reason}" if actor.reason else ""
        add_note(incident, Actor(actor.name, f"For {to or 'anybody'}{why}"))


def note(incident: Incident, actor: Actor) -> None:
    add_note(incident, actor)
