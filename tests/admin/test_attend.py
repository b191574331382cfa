"""Incidents are taken, given away and written about."""

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from msh.flows.operations.notify_operators import notify_operators
from msh.models import History, Incident, IncidentNote
from tests.peer import Peer

from .conftest import client_of, submit, suspended_world

pytestmark = pytest.mark.django_db

VERBS = ("take", "assign", "note")


@pytest.fixture
def keeper() -> Client:
    return client_of("kim", "view_incident", "assign_incident")


@pytest.fixture
def incident() -> Incident:
    suspended_world()
    return Incident.objects.get()


def address(verb: str, incident: Incident) -> str:
    return reverse(f"admin:msh_incident_{verb}", args=[incident.pk])


def page(incident: Incident) -> str:
    return reverse("admin:msh_incident_change", args=[incident.pk])


def test_who_takes_an_incident_is_seen(keeper: Client, incident: Incident) -> None:
    submit(keeper, address("take", incident), "I know their gateway")

    incident.refresh_from_db()
    assert incident.assigned_to == "kim"
    act = History.objects.get(event="IncidentAssigned")
    assert (act.actor, act.detail) == (
        "kim",
        "refused_by_peer; nobody → kim; I know their gateway",
    )
    (notes, _) = keeper.get(page(incident)).context["tables"]
    assert "For kim: I know their gateway" in str(notes.rows[0][2])
    listed = keeper.get(reverse("admin:msh_incident_changelist"), {"is": "mine"})
    assert list(listed.context["cl"].result_list) == [incident]


def test_an_incident_is_given_away_and_back(keeper: Client, incident: Incident) -> None:
    client_of("noor", "view_incident")

    submit(keeper, address("assign", incident), "your shift", to="noor")
    incident.refresh_from_db()
    assert incident.assigned_to == "noor"
    submit(keeper, address("assign", incident), "shift over", to="")
    incident.refresh_from_db()
    assert incident.assigned_to == ""
    refused = submit(keeper, address("assign", incident), "x", to="nobody-of-this-name")
    assert "to" in refused.context["form"].errors


def test_two_who_take_it_at_once_are_not_both_told_so(keeper: Client, incident: Incident) -> None:
    other = client_of("omar", "view_incident", "assign_incident")
    where = address("take", incident)
    version = other.get(where).context["form"]["version"].value()
    submit(keeper, where)

    other.post(where, {"version": version, "reason": "mine"})

    incident.refresh_from_db()
    assert incident.assigned_to == "kim"


def test_a_note_is_kept_also_when_it_is_resolved(keeper: Client, incident: Incident) -> None:
    Incident.objects.update(resolved_at="2026-11-21T00:00:00Z", resolved_by="ann")

    submit(keeper, address("note", incident), "it was <b>their</b> certificate")
    submit(keeper, address("take", incident))

    note = IncidentNote.objects.get()
    assert (note.author, note.text) == ("kim", "it was <b>their</b> certificate")
    text = keeper.get(page(incident)).content.decode()
    assert "it was &lt;b&gt;their&lt;/b&gt; certificate" in text
    assert address("take", incident) not in text


@pytest.mark.parametrize("verb", VERBS)
def test_get_changes_nothing_and_a_viewer_may_not(
    keeper: Client, incident: Incident, verb: str
) -> None:
    viewer = client_of("vera", "view_incident", "resolve_incident")
    before = Incident.objects.values().get()

    assert keeper.get(address(verb, incident)).status_code == 200
    fields = {"version": "", "reason": "x", "to": ""}
    assert viewer.post(address(verb, incident), fields).status_code == 403
    assert address(verb, incident) not in viewer.get(page(incident)).content.decode()

    assert Incident.objects.values().get() == before
    assert not IncidentNote.objects.exists()


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_csrf_token_nothing_happens(incident: Incident, verb: str) -> None:
    strict = client_of("kim", "view_incident", "assign_incident", enforce_csrf_checks=True)

    fields = {"version": "", "reason": "x", "to": ""}
    assert strict.post(address(verb, incident), fields).status_code == 403
    assert not IncidentNote.objects.exists()


def test_the_page_says_who_was_called(
    keeper: Client, incident: Incident, settings: Settings
) -> None:
    (_, calls) = keeper.get(page(incident)).context["tables"]
    assert calls.rows == []
    with Peer() as hook:
        settings.MSH_OPERATORS_WEBHOOK = hook.address
        notify_operators()
    (_, calls) = keeper.get(page(incident)).context["tables"]
    assert (calls.rows[0][0], calls.rows[0][3]) == ("Webhook", 1)
    assert "sent" in str(calls.rows[0][1])


def test_what_has_not_come_through_is_listed(
    administrator: Client, incident: Incident, settings: Settings
) -> None:
    settings.MSH_OPERATORS_WEBHOOK = "http://127.0.0.1:9/"
    notify_operators()

    listed = administrator.get(
        reverse("admin:msh_operatornotice_changelist"), {"is": "waiting"}
    ).content.decode()

    assert "ClientConnectorError" in listed
    assert "refused_by_peer" in listed
