"""Where an operator decides about an incident is one click from the dashboard and from its page."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.models import Incident, OutboundMessage
from msh.protocol.kinds import IncidentKind
from tests.admin.conftest import busy_world
from tests.admin.many import standing_deliveries

pytestmark = pytest.mark.django_db


def opened(partner: Any, direction: str, kind: IncidentKind, message_id: str = "") -> Incident:
    now = timezone.now()
    incident: Incident = Incident.objects.create(
        partner=partner, direction=direction, kind=kind, message_id=message_id,
        opened_at=now, last_at=now,
    )  # fmt: skip
    return incident


def steps(client: Client, incident: Incident) -> list[tuple[str, str]]:
    page = client.get(reverse("admin:msh_incident_change", args=[incident.pk]))
    (listed,) = client.get(reverse("admin:index")).context["incidents"]
    assert listed["jumps"] == page.context["jumps"]
    return [(jump.title, jump.url) for jump in page.context["jumps"]]


def test_a_consumer_is_added_for_the_message_that_waits(administrator: Client) -> None:
    message = standing_deliveries("blocked", behind=0).message
    type(message).objects.filter(pk=message.pk).update(service_interface="Customs & Co", action="N")
    partner = message.link.partner
    incident = opened(partner, "in", IncidentKind.NO_CONSUMER)

    ((title, where),) = steps(administrator, incident)

    assert title == "Add consumer"
    form = administrator.get(where).context["adminform"].form
    given = [form[name].value() for name in ("partner", "service_interface", "action")]
    assert given == [str(partner.pk), "Customs & Co", "N"]


def test_who_may_not_add_a_consumer_goes_to_the_link(operator: Client) -> None:
    partner = standing_deliveries("blocked", behind=0).message.link.partner
    incident = opened(partner, "in", IncidentKind.NO_CONSUMER)

    link = reverse("admin:msh_inboundlink_change", args=[partner.inbound_link.pk])
    assert steps(operator, incident) == [("Link from partner", link)]


def test_a_conversation_is_where_it_waits(operator: Client) -> None:
    partner = standing_deliveries("blocked", behind=0).message.link.partner
    incident = opened(partner, "out", IncidentKind.CONVERSATION_STOPPED)

    ((title, where),) = steps(operator, incident)

    assert title == "Conversations that wait"
    assert where.startswith(reverse("admin:msh_outboundconversation_changelist"))


def test_a_message_that_expired_is_one_click_away(operator: Client) -> None:
    world = busy_world()
    Incident.objects.all().delete()
    message = OutboundMessage.objects.filter(link=world.link).first()
    assert message
    incident = opened(world.there, "out", IncidentKind.MESSAGE_EXPIRED, message.message_id)

    where = reverse("admin:msh_outboundmessage_change", args=[message.pk])
    assert steps(operator, incident) == [("Message", where)]


def test_what_is_resolved_or_of_the_whole_msh_leads_nowhere(operator: Client) -> None:
    partner = standing_deliveries("blocked", behind=0).message.link.partner
    assert steps(operator, opened(partner, "in", IncidentKind.CLOCK_DOUBTFUL)) == []
    incident = opened(partner, "in", IncidentKind.SEQUENCE_GAP)
    Incident.objects.filter(pk=incident.pk).update(resolved_at=timezone.now())

    page = operator.get(reverse("admin:msh_incident_change", args=[incident.pk]))

    assert page.context["jumps"] == []
