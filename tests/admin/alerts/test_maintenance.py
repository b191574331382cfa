"""Maintenance windows in the console: planned on the page of a link, seen, and ended."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh import roles
from msh.flows.operations import watch
from msh.models import MaintenanceWindow, OutboundLink
from msh.store.operations.operator_actions import open_links
from tests.admin.conftest import address, client_with_role, messages_of, url, use
from tests.admin.many import UNAUTHORIZED, suspended_partners
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    made = make_world()
    open_links(made.there)
    return made


def plan(client: Client, world: World) -> str:
    starts, ends = (timezone.now() + timedelta(minutes=one) for one in (-1, 120))
    times = {"starts_at": f"{starts:%Y-%m-%d %H:%M}", "ends_at": f"{ends:%Y-%m-%d %H:%M}"}
    return messages_of(use(client, "plan_maintenance", world.link, "release 7", **times))


def test_window_is_planned_shown_and_ended(operator: Client, world: World) -> None:
    assert "maintenance is planned from" in plan(operator, world)
    window = MaintenanceWindow.objects.get()
    assert (window.planned_by, window.reason) == ("ann", "release 7")
    assert "Nothing was planned" in plan(operator, world)
    watch.follow_maintenance()

    for page in (
        url(type(world.link), "change", world.link.pk),
        reverse("partner_page", args=[world.there.pk]),
    ):
        shown = operator.get(page).content.decode()
        assert "planned by <bdi>ann</bdi>: <bdi>release 7.</bdi>" in shown, page
    assert "running" in operator.get(url(MaintenanceWindow, "changelist")).content.decode()

    assert "sending to" in operator.get(address("end", window)).content.decode()
    assert "The window is over." in messages_of(use(operator, "end", window))
    window.refresh_from_db()
    assert (window.state, window.ended_by, world.link.state) == ("ended", "ann", "idle")
    assert "planned by" not in operator.get(page).content.decode()


@pytest.mark.parametrize(("chosen", "state"), [(False, "suspended"), (True, "idle")])
def test_a_suspended_link_is_resumed_at_the_end_if_chosen(
    operator: Client, world: World, chosen: bool, state: str
) -> None:
    use(operator, "suspend", world.link, "they asked for it")
    dialog = operator.get(address("plan_maintenance", world.link)).content.decode()
    assert "It stays suspended at the end of the window, unless you select below" in dialog
    ticked = {"resume_suspended": "on"} if chosen else {}
    use(operator, "plan_maintenance", world.link, lasts="30", **ticked)
    watch.follow_maintenance()

    page = operator.get(url(OutboundLink, "change", world.link.pk)).content.decode()
    assert ("this window does not resume it" in page) is not chosen
    assert ("A maintenance window is running, and resumes the link at its end" in page) is chosen
    use(operator, "end", MaintenanceWindow.objects.get())
    assert world.link.state == state


def test_an_empty_list_leads_only_who_may_plan_to_a_plan(operator: Client) -> None:
    viewer = client_with_role("vera", roles.VIEWER)
    pages = [one.get(url(MaintenanceWindow, "changelist")) for one in (operator, viewer)]
    said = ["Plan maintenance is above" in page.content.decode() for page in pages]
    assert said == [True, False]


def test_a_window_that_suspended_a_link_is_to_be_ended(operator: Client, world: World) -> None:
    plan(operator, world)
    watch.follow_maintenance()
    end = address("end", MaintenanceWindow.objects.get())

    for page in (
        operator.get(url(OutboundLink, "change", world.link.pk)),
        operator.get(reverse("partner_page", args=[world.there.pk])),
    ):
        html = page.content.decode()
        assert "If the maintenance is over, end the window" in html
        assert f'href="{end}" id="jump:{end}" class="msh-action msh-action-recommended"' in html
        assert not any(offer.recommended for offer in page.context["offers"])
    dialog = operator.get(address("resume", world.link)).content.decode()
    assert "The maintenance window goes on until" in dialog

    use(operator, "resume", world.link)
    use(operator, "suspend", world.link)
    page = operator.get(url(OutboundLink, "change", world.link.pk))
    assert [offer.action.name for offer in page.context["offers"] if offer.recommended] == [
        "resume"
    ]
    assert "goes on until" in operator.get(address("resume", world.link)).content.decode()
    use(operator, "end", MaintenanceWindow.objects.get())
    assert "goes on until" not in operator.get(address("resume", world.link)).content.decode()


@pytest.mark.parametrize(("days", "told"), [(8, True), (7, False)])
def test_a_long_window_is_marked(operator: Client, world: World, days: int, told: bool) -> None:
    starts = timezone.now().replace(second=0, microsecond=0)
    times = {"starts_at": starts, "ends_at": starts + timedelta(days=days)}
    written = {name: f"{at:%Y-%m-%d %H:%M}" for name, at in times.items()}
    said = messages_of(use(operator, "plan_maintenance", world.link, "short", **written))
    marked = f"It lasts {days} days, and nobody is called meanwhile: check the end."
    assert (marked in said) is told
    assert (marked in operator.get(url(MaintenanceWindow, "changelist")).content.decode()) is told


def test_a_window_begins_now_and_lasts_as_long_as_selected(operator: Client, world: World) -> None:
    now = timezone.now()
    said = messages_of(use(operator, "plan_maintenance", world.link, "release", lasts="30"))
    assert " UTC" in said
    window = MaintenanceWindow.objects.get()
    assert now <= window.starts_at <= timezone.now()
    assert timedelta(minutes=29) < window.ends_at - window.starts_at <= timedelta(minutes=30)


def test_a_window_lasts_from_its_beginning(operator: Client, world: World) -> None:
    use(operator, "plan_maintenance", world.link, starts_at="2030-01-01 10:00", lasts="120")
    window = MaintenanceWindow.objects.get()
    assert window.ends_at - window.starts_at == timedelta(hours=2)


@pytest.mark.parametrize("ends", [{}, {"lasts": "30", "ends_at": "2030-01-01 00:00"}])
def test_a_window_has_one_end(operator: Client, world: World, ends: dict[str, str]) -> None:
    page = use(operator, "plan_maintenance", world.link, **ends)
    assert "one of them" in page.content.decode()
    assert not MaintenanceWindow.objects.exists()


def test_the_dialog_says_what_time_it_is_in_utc(operator: Client, world: World) -> None:
    operator.post(reverse("time_zone"), {"zone": "Asia/Tokyo"})
    page = operator.get(address("plan_maintenance", world.link)).content.decode()
    assert re.search(r"Asia/Tokyo, where it is [-0-9]+ [0-9:]+ JST \([0-9:]+ UTC\)", page)


def test_times_are_entered_in_24_hours(operator: Client, world: World) -> None:
    use(operator, "plan_maintenance", world.link, starts_at="10 pm", ends_at="2030-01-01 00:00")
    assert not MaintenanceWindow.objects.exists()


def test_maintenance_of_several_partners_is_planned_on_the_list(
    operator: Client, viewer: Client, world: World
) -> None:
    plan(operator, world)
    other = make_world()
    open_links(other.there)
    where = "/admin/msh/maintenancewindow/plan/"
    windows = url(MaintenanceWindow, "changelist")
    assert where in operator.get(windows).content.decode()
    assert where not in viewer.get(windows).content.decode()
    assert viewer.get(where).status_code == 403

    sent = {"partners": [world.there.pk, other.there.pk], "lasts": "30", "reason": "their network"}
    assert operator.post(where, {**sent, "reason": ""}).status_code == 200
    assert not MaintenanceWindow.objects.filter(partner=other.there).exists()
    said = messages_of(operator.post(where, sent))
    assert f"{world.there}: Nothing was planned" in said
    assert f"Partner {other.there}: maintenance is planned from" in said
    window = MaintenanceWindow.objects.get(partner=other.there)
    assert (window.planned_by, window.reason) == ("ann", "their network")


def test_a_group_of_the_dashboard_leads_to_a_plan_for_its_partners(
    operator: Client, viewer: Client
) -> None:
    """F19: from "these 6" nothing led to *Plan maintenance*."""
    links = suspended_partners(3)
    suspended_partners(1, UNAUTHORIZED)
    (group,) = operator.get(reverse("admin:index")).context["suspended"].groups

    page = operator.get(group.plan)

    assert {*page.context["form"]["partners"].value()} == {one.partner_id for one in links}
    (seen,) = viewer.get(reverse("admin:index")).context["suspended"].groups
    assert seen.plan == ""
    assert operator.get(f"{group.plan}&state__exact=x&no=such").status_code == 200
