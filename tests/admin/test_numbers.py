"""The numbers that pages show: each says what it counts, and counts it."""

import csv
import io
import re
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.template.defaultfilters import filesizeformat
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from msh import roles
from msh.admin.framework.markup import page_url
from msh.models import (
    Delivery,
    History,
    Incident,
    OutboundConversation,
    OutboundMessage,
    PartyEvent,
    Preference,
)
from msh.protocol.kinds import IncidentKind
from msh.statistics.models import StatisticsProgress
from tests.admin.conftest import client_with_role, messages_of, suspended_world, url, use
from tests.admin.incidents.test_first_step import opened
from tests.admin.many import standing_deliveries
from tests.admin.messages.test_submit_again import failed
from tests.flows.flying import Sky, make_sky
from tests.flows.world import LOST, World, make_world

pytestmark = pytest.mark.django_db

CONTENT = "<order>äöü</order>"
SIZE = len(CONTENT.encode())


def table(page: Any, title: str) -> Any:
    (found,) = [one for one in page.context["tables"] if one.title.startswith(title)]
    return found


# --- size ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [make_sky, make_world])
def test_size_of_a_payload_is_that_of_its_content(reader: Client, make: Any) -> None:
    message = make().submit(CONTENT)
    page = reader.get(url(OutboundMessage, "change", message.pk))
    shown = {row[0]: str(row[5]) for row in table(page, "Payloads").rows}
    assert shown == {1: f"{SIZE}\xa0bytes"}
    sent = reader.post(url(OutboundMessage, "rows"), {"format": "csv"})
    rows = csv.DictReader(io.StringIO(b"".join(sent).decode()))
    assert {row["size"] for row in rows} == {str(SIZE)}


def test_size_of_the_body_is_what_was_sent(world: World, reader: Client) -> None:
    message, job = world.start(CONTENT)
    page = reader.get(url(OutboundMessage, "change", message.pk))
    page_admin = page.context["adminform"].model_admin
    row = page_admin.get_object(page.wsgi_request, str(message.pk))
    assert (page_admin.body_size(row), row.size) == (filesizeformat(len(job.body)), SIZE)


# --- what waits ----------------------------------------------------------------------------------
def test_all_that_waits_behind_stopped_deliveries_is_counted(operator: Client) -> None:
    first = standing_deliveries("blocked", behind=4)
    second = standing_deliveries("blocked", behind=3)
    Delivery.objects.filter(pk=second.pk).update(consumer=first.consumer)
    page = operator.get(reverse("admin:index"))
    (one,) = page.context["standing"]
    assert (one.count, one.behind, one.behind_first) == (2, 7, 4)
    assert "The first of 2 only." in page.content.decode()


def test_an_incident_says_how_often(sky: Sky, operator: Client) -> None:
    for _ in range(3):
        failed(sky)
    page = operator.get(reverse("admin:index"))
    assert [one.times for one in page.context["incidents"]] == [3]
    assert "<strong>\N{MULTIPLICATION SIGN}3</strong>" in page.content.decode()


def test_link_page_says_what_has_failed(sky: Sky, operator: Client) -> None:
    messages = [failed(sky) for _ in range(2)]
    page = operator.get(url(type(sky.link), "change", sky.link.pk))
    assert "2 messages have failed since" in page.content.decode()
    assert len(table(page, "Failed, and not submitted again").rows) == 2
    head = page.content.decode().partition("</section>")[0]
    partner_page = reverse("partner_page", args=[sky.partner.pk])
    links = set(re.findall(r'href="([^"]+)"', head))
    assert {page_url(Incident.objects.get()), partner_page} <= links
    listed = operator.get(url(OutboundMessage, "changelist")).content.decode()
    why = PartyEvent.objects.filter(message=messages[0]).latest("pk").detail
    assert f'title="{escape(why)}"' in listed
    use(client_with_role("sue", roles.SUPERVISOR), "submit_again", messages[0])
    again = operator.get(url(type(sky.link), "change", sky.link.pk))
    assert "1 message has failed since" in again.content.decode()
    assert OutboundConversation.objects.count() == 0


# --- time ---------------------------------------------------------------------------------------
def test_repetitions_are_in_the_zone_of_the_page(operator: Client) -> None:
    world = make_world(retries=9)
    message = world.submit()
    for _ in range(3):
        world.post(LOST)
        world.link.__class__.objects.update(due=timezone.now() - timedelta(seconds=1))
    Preference.objects.create(user=User.objects.get(username="ann"), time_zone="Asia/Kathmandu")
    page = operator.get(url(OutboundMessage, "change", message.pk))
    details = [str(row[-1]) for row in table(page, "Timeline").rows]
    (said,) = [detail for detail in details if "times since" in detail]
    assert "UTC" not in said
    assert f"{timezone.now().astimezone(ZoneInfo('Asia/Kathmandu')):%H:}" in said


def test_statistics_that_lag_are_not_zero(viewer: Client) -> None:
    now = timezone.now()
    StatisticsProgress.objects.create(up_to=now - timedelta(minutes=3))
    world = make_world()
    world.submit()
    world.settle()
    assert History.objects.filter(at__gt=now - timedelta(minutes=3)).exists()
    page = viewer.get(reverse("statistics"))
    assert page.context["figures"] == []
    assert "Not counted yet" in page.content.decode()


# --- messages that go on being true --------------------------------------------------------------
def test_what_was_done_does_not_name_a_state_that_changes(operator: Client) -> None:
    world: World = suspended_world()
    assert "Now:" not in messages_of(use(operator, "resume", world.link))


def test_a_partner_that_asked_us_to_wait_needs_nobody(world: World, operator: Client) -> None:
    message, job = world.start()
    world.end(job)
    wait = "503 Service Unavailable (Retry-After: 900 s): maintenance"
    message.attempts.update(outcome="failed", status=503, detail=wait, reason="wait")
    opened(world.there, "out", IncidentKind.STUCK)
    page = operator.get(reverse("partner_page", args=[world.there.pk]))
    text = page.content.decode()
    assert "No action is needed" in text
    assert "action required" not in text
    Incident.objects.update(kind=IncidentKind.PROCESSING_FAILED)
    page = operator.get(reverse("partner_page", args=[world.there.pk]))
    assert "action required" in page.content.decode()
