"""All reads of a page see one moment, and nothing is written by the way."""

from typing import Any

import pytest
from django.apps import apps
from django.db import InternalError, connection
from django.test import Client
from django.urls import reverse

from msh.flows.operations import change_link
from msh.models import InboundLink, Incident, OutboundLink, Preference
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from msh.store.snapshot import snapshot
from partners.models import Partner
from tests.admin.conftest import client_of, suspended_world, url
from tests.flows.world import make_world
from tests.many.test_replay import completed
from tests.sessions import in_another_session

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_others_commit_meanwhile_is_not_seen() -> None:
    with snapshot():
        before = Partner.objects.count()
        in_another_session(make_world)
        assert Partner.objects.count() == before
    assert Partner.objects.count() == before + 2


def test_nothing_can_be_written_in_it() -> None:
    with pytest.raises(InternalError, match="read-only"), snapshot():
        Partner.objects.create(name="late", uri="http://late.example/")
    assert not Partner.objects.exists()


def test_the_page_of_a_link_is_read_in_one() -> None:
    """Its numbers change while it is read, after the row of the link."""
    world = make_world()
    open_links(world.there)
    links = OutboundLink.objects.filter(pk=world.link.pk)
    client = client_of("olaf", "view_outboundlink", "view_outboundmessage", "view_incident")
    page = reverse("admin:msh_outboundlink_change", args=[world.link.pk])

    def move(execute: Any, sql: str, *rest: Any) -> Any:
        if "msh_history" in sql:
            in_another_session(lambda: links.update(next_number=9))
        return execute(sql, *rest)

    with connection.execute_wrapper(move):
        shown = client.get(page).content.decode()

    assert "The next message gets number 1." in shown
    assert "out: next number 1" in shown
    assert world.link.next_number == 9


def test_the_dashboard_is_read_in_one() -> None:
    """A partner is suspended after the figures were counted."""
    world = make_world()
    open_links(world.there)
    client = client_of("olaf", "view_outboundlink", "view_outboundmessage", "view_incident")

    moved: list[str] = []

    def suspend(execute: Any, sql: str, *rest: Any) -> Any:
        if "msh_actrequest" in sql and not moved:
            moved.append(sql)
            actor = Actor("ann", "they move")
            in_another_session(lambda: change_link.suspend(world.there, actor))
        return execute(sql, *rest)

    with connection.execute_wrapper(suspend):
        context = client.get(reverse("admin:index")).context

    assert moved
    assert {one.words for one in context["health"]} == {"OK"}
    assert world.link.state == "suspended"


def test_pages_read_no_row_outside_of_one(admin_client: Client) -> None:
    """So nothing that a page is about ends or is removed while the page is read."""
    world = suspended_world()
    open_links(world.there)
    (delivery,) = completed()
    rows = [world.link, InboundLink.objects.get(partner=world.there), Incident.objects.get()]
    pages = [url(type(one), "change", one.pk) for one in [*rows, delivery]]
    pages += [url(type(one), "changelist") for one in [*rows, delivery]]
    pages += [reverse("partner_page", args=[world.there.pk])]
    outside: list[tuple[str, str]] = []
    tables = {
        one._meta.db_table
        for one in apps.get_models()
        if one._meta.app_label in ("msh", "partners") and one is not Preference
    }
    for page in pages:

        def note(execute: Any, sql: str, *rest: Any, page: str = page) -> Any:
            table = sql.partition(' FROM "')[2].partition('"')[0]
            if table in tables and not connection.in_atomic_block:
                outside.append((page, table))
            return execute(sql, *rest)

        with connection.execute_wrapper(note):
            assert admin_client.get(page).status_code == 200

    assert outside == []
