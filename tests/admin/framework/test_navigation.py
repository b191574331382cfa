"""The sidebar: what needs an operator is counted, and only permitted pages are listed."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from msh.models import OutboundMessage
from partners.models import OwnIdentity
from tests.admin.conftest import busy_world, client_of, url

pytestmark = pytest.mark.django_db


def test_the_title_of_a_page_keeps_the_name_of_its_row(administrator: Client) -> None:
    busy_world()
    message = OutboundMessage.objects.latest("pk")
    OutboundMessage.objects.filter(pk=message.pk).update(message_id="in-1")

    page = administrator.get(url(OutboundMessage, "change", message.pk)).content.decode()

    assert "<bdi>in-1</bdi>" in page
    assert "In-1" not in page


def test_every_page_names_its_icon(administrator: Client) -> None:
    page = administrator.get(reverse("admin:index")).content.decode()

    assert re.search(r'<link rel="icon" href="/static/msh/icon[^"]*\.svg[^"]*"', page)


def test_the_sidebar_counts_what_needs_an_operator(administrator: Client) -> None:
    busy_world()

    page = administrator.get(reverse("admin:index"))

    alarms = {
        item["title"]: item.get("badge")
        for group in page.context["sidebar_navigation"]
        for item in group["items"]
    }
    assert alarms["Links to partners"] == 1
    assert alarms["Incidents"] == 1
    assert {"Partners", "Agreements", "Schedules", "Outbound", "Inbound"} < alarms.keys()


def test_the_sidebar_shows_only_what_the_user_may_see() -> None:
    client = client_of("carl", "view_incident")

    page = client.get(reverse("admin:index"))

    groups = page.context["sidebar_navigation"]
    assert [item["title"] for group in groups for item in group["items"]] == [
        "Dashboard",
        "Incidents",
    ]


def test_our_identity_is_listed_for_who_may_enter_it_and_when_there_is_one(
    operator: Client, administrator: Client
) -> None:
    def listed(client: Client) -> bool:
        groups = client.get(reverse("admin:index")).context["sidebar_navigation"]
        return "This MSH" in [item["title"] for group in groups for item in group["items"]]

    assert listed(administrator)
    assert not listed(operator)
    OwnIdentity.objects.create(msh_uri="https://us.example/msh/")
    assert listed(operator)
