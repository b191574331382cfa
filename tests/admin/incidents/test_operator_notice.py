"""Whom an incident was notified to, and what could not be sent."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from msh.alerts.admin.operator_notice import failing
from msh.alerts.flows.notify_operators import TRIES, notify_operators
from msh.alerts.models import AlertRecipient, Channel, OperatorNotice
from msh.models import Incident
from msh.protocol.kinds import IncidentKind
from tests.admin.conftest import url
from tests.flows.alerts.conftest import recipient
from tests.flows.costs import cost, multiply
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

    assert "Cannot connect to 127.0.0.1:9: Connection refused" in listed
    assert "The partner refused the message permanently" in listed
    assert "not sent, retrying" in listed


def test_alerts_that_could_not_be_sent_are_on_the_dashboard(
    operator: Client, incident: Incident, settings: Settings
) -> None:
    notify_operators()
    assert "not sent" not in operator.get(reverse("admin:index")).content.decode()
    recipient("night shift", Channel.WEBHOOK, url="http://127.0.0.1:9/")
    Incident.objects.update(announced=False)
    notify_operators()
    one_line = "1 alert not sent</a></strong> to <bdi>night shift</bdi> (1). Last error: <bdi>"
    assert one_line in operator.get(reverse("admin:index")).content.decode()

    given_up = OperatorNotice.objects.filter(sent_at=None)
    given_up.update(given_up=True, tries=TRIES)
    assert one_line in operator.get(reverse("admin:index")).content.decode()
    for values in ({"due": timezone.now() - timedelta(days=2)}, {"tries": TRIES - 1}):
        given_up.update(**{"due": timezone.now(), "tries": TRIES, **values})
        assert "not sent" not in operator.get(reverse("admin:index")).content.decode()


def test_alerts_that_were_sent_are_not_read_for_the_dashboard(
    incident: Incident, settings: Settings
) -> None:
    settings.MSH_OPERATORS_WEBHOOK = "http://127.0.0.1:9/"
    notify_operators()
    notice = OperatorNotice.objects.get()
    multiply(notice, 5000, sent_at="now()", to="'to-' || n")
    asked: list[tuple[str, Any]] = []

    def watch(execute: Any, sql: str, values: Any, many: bool, context: Any) -> Any:
        asked.append((sql, values))
        return execute(sql, values, many, context)

    with connection.execute_wrapper(watch):
        found = failing()
    assert found
    assert found.total == 1
    assert [cost(*one, by_index=False) < 30 for one in asked] == [True, True]


def test_the_page_of_an_incident_says_why_nobody_was_alerted(
    keeper: Client, incident: Incident
) -> None:
    def why() -> str:
        (_, alerts) = keeper.get(url(Incident, "change", incident.pk)).context["tables"]
        assert alerts.rows == []
        return str(alerts.empty)

    assert why() == "None: no recipient is configured."
    Incident.objects.update(kind=IncidentKind.BACKLOG)
    night = recipient(
        "night shift", Channel.WEBHOOK, url="http://127.0.0.1:9/", at_least="critical"
    )
    assert why() == "None: no recipient for severity warning of this partner is configured."
    AlertRecipient.objects.filter(pk=night.pk).update(at_least="warning")
    assert why() == "None yet."
    Incident.objects.update(announced=True)
    assert why().startswith("None: there was no recipient when it opened")
