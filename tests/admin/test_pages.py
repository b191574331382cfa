"""Every page of the console: it opens, it is read-only, it asks nobody outside, it escapes."""

import re
from urllib.parse import urlsplit

import pytest
from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from msh.models import (
    History,
    InboundLink,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
    Signal,
)
from partners.models import Agreement, Partner
from tests.flows.world import LOST, World, make_world

from .conftest import REFUSED, client_of

pytestmark = pytest.mark.django_db

READ_ONLY = [
    OutboundLink,
    InboundLink,
    OutboundMessage,
    InboundMessage,
    Incident,
    History,
    Signal,
    Agreement,
]
names = pytest.mark.parametrize("model", READ_ONLY, ids=lambda model: model.__name__)


def busy_world() -> World:
    """One message through to the end, one refused for good, one queued."""
    world = make_world()
    world.submit()
    world.settle()
    world.submit()
    (job,) = world.look()
    world.end(job, REFUSED)
    world.submit()
    return world


def url(model: type[Model], page: str, *args: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=args)


@names
def test_list_and_page_open(administrator: Client, model: type[Model]) -> None:
    busy_world()

    listed = administrator.get(url(model, "changelist"))

    assert listed.status_code == 200
    rows = listed.context["cl"].result_list
    assert rows
    page = administrator.get(url(model, "change", rows[0].pk))
    assert page.status_code == 200
    assert 'id="submit-row"' not in page.content.decode()  # it would float over the tables


def test_what_a_page_works_out_is_not_hidden_by_a_field() -> None:
    """Django takes the field where a method of the page has the same name: its raw value."""
    for model, page in admin.site._registry.items():
        named = {*page.list_display, *flatten(page.fields or ())}
        worked_out = {name for name in named if isinstance(name, str) and hasattr(page, name)}
        assert worked_out & {field.name for field in model._meta.get_fields()} == set(), model


@names
def test_nobody_adds_changes_or_deletes(administrator: Client, model: type[Model]) -> None:
    busy_world()
    row = model._default_manager.all()[0]
    before = list(model._default_manager.values())

    assert administrator.get(url(model, "add")).status_code == 403
    assert administrator.post(url(model, "change", row.pk), {}).status_code == 403
    assert administrator.post(url(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    everything = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    administrator.post(url(model, "changelist"), everything)

    assert list(model._default_manager.values()) == before


@names
def test_without_the_right_to_look_nothing_is_shown(model: type[Model]) -> None:
    busy_world()
    row = model._default_manager.all()[0]
    client = client_of("nobody")

    assert client.get(url(model, "changelist")).status_code == 403
    assert client.get(url(model, "change", row.pk)).status_code == 403


def test_what_is_refused_or_not_there_is_a_page_with_a_way_back(
    administrator: Client, viewer: Client
) -> None:
    back = f'<a href="{reverse("admin:index")}" class="msh-action">'

    forbidden = viewer.get(url(Incident, "changelist"))
    missing = administrator.get("/admin/msh/no-such-page/")
    elsewhere = administrator.get("/no-such-page")

    assert (forbidden.status_code, missing.status_code, elsewhere.status_code) == (403, 404, 404)
    assert back in forbidden.content.decode()
    assert back in missing.content.decode()
    assert back not in elsewhere.content.decode()


def test_a_message_that_waits_says_that_its_link_is_suspended(administrator: Client) -> None:
    busy_world()
    done, flying, queued = OutboundMessage.objects.order_by("pk")

    def hinted(message: OutboundMessage) -> bool:
        page = administrator.get(url(OutboundMessage, "change", message.pk)).content.decode()
        return "link suspended" in page

    assert (hinted(done), hinted(flying), hinted(queued)) == (False, True, True)


def test_the_title_of_a_page_keeps_the_name_of_its_row(administrator: Client) -> None:
    busy_world()
    message = OutboundMessage.objects.latest("pk")
    OutboundMessage.objects.filter(pk=message.pk).update(message_id="in-1")

    page = administrator.get(url(OutboundMessage, "change", message.pk)).content.decode()

    assert "<bdi>in-1</bdi>" in page
    assert "In-1" not in page


def test_every_page_names_its_icon(administrator: Client) -> None:
    page = administrator.get(reverse("admin:index")).content.decode()

    assert re.search(r'<link rel="icon" href="/static/msh/icon[^"]*\.svg"', page)


def test_a_status_is_told_once(administrator: Client) -> None:
    busy_world()
    flying = OutboundMessage.objects.get(state="in_flight")

    page = administrator.get(url(OutboundMessage, "change", flying.pk)).content.decode()

    assert "415 Unsupported Media Type" in page
    assert "415 415" not in page


@names
def test_a_list_asks_as_many_queries_for_three_as_for_one(
    administrator: Client, model: type[Model]
) -> None:
    busy_world()
    administrator.get(url(model, "changelist"))  # fills Django's own caches

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert administrator.get(url(model, "changelist")).status_code == 200
        return len(captured)

    of_one = queries()
    busy_world()
    busy_world()

    assert queries() == of_one


@pytest.mark.parametrize(
    "model", [OutboundMessage, InboundMessage, History, Signal], ids=lambda model: model.__name__
)
def test_a_table_of_millions_is_never_counted(administrator: Client, model: type[Model]) -> None:
    busy_world()

    with CaptureQueriesContext(connection) as captured:
        administrator.get(url(model, "changelist"), {"q": "something"})
        administrator.get(url(model, "changelist"))

    table = model._meta.db_table
    counts = re.compile(rf"count\(.*FROM \"{table}\"", re.IGNORECASE | re.DOTALL)
    assert not [query["sql"] for query in captured if counts.search(query["sql"])]


def test_a_list_of_messages_leaves_their_bytes_in_the_database(administrator: Client) -> None:
    busy_world()

    with CaptureQueriesContext(connection) as captured:
        for model in (OutboundMessage, InboundMessage, Signal):
            administrator.get(url(model, "changelist"))

    heavy = ('"head"', '"header"', '"content"', '"wire"', '"body"')
    asked = " ".join(query["sql"] for query in captured)
    assert not [column for column in heavy if column in asked]


def test_pages_ask_nobody_outside(administrator: Client) -> None:
    busy_world()
    link = OutboundLink.objects.get(state="suspended")
    pages = [
        reverse("admin:login"),
        reverse("admin:index"),
        url(OutboundLink, "changelist"),
        url(OutboundLink, "change", link.pk),
        url(OutboundMessage, "changelist"),
        reverse("admin:msh_outboundlink_resume", args=[link.pk]),
    ]

    for page in pages:
        html = administrator.get(page, follow=True).content.decode()
        fetched = re.findall(r'(?:src|href|hx-get|action)="([^"]+)"', html)
        outside = {urlsplit(one).netloc for one in fetched} - {"", "testserver"}
        assert outside == set(), page


def test_what_came_over_the_wire_is_escaped(administrator: Client) -> None:
    world = make_world()
    hostile = "<script>alert(1)</script>"
    world.submit(message_id=hostile, conversation_id=hostile)
    world.settle()
    world.submit()
    (job,) = world.look()
    world.end(job, REFUSED)

    sent = OutboundMessage.objects.get(message_id=hostile)
    got = InboundMessage.objects.get(message_id=hostile)
    lists = [url(model, "changelist") for model in READ_ONLY]
    pages = [url(OutboundMessage, "change", sent.pk), url(InboundMessage, "change", got.pk)]

    for page in (*lists, *pages):
        assert "<script>alert" not in administrator.get(page).content.decode(), page


def test_messages_are_found_by_their_whole_ids(administrator: Client) -> None:
    world = make_world()
    message = world.submit(message_id="a id with blanks", conversation_id="conv-7")
    world.submit()

    def found(term: str) -> list[OutboundMessage]:
        response = administrator.get(url(OutboundMessage, "changelist"), {"q": term})
        return list(response.context["cl"].result_list)

    assert found("a id with blanks") == [message]
    assert found(" conv-7 ") == [message]
    assert found("blanks") == []
    assert len(found("")) == 2


def test_a_message_tells_its_life_in_order(administrator: Client) -> None:
    world = make_world()
    message = world.submit()
    (job,) = world.look()
    world.end(job, LOST)

    page = administrator.get(url(OutboundMessage, "change", message.pk))

    (timeline, payloads, attempts) = page.context["tables"]
    assert [row[1] for row in timeline.rows] == [
        "MessageSubmitted",
        "PutInFlight",
        "Attempt 1",
    ]
    assert "ConnectionRefusedError" in timeline.rows[-1][-1]
    assert [row[0] for row in payloads.rows] == [1]
    assert [(row[0], row[5]) for row in attempts.rows] == [(1, "no")]
    sha256 = bytes(OutboundMessage.objects.get().body_sha256 or b"").hex()
    assert sha256 in page.content.decode()


def test_open_incidents_come_first(administrator: Client) -> None:
    first, second = busy_world(), busy_world()
    Incident.objects.filter(partner=second.there).update(resolved_at="2026-01-01T00:00:00Z")

    def listed(**query: str) -> list[Partner]:
        response = administrator.get(url(Incident, "changelist"), query)
        return [incident.partner for incident in response.context["cl"].result_list]

    assert listed() == [first.there, second.there]
    assert listed(**{"is": "open"}) == [first.there]
    assert listed(**{"is": "resolved"}) == [second.there]


def test_signals_owed_are_told_from_those_carried(administrator: Client) -> None:
    world = make_world()
    world.submit()
    world.settle()
    world.submit()
    (job,) = world.look()
    world.hand_over(job)

    response = administrator.get(url(Signal, "changelist"), {"is": "pending"})

    assert [signal.owed for signal in response.context["cl"].result_list] == [1]
    assert Signal.objects.filter(link__partner=world.here).count() == 2


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


def test_users_are_managed_in_the_same_clothes(administrator: Client) -> None:
    fields = {"username": "newcomer", "usable_password": "false", "reason": "new here"}
    add = reverse("admin:auth_user_add")
    assert administrator.get(add).status_code == 200

    assert administrator.post(add, fields).status_code == 302
    assert User.objects.filter(username="newcomer").exists()
