"""Whom an incident was notified to, and what could not be sent."""

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from msh.flows.operations.notify_operators import notify_operators
from msh.models import Incident
from tests.admin.conftest import url
from tests.peer import Peer

pytestmark = pytest.mark.django_db


def test_page_of_an_incident_lists_notifications(
    keeper: Client, incident: Incident, settings: Settings
) -> None:
    (_, calls) = keeper.get(url(Incident, "change", incident.pk)).context["tables"]
    assert calls.rows == []
    with Peer() as hook:
        settings.MSH_OPERATORS_WEBHOOK = hook.address
        notify_operators()
    (_, calls) = keeper.get(url(Incident, "change", incident.pk)).context["tables"]
    assert (calls.rows[0][0], calls.rows[0][3]) == ("Webhook", 1)
    assert "sent" in str(calls.rows[0][1])


def test_unsent_notifications_are_listed(
    administrator: Client, incident: Incident, settings: Settings
) -> None:
    settings.MSH_OPERATORS_WEBHOOK = "http://127.0.0.1:9/"
    notify_operators()

    listed = administrator.get(
        reverse("admin:msh_operatornotice_changelist"), {"is": "waiting"}
    ).content.decode()

    assert "ClientConnectorError" in listed
    assert "refused_by_peer" in listed
