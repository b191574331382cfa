"""Incidents that only a person can resolve."""

from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.models import History, Incident
from msh.store import incidents
from tests.flows.world import make_world

from .conftest import client_of, suspended_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def keeper() -> Client:
    return client_of("kim", "view_incident", "resolve_incident")


def inbound_incident() -> Incident:
    now = timezone.now()
    return Incident.objects.create(
        partner=make_world().here, direction="in", kind="sequence_gap", opened_at=now, last_at=now
    )


def resolve(client: Client, incident: Incident, reason: str = "they resent it") -> Any:
    address = reverse("admin:msh_incident_resolve", args=[incident.pk])
    return client.post(address, {"reason": reason})


def said(response: Any) -> str:
    return " ".join(str(message) for message in get_messages(response.wsgi_request))


def test_an_open_incident_names_the_message_of_its_last_detail() -> None:
    partner = make_world().here
    for number in (5, 6):
        what = ("sequence_gap", f"m-{number}", f"number {number} out of turn")
        incidents.open_now(partner.pk, "in", *what)

    incident = Incident.objects.get()
    assert (incident.count, incident.message_id) == (2, "m-6")
    assert incident.detail == "number 6 out of turn"


def test_resolve_keeps_who_and_why(keeper: Client) -> None:
    incident = inbound_incident()

    resolve(keeper, incident)

    incident.refresh_from_db()
    assert incident.resolved_at is not None
    assert (incident.resolved_by, incident.resolution) == ("kim", "they resent it")
    act = History.objects.get(event="IncidentResolved")
    assert (act.actor, act.detail) == ("kim", "sequence_gap; they resent it")


def test_resolved_is_not_resolved_again(keeper: Client) -> None:
    incident = inbound_incident()
    resolve(keeper, incident, "first")

    response = resolve(keeper, incident, "second")

    incident.refresh_from_db()
    assert incident.resolution == "first"
    assert response.status_code in (302, 403)


def test_what_a_link_is_suspended_for_is_resolved_by_resuming(keeper: Client) -> None:
    world = suspended_world()
    incident = Incident.objects.get(partner=world.there)

    response = resolve(keeper, incident)

    assert "is suspended for this reason. Resume it." in said(response)
    incident.refresh_from_db()
    assert incident.resolved_at is None


def test_the_incident_of_a_suspended_link_offers_what_mends_it() -> None:
    rights = ("view_incident", "resolve_incident", "view_outboundlink", "resume_outboundlink")
    client = client_of("kim", *rights)
    world = suspended_world()
    incident = Incident.objects.get(partner=world.there)
    page = reverse("admin:msh_incident_change", args=[incident.pk])
    resume = reverse("admin:msh_outboundlink_resume", args=[world.link.pk])

    assert [offer.url for offer in client.get(page).context["offers"]] == [resume]
    Incident.objects.filter(pk=incident.pk).update(kind="backlog")
    assert [offer.action.name for offer in client.get(page).context["offers"]] == ["resolve"]


def test_who_may_only_look_is_refused() -> None:
    incident = inbound_incident()

    response = resolve(client_of("vera", "view_incident"), incident)

    assert response.status_code == 403
    incident.refresh_from_db()
    assert incident.resolved_at is None


def test_get_changes_nothing(keeper: Client) -> None:
    incident = inbound_incident()

    keeper.get(reverse("admin:msh_incident_resolve", args=[incident.pk]))

    incident.refresh_from_db()
    assert incident.resolved_at is None
