"""Where an operator decides about an incident that suspends no link: one page, as a button."""

from collections.abc import Iterable, Mapping

from django.http import HttpRequest
from django.urls import reverse

from msh.admin.framework import markup
from msh.admin.framework.headline import Jump
from msh.admin.links.conversation import CONVERSATIONS
from msh.admin.messages.undelivered import new_consumer_url
from msh.flows.operations.actions import ASSIGN_TO_ME
from msh.flows.operations.inspection.standing import DELIVERIES
from msh.models import Delivery, Direction, Incident, OutboundMessage, link_of
from msh.protocol.kinds import DeliveryState, IncidentKind
from msh.store.delivery.unclaimed import Wanted, first_unclaimed

_OF_THE_MSH = (
    IncidentKind.STORE_SHORT,
    IncidentKind.CLOCK_DOUBTFUL,
    IncidentKind.RETENTION_TOO_SHORT,
)
"""Nothing about them is decided in the console."""


def first_steps(request: HttpRequest, incidents: Iterable[Incident]) -> Mapping[int, Jump]:
    """By incident. With one statement for those without a consumer, and one for the messages."""
    found = list(incidents)
    unclaimed = {one.partner_id for one in found if one.kind == IncidentKind.NO_CONSUMER}
    wanted, messages = first_unclaimed(unclaimed), _messages(found)
    rows = [(one, _step(request, one, wanted.get(one.partner_id), messages)) for one in found]
    return {incident.pk: step for incident, step in rows if step}


def to_assign(request: HttpRequest, incident: Incident) -> list[Jump]:
    """Who takes an incident that nobody has needs one click: others wait to see it."""
    taken = incident.assigned_to or incident.resolved_at
    if taken or not request.user.has_perms(ASSIGN_TO_ME.permissions):
        return []
    url = reverse(f"admin:msh_incident_{ASSIGN_TO_ME.name}", args=[incident.pk])
    return [Jump(ASSIGN_TO_ME.title, "front_hand", url, False, busy="Assigning …")]


def deliveries_url(incident: Incident, state: DeliveryState) -> str:
    partner = {"message__link__partner__id__exact": incident.partner_id}
    return markup.list_url(Delivery, state__exact=state, **partner)


def _messages(incidents: Iterable[Incident]) -> Mapping[tuple[int, str], int]:
    """Keys of the messages of ours that incidents name, by partner and MessageId."""
    named = [one for one in incidents if one.direction == Direction.OUT and one.message_id]
    found = OutboundMessage.objects.filter(
        link__partner__in={one.partner_id for one in named},
        message_id__in={one.message_id for one in named},
    ).values_list("link__partner", "message_id", "pk")
    return {(partner, message_id): pk for partner, message_id, pk in found} if named else {}


def _step(
    request: HttpRequest,
    incident: Incident,
    wanted: Wanted | None,
    messages: Mapping[tuple[int, str], int],
) -> Jump | None:
    may = request.user.has_perm
    if incident.kind in _OF_THE_MSH:
        return None
    if incident.kind in CONVERSATIONS:
        where = markup.list_url(
            CONVERSATIONS[incident.kind], link__partner__id__exact=incident.partner_id
        )
        return Jump("Waiting conversations", "speaker_notes", where, True)
    if incident.kind in DELIVERIES:
        where = deliveries_url(incident, DELIVERIES[incident.kind][0])
        return Jump("Deliveries", "move_to_inbox", where, True)
    if incident.kind == IncidentKind.NO_CONSUMER and wanted and may("msh.add_consumer"):
        where = new_consumer_url(wanted.partner_id, wanted.service_interface, wanted.action)
        return Jump("Add consumer", "add", where, True)
    key = messages.get((incident.partner_id, incident.message_id))
    if incident.direction == Direction.OUT and key and may("msh.view_outboundmessage"):
        where = reverse("admin:msh_outboundmessage_change", args=[key])
        return Jump("Message", "mail", where, True)
    return _link(incident)


def _link(incident: Incident) -> Jump:
    link = link_of(incident.partner, incident.direction)
    if link is None:
        return Jump(
            "Partner", "handshake", reverse("partner_page", args=[incident.partner_id]), True
        )
    if incident.direction == Direction.OUT:
        return Jump("Link to partner", "sync_alt", markup.page_url(link), True)
    return Jump("Link from partner", "call_received", markup.page_url(link), True)
