"""Resolve, assign, add a note."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.models import History, Incident, IncidentNote
from tests.admin.conftest import address, client_of, messages_of, submit, suspended_world, url
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def inbound_incident() -> Incident:
    now = timezone.now()
    return Incident.objects.create(
        partner=make_world().here, direction="in", kind="sequence_gap", opened_at=now, last_at=now
    )


def resolve(client: Client, incident: Incident, reason: str = "they resent it") -> Any:
    address = reverse("admin:msh_incident_resolve", args=[incident.pk])
    return client.post(address, {"reason": reason})


def test_resolve_keeps_who_and_why(keeper: Client) -> None:
    incident = inbound_incident()

    resolve(keeper, incident)

    incident.refresh_from_db()
    assert incident.resolved_at is not None
    assert (incident.resolved_by, incident.resolution) == ("kim", "they resent it")
    act = History.objects.get(event="IncidentResolved")
    assert (act.actor, act.detail) == ("kim", "sequence_gap; they resent it")


def test_resolved_incident_is_not_resolved_again(keeper: Client) -> None:
    incident = inbound_incident()
    resolve(keeper, incident, "first")

    response = resolve(keeper, incident, "second")

    incident.refresh_from_db()
    assert incident.resolution == "first"
    assert response.status_code in (302, 403)


def test_incident_of_a_suspended_link_is_resolved_by_resuming(keeper: Client) -> None:
    world = suspended_world()
    incident = Incident.objects.get(partner=world.there)

    response = resolve(keeper, incident)

    assert "is suspended for this reason. Resume the link." in messages_of(response)
    incident.refresh_from_db()
    assert incident.resolved_at is None


def test_assignment_of_an_incident_is_shown(keeper: Client, incident: Incident) -> None:
    submit(keeper, address("assign_to_me", incident), "I know their gateway")

    incident.refresh_from_db()
    assert incident.assigned_to == "kim"
    act = History.objects.get(event="IncidentAssigned")
    assert (act.actor, act.detail) == (
        "kim",
        "refused_by_peer; nobody → kim; I know their gateway",
    )
    (notes, _) = keeper.get(url(Incident, "change", incident.pk)).context["tables"]
    assert "For kim: I know their gateway" in str(notes.rows[0][2])
    listed = keeper.get(reverse("admin:msh_incident_changelist"), {"is": "mine"})
    assert list(listed.context["cl"].result_list) == [incident]


def test_incident_is_assigned_and_unassigned(keeper: Client, incident: Incident) -> None:
    client_of("noor", "view_incident")

    submit(keeper, address("assign", incident), "your shift", to="noor")
    incident.refresh_from_db()
    assert incident.assigned_to == "noor"
    submit(keeper, address("assign", incident), "shift over", to="")
    incident.refresh_from_db()
    assert incident.assigned_to == ""
    refused = submit(keeper, address("assign", incident), "x", to="nobody-of-this-name")
    assert "to" in refused.context["form"].errors


def test_two_operators_cannot_both_take_an_incident(keeper: Client, incident: Incident) -> None:
    other = client_of("omar", "view_incident", "assign_incident")
    where = address("assign_to_me", incident)
    version = other.get(where).context["form"]["version"].value()
    submit(keeper, where)

    other.post(where, {"version": version, "reason": "mine"})

    incident.refresh_from_db()
    assert incident.assigned_to == "kim"


def test_note_can_be_added_to_a_resolved_incident(keeper: Client, incident: Incident) -> None:
    Incident.objects.update(resolved_at="2026-11-21T00:00:00Z", resolved_by="ann")

    submit(keeper, address("note", incident), "it was <b>their</b> certificate")
    submit(keeper, address("assign_to_me", incident))

    note = IncidentNote.objects.get()
    assert (note.author, note.text) == ("kim", "it was <b>their</b> certificate")
    text = keeper.get(url(Incident, "change", incident.pk)).content.decode()
    assert "it was &lt;b&gt;their&lt;/b&gt; certificate" in text
    assert address("assign_to_me", incident) not in text
