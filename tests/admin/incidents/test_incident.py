"""The list and the page of incidents."""

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.models import Direction, Incident
from msh.protocol.kinds import IncidentKind
from msh.store import incidents
from partners.models import Partner
from tests.admin.conftest import busy_world, client_of, suspended_world, url
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def test_open_incidents_come_first(administrator: Client) -> None:
    first, second = busy_world(), busy_world()
    Incident.objects.filter(partner=second.there).update(resolved_at="2026-01-01T00:00:00Z")

    def listed(**query: str) -> list[Partner]:
        response = administrator.get(url(Incident, "changelist"), query)
        return [incident.partner for incident in response.context["cl"].result_list]

    assert listed() == [first.there, second.there]
    assert listed(**{"is": "open"}) == [first.there]
    assert listed(**{"is": "resolved"}) == [second.there]


def test_an_open_incident_names_the_message_of_its_last_detail() -> None:
    partner = make_world().here
    for number in (5, 6):
        what = ("sequence_gap", f"m-{number}", f"number {number} out of turn")
        incidents.open_now(partner.pk, "in", *what)

    incident = Incident.objects.get()
    assert (incident.count, incident.message_id) == (2, "m-6")
    assert incident.detail == "number 6 out of turn"


@pytest.mark.parametrize("direction", ["in", "out"])
def test_partner_without_links_may_have_any_incident(
    administrator: Client, direction: Direction
) -> None:
    """A doubtful clock is noted at any partner, also at one that was just created."""
    for kind in IncidentKind:
        partner = Partner.objects.create(name=kind.value, uri=f"http://{kind}.example/".lower())
        incidents.open_now(partner.pk, direction, kind, "m-1", "the clock jumped")

    listed = administrator.get(url(Incident, "changelist"), {"is": "open"}).content.decode()
    dashboard = administrator.get(reverse("admin:index")).content.decode()

    for incident in Incident.objects.select_related("partner"):
        page = administrator.get(url(Incident, "change", incident.pk))
        assert page.status_code == 200
        where = reverse("partner_page", args=[incident.partner_id])
        assert f'href="{where}"' in page.content.decode()
        assert f'href="{where}"' in listed
    assert "the clock jumped" in dashboard


def test_incident_of_a_suspended_link_offers_resume() -> None:
    rights = ("view_incident", "resolve_incident", "view_outboundlink", "resume_outboundlink")
    client = client_of("kim", *rights)
    world = suspended_world()
    incident = Incident.objects.get(partner=world.there)
    page = reverse("admin:msh_incident_change", args=[incident.pk])
    resume = reverse("admin:msh_outboundlink_resume", args=[world.link.pk])

    assert [offer.url for offer in client.get(page).context["offers"]] == [resume]
    Incident.objects.filter(pk=incident.pk).update(kind="backlog")
    assert [offer.action.name for offer in client.get(page).context["offers"]] == ["resolve"]


def test_the_page_has_the_last_response_and_what_to_do(administrator: Client) -> None:
    world = suspended_world(queued=0)
    incident = Incident.objects.get(partner=world.there)

    page = administrator.get(url(Incident, "change", incident.pk)).content.decode()

    assert "415 Unsupported Media Type" in page
    assert "Recommended action" in page
    assert "The partner refused the message permanently" in page
    assert "REFUSED_BY_PEER" not in page
    assert reverse("admin:msh_outboundlink_resume", args=[world.link.pk]) in page


def test_a_resolved_incident_recommends_nothing(administrator: Client) -> None:
    world = suspended_world(queued=0)
    now = timezone.now()
    resolved = {"resolved_at": now, "resolved_by": "ann", "resolution": "they moved"}
    Incident.objects.filter(partner=world.there).update(**resolved)
    incident = Incident.objects.get(partner=world.there)

    page = administrator.get(url(Incident, "change", incident.pk)).content.decode()

    assert "Recommended action" not in page
    assert "they moved" in page
    assert "msh-headline-suspended" not in page
