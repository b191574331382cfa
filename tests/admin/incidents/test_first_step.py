"""Where an operator decides about an incident is one click from the dashboard and from its page."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.models import Consumer, InboundConversation, InboundMessage, Incident, OutboundMessage
from msh.protocol.kinds import IncidentKind
from partners.models import Partner
from tests.admin.conftest import address, busy_world, url
from tests.admin.links.conversations import stop
from tests.admin.many import standing_deliveries
from tests.flows.flying import make_sky

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
    shown = [(jump.title, jump.url) for jump in page.context["jumps"]]
    assert [(jump.title, jump.url) for jump in listed.jumps] == shown
    return [(jump.title, jump.url) for jump in page.context["jumps"] if not jump.busy]


def waiting(actions: Sequence[str], conversations: Collection[int] = ()) -> Partner:
    """A partner from which these wait, with a consumer of the action Taken. `conversations`: which
    of them are in the order of a conversation, each of another."""
    delivery = standing_deliveries("blocked", behind=len(actions) - 1)
    link = delivery.message.link
    Consumer.objects.filter(pk=delivery.consumer_id).update(action="Taken")
    delivery.delete()
    for number, action in enumerate(actions):
        message = InboundMessage.objects.get(link=link, sequence_number=number + 1)
        message.service_interface, message.action = "Customs & Co", action
        if number in conversations:
            message.ordered_in = InboundConversation.objects.create(
                link=link,
                agreement=message.agreement,
                conversation_id=f"talk-{number}",
                last_at=timezone.now(),
            )
        message.save(update_fields=["service_interface", "action", "ordered_in"])
    return link.partner


@pytest.mark.parametrize(
    ("actions", "conversations"),
    [
        (["New", "Taken"], ()),
        (["New"], {0}),
        (["Taken", "New"], {1}),
        (["Taken", "New", "Taken"], {0, 1}),
    ],
    ids=["pair", "conversation", "after a pair that is taken", "after a conversation that is"],
)
def test_a_consumer_is_added_for_a_message_that_none_takes(
    administrator: Client, actions: list[str], conversations: Collection[int]
) -> None:
    waiting(["Other"])
    partner = waiting(actions, conversations)
    incident = opened(partner, "in", IncidentKind.NO_CONSUMER)

    ((title, where),) = steps(administrator, incident)

    assert title == "Add consumer"
    form = administrator.get(where).context["adminform"].form
    given = [form[name].value() for name in ("partner", "service_interface", "action")]
    assert given == [str(partner.pk), "Customs & Co", "New"]


def test_no_consumer_is_added_for_everything_where_none_is_missing(administrator: Client) -> None:
    partner = waiting(["Taken", "New"])
    incident = opened(partner, "in", IncidentKind.NO_CONSUMER)

    link = reverse("admin:msh_inboundlink_change", args=[partner.inbound_link.pk])
    assert steps(administrator, incident) == [("Link from partner", link)]


def test_who_may_not_add_a_consumer_goes_to_the_link(operator: Client) -> None:
    partner = waiting(["New"])
    incident = opened(partner, "in", IncidentKind.NO_CONSUMER)

    link = reverse("admin:msh_inboundlink_change", args=[partner.inbound_link.pk])
    assert steps(operator, incident) == [("Link from partner", link)]


def test_a_conversation_is_where_it_waits(operator: Client) -> None:
    partner = standing_deliveries("blocked", behind=0).message.link.partner
    incident = opened(partner, "out", IncidentKind.CONVERSATION_STOPPED)

    ((title, where),) = steps(operator, incident)

    assert title == "Waiting conversations"
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


def test_a_conversation_is_resumed_on_the_page_of_its_incident(
    operator: Client, viewer: Client
) -> None:
    sky = make_sky(ordered=True)
    message = stop(sky, "talk", behind=1)
    incident = Incident.objects.get(kind="conversation_stopped")

    page = operator.get(url(Incident, "change", incident.pk))
    first, *_ = page.context["offers"]
    assert (first.action.name, first.recommended) == ("resume", True)
    assert first.url == address("resume", message)
    assert [jump.recommended for jump in page.context["jumps"] if not jump.busy] == [False]
    page = viewer.get(url(Incident, "change", incident.pk))
    assert "resume" not in [offer.action.name for offer in page.context["offers"]]

    stop(sky, "other")
    page = operator.get(url(Incident, "change", incident.pk))
    assert "resume" not in [offer.action.name for offer in page.context["offers"]]
    assert [jump.recommended for jump in page.context["jumps"] if not jump.busy] == [True]


def test_an_idle_consumer_is_one_click_away(operator: Client) -> None:
    delivery = standing_deliveries("blocked", behind=0)
    incident = opened(delivery.message.link.partner, "in", IncidentKind.STUCK)
    Incident.objects.update(consumer=delivery.consumer.name, detail="no progress since noon")

    page = operator.get(url(Incident, "change", incident.pk)).content.decode()

    assert f'<a href="{url(Consumer, "change", delivery.consumer_id)}"' in page
