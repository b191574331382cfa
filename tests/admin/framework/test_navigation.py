"""The sidebar: what needs an operator is counted, and only permitted pages are listed."""

import re

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from msh.models import OutboundMessage
from partners.models import Agreement, OwnIdentity, Partner
from tests.admin.conftest import busy_world, client_of, url

pytestmark = pytest.mark.django_db

OF_THE_LIBRARY = {
    *("IntervalSchedule", "CrontabSchedule", "SolarSchedule", "ClockedSchedule"),
    *("AccessAttempt", "AccessLog", "AccessFailureLog"),
}
"""What schedules are made of, which is opened from the page of one; and the tables of log-ins."""


def test_the_title_of_a_page_keeps_the_name_of_its_row(administrator: Client) -> None:
    busy_world()
    message = OutboundMessage.objects.latest("pk")
    OutboundMessage.objects.filter(pk=message.pk).update(message_id="in-1")

    page = administrator.get(url(OutboundMessage, "change", message.pk)).content.decode()

    assert "<bdi>in-1</bdi>" in page
    assert "In-1" not in page


def test_each_list_has_a_title_of_its_own(administrator: Client) -> None:
    """F25 of the review of the console: "Select outbound link to view": ten tabs looked alike."""
    titles = {}
    for model in admin.site._registry:
        page = administrator.get(url(model, "changelist")).content.decode()
        (titles[model.__name__],) = re.findall(r"<title>\s*(.*?) \| MSH console", page)
    assert [name for name, title in titles.items() if title.startswith("Select ")] == []
    assert len(set(titles.values())) == len(titles)


def test_a_page_begins_with_what_it_is_and_not_with_the_name_of_the_product(
    administrator: Client,
) -> None:
    """F20: all crumbs began with "Message Service Handler", and there was no room for the rest."""
    busy_world()
    message = OutboundMessage.objects.latest("pk")
    page = administrator.get(url(OutboundMessage, "change", message.pk)).content.decode()
    crumbs = re.findall(r'truncate tracking-tight">\s*(?:<bdi>)?\s*([^<]+?)\s*<', page)
    assert crumbs == ["Outbound messages", message.message_id]


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
    assert {"Partners", "Bulk jobs", "Outbound", "Inbound"} < alarms.keys()


def test_the_menu_is_short_and_every_list_is_an_entry_or_a_tab(
    administrator: Client, settings: Settings
) -> None:
    settings.MSH_SECOND_PERSON = ["prune"]
    page = administrator.get(reverse("admin:index"))
    entries = [one for group in page.context["sidebar_navigation"] for one in group["items"]]
    assert len(entries) <= 16
    shown = {one["link"] for one in entries}
    for entry in entries:
        tabs = administrator.get(entry["link"]).context["tab_list"]
        shown |= {one["link"] for tab in tabs for one in tab["items"]}
    lists = {link.partition("?")[0] for link in shown}
    missing = [
        model.__name__
        for model in admin.site._registry
        if url(model, "changelist") not in lists and model.__name__ not in OF_THE_LIBRARY
    ]
    assert missing == []


def test_the_tab_of_a_page_is_marked(administrator: Client) -> None:
    page = administrator.get(url(Agreement, "changelist")).content.decode()
    (active,) = re.findall(r'class="active"[^>]*>\s*([^<]+?)\s*<', page)
    assert active == "Agreements"
    machines = administrator.get(url(User, "changelist"), {"kind": "machine"}).content.decode()
    assert re.findall(r'class="active"[^>]*>\s*([^<]+?)\s*<', machines) == ["Machine users"]


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
        assert groups
        tabs = client.get(url(Partner, "changelist")).context["tab_list"]
        return "This MSH" in [item["title"] for tab in tabs for item in tab["items"]]

    assert listed(administrator)
    assert not listed(operator)
    OwnIdentity.objects.create(msh_uri="https://us.example/msh/")
    assert listed(operator)
