"""Every page of the console: it opens, is read-only, loads nothing from elsewhere, escapes."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import flatten
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from msh.flows.operations import change_link
from msh.models import (
    History,
    InboundLink,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
    SettingChange,
    Signal,
)
from msh.store.history import Actor
from partners.models import Agreement
from tests.admin.conftest import busy_world, client_of, page_of, path_of, suspended_world, url
from tests.admin.many import standing_deliveries
from tests.flows.flying import sky_of_five, start_window
from tests.flows.world import make_world

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


def test_computed_columns_are_not_hidden_by_fields() -> None:
    """Django takes the field where a method of the page has the same name: its raw value."""
    reverse("admin:index")  # registers the pages
    for model, page in admin.site._registry.items():
        named = {*page.list_display, *flatten(page.fields or ())}
        worked_out = {name for name in named if isinstance(name, str) and hasattr(page, name)}
        assert worked_out & {field.name for field in model._meta.get_fields()} == set(), model


@names
def test_nobody_adds_changes_or_deletes(administrator: Client, model: type[Model]) -> None:
    busy_world()
    row = model._default_manager.all()[0]
    before = list(model._default_manager.values())

    assert 'id="submit-row"' not in page_of(administrator, row)  # it would float over the tables
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


def test_error_pages_link_to_the_dashboard(administrator: Client, viewer: Client) -> None:
    back = f'<a href="{reverse("admin:index")}" class="msh-action">'

    forbidden = viewer.get(url(SettingChange, "changelist"))
    missing = administrator.get("/admin/msh/no-such-page/")
    elsewhere = administrator.get("/no-such-page")

    assert (forbidden.status_code, missing.status_code, elsewhere.status_code) == (403, 404, 404)
    assert back in forbidden.content.decode()
    assert back in missing.content.decode()
    assert back not in elsewhere.content.decode()


def asked(captured: CaptureQueriesContext) -> list[str]:
    """The statements of pages: the session notes once a minute that it is used."""
    texts = (query["sql"] for query in captured)
    return [sql for sql in texts if "SAVEPOINT" not in sql and "django_session" not in sql]


def everything() -> None:
    """Partners of both dialects, one suspended in its maintenance window, and a delivery that is
    blocked."""
    busy_world()
    sky = sky_of_five(ordered=True)
    change_link.suspend(sky.partner, Actor("ann", "they move"))
    start_window(sky.partner)
    standing_deliveries("blocked", 2)


def test_lists_need_as_many_queries_for_three_of_everything_as_for_one(
    administrator: Client,
) -> None:
    def queries() -> dict[str, int]:
        counts = {}
        for model in admin.site._registry:
            with CaptureQueriesContext(connection) as captured:
                assert administrator.get(url(model, "changelist")).status_code == 200
            counts[model.__name__] = len(asked(captured))
        return counts

    administrator.get(reverse("admin:index"))  # registers the pages
    ContentType.objects.get_for_models(*apps.get_models())  # Django keeps them
    everything()
    of_one = queries()
    everything()
    everything()

    assert queries() == of_one


def test_a_list_of_millions_is_never_counted_and_leaves_bytes_in_the_database(
    administrator: Client,
) -> None:
    busy_world()
    models = (OutboundMessage, InboundMessage, History, Signal)

    with CaptureQueriesContext(connection) as captured:
        for model in models:
            administrator.get(url(model, "changelist"), {"q": "something"})
            administrator.get(url(model, "changelist"))

    tables = "|".join(model._meta.db_table for model in models)
    counts = re.compile(rf"count\(.*FROM \"({tables})\"", re.IGNORECASE | re.DOTALL)
    assert not [query["sql"] for query in captured if counts.search(query["sql"])]
    heavy = ('"head"', '"header"', '"content"', '"wire"', '"body"')
    asked = " ".join(query["sql"] for query in captured)
    assert not [column for column in heavy if column in asked]


def assert_harmless(page: str, answer: Any) -> None:
    """Nothing is loaded from another host, nothing that a partner sent is run."""
    text = answer.content.decode()
    fetched = re.findall(r'(?:src|href|hx-get|action)="([^"]+)"', text)
    assert {urlsplit(one).netloc for one in fetched} <= {"", "testserver"}, page
    assert "<script>alert" not in text, page


def test_log_in_and_dialogs_are_harmless(client: Client, administrator: Client) -> None:
    link = suspended_world().link
    for page, browser in (
        (reverse("admin:login"), client),
        (reverse("admin:msh_outboundlink_resume", args=[link.pk]), administrator),
    ):
        answer = browser.get(page)
        assert answer.status_code == 200
        assert_harmless(page, answer)


def from_a_hostile_partner() -> list[Model]:
    """A message that was sent and received; its ids are a script."""
    script = "<script>alert(1)</script>"
    world = make_world()
    world.submit(message_id=script, conversation_id=script)
    world.settle()
    return [model.objects.get(message_id=script) for model in (OutboundMessage, InboundMessage)]


WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE)\b", re.IGNORECASE)


@pytest.mark.parametrize("role", ["viewer", "operator", "supervisor", "administrator"])
def test_each_role_opens_what_it_may_see_and_looking_changes_nothing(
    role: str, request: pytest.FixtureRequest
) -> None:
    """Every list of the console, the page of its first row, the dashboard, and all that the
    navigation leads to. None of it is harmful."""
    hostile = from_a_hostile_partner()
    everything()
    client: Client = request.getfixturevalue(role)
    dashboard = client.get(reverse("admin:index"))
    user: Any = dashboard.wsgi_request.user
    groups = dashboard.context["sidebar_navigation"]
    may_open = {item["link"]: True for group in groups for item in group["items"]}
    assert len(may_open) > 10
    may_open |= {reverse("admin:index"): True, reverse("statistics"): True}
    for model in admin.site._registry:
        names = (model._meta.app_label, model._meta.model_name)
        allowed = any(
            user.has_perm(f"{names[0]}.{right}_{names[1]}") for right in ("view", "change")
        )
        rows = [*model._default_manager.all()[:1], *(one for one in hostile if type(one) is model)]
        for page in (url(model, "changelist"), *(path_of(row) for row in rows)):
            assert allowed or page not in may_open
            may_open[page] = allowed

    with CaptureQueriesContext(connection) as captured:
        answers = {page: client.get(page) for page in may_open}

    assert {page: answer.status_code == 200 for page, answer in answers.items()} == may_open
    for page, answer in answers.items():
        assert_harmless(page, answer)
    assert [sql for sql in asked(captured) if WRITES.match(sql)] == []
