"""Conversations in both directions: on the pages of links, in their lists, and what they cost."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from msh.flows.operations.watch import watch
from msh.models import (
    InboundConversation,
    InboundLink,
    Incident,
    OutboundConversation,
)
from partners.models import Agreement
from tests.admin.conftest import address, url
from tests.admin.links.conversations import STILL, stop, tables_of
from tests.flows.conversations_in.conversation import make_due, take
from tests.flows.flying import Sky, make_sky

pytestmark = pytest.mark.django_db


def test_link_without_order_has_no_table_of_conversations(
    sky: Sky, viewer: Client, administrator: Client
) -> None:
    sky.submit(conversation_id="talk")
    assert STILL not in tables_of(viewer, sky.link)
    ordered = make_sky(ordered=True)
    stop(ordered, "talk")
    Agreement.objects.update(ordered=False)
    assert len(tables_of(viewer, ordered.link)[STILL].rows) == 1
    conversation = OutboundConversation.objects.get()
    dialog = administrator.get(address("start_order", conversation))
    assert "is not ordered." in dialog.context["why_not"]


def test_list_has_those_that_wait_and_the_search_finds_all(
    viewer: Client, agreement: Agreement
) -> None:
    sky = make_sky(ordered=True)
    stop(sky, "still")
    sky.submit(conversation_id="runs")
    sky.poll()
    take(agreement, 0)
    take(agreement, 0, 2, conversation="hole")

    for model, waits, runs in (
        (OutboundConversation, "still", "runs"),
        (InboundConversation, "hole", "talk"),
    ):
        where = url(model, "changelist")
        for query, found in ({}, waits), ({"q": runs}, runs), ({"q": waits}, waits):
            rows = viewer.get(where, query).context["cl"].result_list
            assert [one.conversation_id for one in rows] == [found]


def test_pages_need_as_many_queries_for_three_conversations_as_for_one(
    viewer: Client, agreement: Agreement
) -> None:
    sky = make_sky(ordered=True)

    def queries() -> list[int]:
        counts = []
        into = InboundLink.objects.get()
        pages = [url(type(link), "change", link.pk) for link in (sky.link, into)]
        lists = [url(model, "changelist") for model in (OutboundConversation, InboundConversation)]
        incidents = [url(Incident, "change", one.pk) for one in Incident.objects.order_by("pk")]
        for page in (*pages, *lists, *incidents):
            with CaptureQueriesContext(connection) as captured:
                assert viewer.get(page).status_code == 200
            counts.append(len(captured))
        return counts

    stop(sky, "one", behind=1)
    take(agreement, 0, 2)
    make_due()
    watch()
    queries()  # fills Django's own caches
    of_one = queries()
    for name in ("two", "three"):
        stop(sky, name, behind=2)
        take(agreement, 0, 2, 3, conversation=name)
    make_due(called=False)
    watch()

    assert len(of_one) >= 6
    assert [max(now - then, 0) for now, then in zip(queries(), of_one, strict=True)] == [0] * len(
        of_one
    )
