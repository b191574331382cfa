"""The page of a conversation that is sent in order: what stops it, and what is done then."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from msh.models import (
    Flight,
    History,
    Incident,
    OutboundConversation,
    OutboundMessage,
)
from tests.admin.conftest import address, messages_of, offered, page_of, path_of, use
from tests.admin.links.conversations import STILL, filled, tables_of
from tests.flows.flying import REFUSED, make_sky

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("state", "broken", "said"),
    [
        ("beginning", False, "Its next message gets number 0 with Reset."),
        ("confirming", False, "Its message with Reset is not acknowledged yet; the others wait."),
        ("running", False, "Its messages are sent in order. Number 4 comes next."),
        ("stopped", False, "Stopped by a message that failed or is held; those behind it wait."),
        ("stopped", True, "Stopped: a message that has a number was cancelled, and the partner"),
    ],
)
def test_words_for_what_is_sent_in_order(state: str, broken: bool, said: str) -> None:
    row = OutboundConversation(state=state, broken=broken, next_number=4)
    page: Any = admin.site.get_model_admin(OutboundConversation)
    assert page.sentence(row).startswith(said)


def test_link_lists_what_stands_still(viewer: Client, stopped: OutboundMessage) -> None:
    conversation = OutboundConversation.objects.get(conversation_id="talk")
    (row,) = tables_of(viewer, stopped.link)[STILL].rows
    assert path_of(conversation) in str(row[0])
    assert stopped.message_id in str(row[2])
    assert row[3:] == (1, 2)


def test_page_of_what_stands_still_leads_to_the_message_and_the_incident(
    viewer: Client, stopped: OutboundMessage
) -> None:
    conversation = OutboundConversation.objects.get(conversation_id="talk")
    incident = Incident.objects.get(kind="conversation_stopped")
    waits = OutboundMessage.objects.latest("pk")
    assert path_of(incident) in page_of(viewer, conversation)
    for row in (incident, waits):
        assert path_of(conversation) in page_of(viewer, row)
    tables = tables_of(viewer, conversation)
    (stopping,) = tables["Messages that stop it"].rows
    assert path_of(stopped) in str(stopping[0])
    assert stopping[1] == 0
    assert len(tables["Waiting for their turn"].rows) == 2


@pytest.mark.requirement("EB-124")
def test_a_conversation_that_stands_still_is_restarted(
    supervisor: Client, viewer: Client, stopped: OutboundMessage
) -> None:
    conversation = OutboundConversation.objects.get(conversation_id="talk")
    assert offered(supervisor, conversation) == ["resume", "cancel"]  # of the message
    assert {"resume", "cancel"} <= set(offered(supervisor, stopped))
    assert not {"suspend", "send_now", "reset_retries"} & set(offered(supervisor, stopped))
    refused = messages_of(use(supervisor, "restart_conversation", conversation))
    assert "Cannot restart conversation talk" in refused

    use(supervisor, "cancel", stopped, verdict="unknown")

    assert offered(supervisor, conversation) == ["restart_conversation", "start_order"]
    assert offered(viewer, conversation) == []
    use(supervisor, "restart_conversation", conversation, "they emptied it")
    entry = History.objects.get(event="ConversationRestarted")
    assert (entry.actor, "they emptied it" in entry.detail) == ("sue", True)
    use(supervisor, "start_order", conversation, last="41")
    conversation.refresh_from_db()
    assert conversation.next_number == 42


def test_page_says_which_numbers_are_acknowledged_and_which_are_not(viewer: Client) -> None:
    sky = make_sky(ordered=True)
    first, second = (sky.submit(conversation_id="talk") for _ in range(2))
    sky.poll()
    conversation = OutboundConversation.objects.get()
    page = page_of(viewer, conversation)
    assert "None acknowledged. With a number and not acknowledged: 0." in page
    sky.answer(first)
    sky.poll()
    page = page_of(viewer, conversation)
    assert (
        "Of those acknowledged, number 0 is the last in order. With a number and not acknowledged:"
        " 1. The next message gets number 2."
    ) in page
    sky.answer(second)
    assert "number 1 is the last in order. The next" in page_of(viewer, conversation)


def test_page_counts_all_that_is_under_way(viewer: Client) -> None:
    sky = make_sky(ordered=True)
    first = sky.submit(conversation_id="talk")
    sky.poll()
    sky.answer(first)
    for _ in range(13):
        sky.submit(conversation_id="talk")
    while Flight.objects.filter(number__isnull=False).count() < 13:
        assert sky.poll()

    page = page_of(viewer, OutboundConversation.objects.get())

    assert "acknowledged: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 3 more. The next" in page


def test_what_stops_a_conversation_is_resumed_from_its_row(
    supervisor: Client, operator: Client, viewer: Client, stopped: OutboundMessage
) -> None:
    """F17: "Resume that message, or cancel it", and no button."""
    conversation = OutboundConversation.objects.get(conversation_id="talk")
    page = page_of(supervisor, conversation)
    assert "Recommended action:" in page
    assert reverse("runbook", args=["conversation"]) in page
    assert filled(supervisor, conversation) == ["resume"]
    (row,) = tables_of(supervisor, conversation)["Messages that stop it"].rows
    for action in ("resume", "cancel"):
        assert f'href="{address(action, stopped)}"' in str(row[-1])
        assert page.count(f'href="{address(action, stopped)}"') == 2
    assert "msh-action-recommended" not in str(row[-1]), "filled once"
    ids = re.findall(r'id="([^"]*action:[^"]*)"', page)
    assert len(ids) == len(set(ids))
    (for_operator,) = tables_of(operator, conversation)["Messages that stop it"].rows
    assert address("resume", stopped) in str(for_operator[-1])
    (for_viewer,) = tables_of(viewer, conversation)["Messages that stop it"].rows
    assert "href" not in str(for_viewer[-1])


def test_a_broken_conversation_is_restarted_by_the_filled_button(
    supervisor: Client, stopped: OutboundMessage
) -> None:
    conversation = OutboundConversation.objects.get(conversation_id="talk")
    use(supervisor, "cancel", stopped, verdict="unknown")
    assert filled(supervisor, conversation) == ["restart-conversation"]


def test_page_of_a_conversation_needs_as_many_queries_for_three_messages_as_for_one(
    supervisor: Client,
) -> None:
    sky = make_sky(ordered=True)
    first = sky.submit(conversation_id="talk")
    sky.poll()
    sky.answer(first)
    messages = [sky.submit(conversation_id="talk") for _ in range(3)]
    jobs = sky.poll()
    conversation = OutboundConversation.objects.get()

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page_of(supervisor, conversation)
        return len(captured)

    sky.end(jobs[0], REFUSED)
    queries()
    of_one = queries()
    for job in jobs[1:]:
        sky.end(job, REFUSED)
    conversation.refresh_from_db()
    assert len(conversation.stopped_by) == len(messages)
    assert queries() <= of_one
