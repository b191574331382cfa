"""The dashboard lists what operators have stopped and nobody has started again."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import resolve, reverse
from django.utils import timezone

from msh.admin.dashboard import left_on
from msh.admin.dashboard.left_on import LeftOn
from msh.flows.operations import change_link
from msh.models import (
    Consumer,
    ConsumerKind,
    InboundLink,
    MaintenanceWindow,
    OutboundLink,
    Preference,
    SettingChange,
)
from msh.protocol.maintenance import WindowState
from msh.store.history import Actor
from msh.store.operations.operator_actions import Switch, open_links
from tests.admin.conftest import client_of, use
from tests.delivery.desk import consumer
from tests.flows.costs import cost, multiply
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

PAGE = reverse("admin:index")
OLE = Actor("ole", "wrong prices")


def shown(client: Client) -> dict[str, LeftOn]:
    return {one.what: one for one in client.get(PAGE).context["left_on"].rows}


@pytest.fixture
def world() -> World:
    made = make_world()
    open_links(made.there)
    return made


def test_nothing_is_listed_where_nothing_was_stopped(operator: Client, world: World) -> None:
    assert shown(operator) == {}
    assert "Stopped by operators" not in operator.get(PAGE).content.decode()


@pytest.mark.parametrize(
    ("switch", "model", "what", "action"),
    [
        (Switch.ACCEPTS, OutboundLink, "submissions are refused", "accept_submissions"),
        (Switch.DELIVERS, InboundLink, "deliveries are held", "resume_deliveries"),
    ],
)
def test_a_switch_is_listed_with_who_turned_it_and_what_ends_it(
    operator: Client,
    supervisor: Client,
    world: World,
    switch: Switch,
    model: type[OutboundLink | InboundLink],
    what: str,
    action: str,
) -> None:
    change_link.switch(world.there, switch, on=False, actor=Actor("eve", "first"))
    change_link.switch(world.there, switch, on=True, actor=Actor("eve", "over"))
    change_link.switch(world.there, switch, on=False, actor=OLE)
    (one,) = shown(operator).values()
    assert (one.what, one.by, one.reason) == (what, "ole", "wrong prices")
    assert one.since is not None
    assert timezone.now() - one.since < timedelta(hours=1)
    assert not one.offers
    (one,) = shown(supervisor).values()
    assert [offer.action.name for offer in one.offers] == [action]
    link = model._default_manager.get(partner=world.there)
    use(supervisor, action, link)
    assert shown(operator) == {}


def test_a_link_suspended_by_an_operator_is_listed(operator: Client, world: World) -> None:
    change_link.suspend(world.there, OLE)
    (one,) = shown(operator).values()
    assert (one.what, one.by, one.reason) == ("sending is suspended", "ole", "wrong prices")
    change_link.switch(world.there, Switch.ACCEPTS, on=False, actor=OLE)
    page = operator.get(PAGE).content.decode()
    assert "Submissions are refused" in page
    ids = re.findall(r'id="([^"]+)"', page.partition('id="dashboard"')[2])
    assert len(ids) == len(set(ids)), "the same button or link twice"


@pytest.mark.parametrize(("days", "listed"), [(30, ["maintenance"]), (1, [])])
def test_only_a_window_that_lasts_long_is_listed(
    operator: Client, world: World, days: int, listed: list[str]
) -> None:
    change_link.suspend(world.there, OLE)
    now = timezone.now()
    MaintenanceWindow.objects.create(
        partner=world.there,
        starts_at=now,
        ends_at=now + timedelta(days=days),
        state=WindowState.RUNNING,
        suspended_since=OutboundLink.objects.get(partner=world.there).suspended_since,
        planned_by="ole",
        reason="firewall",
    )
    assert [what.split()[0] for what in shown(operator)] == listed
    assert ("30 days" in str(list(shown(operator)))) is bool(listed)


def test_a_consumer_that_is_off_is_listed(operator: Client, administrator: Client) -> None:
    made = consumer(ConsumerKind.PULL, name="pricing")
    consumer(ConsumerKind.PULL, name="others", action="other")
    assert shown(operator) == {}
    where = reverse("admin:msh_consumer_change", args=[made.pk])
    form = administrator.get(where).context["adminform"].form
    values = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    values = {name: value for name, value in values.items() if name != "enabled"}
    administrator.post(where, {**values, "reason": "new prices"})
    assert not Consumer.objects.get(name="pricing").enabled
    assert SettingChange.objects.filter(name="pricing").exists()
    (one,) = shown(operator).values()
    assert (one.name, one.what) == ("consumer pricing", "switched off")
    assert (one.by, one.reason) == ("root", "new prices")
    onlooker = client_of("olaf", "view_outboundlink", "view_outboundmessage", "view_incident")
    assert shown(onlooker) == {}


def test_what_is_not_listed_is_counted_and_the_longest_is_listed(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_on, "FIRST", 1)
    late, early, latest = (make_world() for _ in range(3))
    now = timezone.now()
    for number, one in enumerate((early, late, latest)):
        open_links(one.there)
        change_link.switch(one.there, Switch.ACCEPTS, on=False, actor=OLE)
        MaintenanceWindow.objects.create(
            partner=one.there, starts_at=now + timedelta(minutes=number),
            ends_at=now + timedelta(days=9), state=WindowState.RUNNING, planned_by="ole",
        )  # fmt: skip
        change_link.suspend(one.there, OLE)
    for name in ("zoe", "anna", "mia"):
        consumer(ConsumerKind.PULL, name=name, action=name, enabled=False)
        SettingChange.objects.create(
            actor="root", what="changed", kind="Consumer", name=name,
            before={"enabled": True}, after={"enabled": False}, reason="new prices",
        )  # fmt: skip

    page = operator.get(PAGE)

    listed = sorted(one.name for one in page.context["left_on"].rows)
    assert listed == ["consumer zoe", *[str(early.there)] * 3]
    others = page.context["left_on"].others
    assert [(one.count, reverse_of(one.url)) for one in others] == [
        (2, ("msh_outboundlink_changelist", "")),
        (2, ("msh_outboundlink_changelist", "state__exact=suspended")),
        (2, ("msh_consumer_changelist", "")),
        (2, ("msh_maintenancewindow_changelist", "state__exact=running")),
    ]
    assert page.content.decode().count(">2 more</a>") == 4
    for one in others:
        assert operator.get(one.url).status_code == 200


def reverse_of(url: str) -> tuple[str, str]:
    path, _, query = url.partition("?")
    return resolve(path).url_name or "", query


def test_the_end_of_a_window_is_a_date_of_the_users_zone(operator: Client, world: World) -> None:
    Preference.objects.create(user=User.objects.get(username="ann"), time_zone="Pacific/Kiritimati")
    MaintenanceWindow.objects.create(
        partner=world.there,
        starts_at=timezone.now(),
        ends_at=datetime(2099, 12, 31, 12, tzinfo=UTC),
        state=WindowState.RUNNING,
        planned_by="ole",
    )
    (what,) = shown(operator)
    assert what.startswith("maintenance until 2100-01-01, ")


def test_a_consumer_that_was_never_on_is_listed_without_a_name(operator: Client) -> None:
    consumer(ConsumerKind.PULL, name="pricing", enabled=False)
    page = operator.get(PAGE).content.decode()
    assert "consumer pricing" in page
    assert "<td>unknown</td>" in page


def test_who_switched_a_consumer_off_is_found_in_a_long_audit_log(operator: Client) -> None:
    consumer(ConsumerKind.PULL, name="pricing", enabled=False)
    change = SettingChange.objects.create(
        actor="root",
        what="changed",
        kind="Consumer",
        name="pricing",
        before={"enabled": True},
        after={"enabled": False},
        reason="new prices",
    )
    asked: list[tuple[str, Any]] = []

    def watch(execute: Any, sql: str, values: Any, many: bool, context: Any) -> Any:
        if "msh_settingchange" in sql:
            asked.append((sql, values))
        return execute(sql, values, many, context)

    with connection.execute_wrapper(watch):
        (one,) = shown(operator).values()
    assert one.by == "root"
    ((sql, values),) = asked
    multiply(change, 3000, name="'other-' || n")
    multiply(change, 3000, kind="'Partner'")
    assert cost(sql, values, by_index=False) < 30
