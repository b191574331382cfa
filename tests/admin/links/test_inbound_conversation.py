"""The page of a conversation that is delivered in order: what is missing, and what is done then."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh.flows.operations import change_conversation
from msh.models import (
    Consumer,
    Delivery,
    History,
    InboundConversation,
    InboundLink,
    InboundMessage,
    Incident,
)
from msh.protocol.flight import serial
from msh.store.history import Actor
from partners.models import Agreement
from tests.admin.conftest import address, messages_of, offered, page_of, path_of, submit, use
from tests.admin.links.conversations import MISSING, filled, tables_of
from tests.flows.conversations_in.conversation import take

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("following", "held", "called", "said"),
    [
        (None, [], False, "None of its messages was delivered yet. It begins with number 0"),
        (1, [], False, "Its messages are in order. Number 1 comes next."),
        (1, [2], True, "Number 1 is missing: 1 message waits for it. An incident was opened."),
        (1, [2, 3], False, "Number 1 is missing: 2 messages wait for it. An incident is opened at"),
    ],
)
def test_words_for_what_is_delivered_in_order(
    following: int | None, held: list[int], called: bool, said: str
) -> None:
    row: Any = InboundConversation(next_number=following, called=called, due=timezone.now())
    row.held_numbers = held
    page: Any = admin.site.get_model_admin(InboundConversation)
    assert page.sentence(row).startswith(said)


@pytest.mark.requirement("EB-130")
def test_link_lists_missing_numbers(viewer: Client, hole: InboundConversation) -> None:
    called, other = tables_of(viewer, hole.link)[MISSING].rows
    assert path_of(hole) in str(called[0])
    assert (called[2:4], "opened" in str(called[5])) == ((1, 3), True)
    assert (other[2:4], "opened" in str(other[5])) == ((0, 1), False)
    link = page_of(viewer, hole.link)
    assert "messages have no sequence numbers" in link.lower()
    assert "Resets" not in link
    listed = tables_of(viewer, hole.link)["Messages, newest first"].rows
    assert {row[1] for row in listed} == {0, 2, 3, 5, 7}


def test_link_without_a_hole_has_an_empty_table(viewer: Client, agreement: Agreement) -> None:
    take(agreement, 0)
    assert tables_of(viewer, InboundLink.objects.get())[MISSING].rows == []


def test_incidents_and_messages_lead_to_their_conversation(
    viewer: Client, hole: InboundConversation
) -> None:
    incident = Incident.objects.get(kind="predecessor_missing")
    restarted = Incident.objects.create(
        partner=hole.link.partner,
        direction="in",
        kind="order_restarted",
        message_id=InboundMessage.objects.get(order_number=0).message_id,
        opened_at=incident.opened_at,
        last_at=incident.last_at,
    )
    first = InboundMessage.objects.get(order_number=2)
    for row in (incident, restarted, first):
        assert path_of(hole) in page_of(viewer, row)
    assert path_of(incident) in page_of(viewer, hole)
    held = tables_of(viewer, hole)["Held, lowest number first"].rows
    assert [row[1] for row in held] == [2, 3, 7]
    assert path_of(first) in str(held[0][0])


def test_a_hole_has_advice_and_the_filled_button_is_what_helps(
    supervisor: Client, viewer: Client, hole: InboundConversation
) -> None:
    """F17: no recommended action, and the only filled button was *Drop held*."""
    page = page_of(supervisor, hole)
    assert "Recommended action:" in page
    assert "If it will never arrive, skip the missing message, or drop the held ones." in page
    assert reverse("runbook", args=["conversation"]) in page
    assert filled(supervisor, hole) == ["skip-missing"]
    told = page_of(viewer, hole)
    assert "Skip missing" in told, "whom to ask for it"
    assert "data-dialog" not in told
    late = InboundConversation.objects.get(conversation_id="late")
    assert filled(supervisor, late) == [], "it may still arrive"


@pytest.mark.requirement("EB-132")
def test_a_missing_message_is_skipped(supervisor: Client, hole: InboundConversation) -> None:
    assert offered(supervisor, hole) == [
        *("extend_wait", "skip_missing", "start_order", "drop_held")
    ]
    page = page_of(supervisor, hole)
    assert page.count('class="msh-action msh-action-dangerous" data-dialog') == 1
    says = str(supervisor.get(address("skip_missing", hole)).context["consequence"])
    assert says.endswith(
        " Given up: from number 1 on, 1 message. Delivered now: 2 messages. Then number 4 comes"
        " next; still held: 1 message."
    )

    use(supervisor, "skip_missing", hole, "they lost it")

    entry = History.objects.get(event="MissingSkipped")
    assert (entry.actor, "they lost it" in entry.detail) == ("sue", True)
    use(supervisor, "start_order", hole, last="6")
    assert InboundMessage.objects.get(message_id="talk-7").state == "accepted"
    for name in ("extend_wait", "skip_missing", "drop_held"):
        assert supervisor.get(address(name, hole)).context["why_not"] == "nothing is held."


@pytest.mark.requirement("EB-132")
def test_dialog_says_how_many_messages_are_dropped(
    supervisor: Client, agreement: Agreement
) -> None:
    take(agreement, 0, 2, 3)
    says = supervisor.get(address("drop_held", InboundConversation.objects.get()))
    assert "Given up: 2 messages. Then number 1 comes next; still held: 0 messages." in str(
        says.context["consequence"]
    )


@pytest.mark.requirement("EB-132")
def test_dialog_about_a_hole_that_has_changed_does_nothing(
    supervisor: Client, agreement: Agreement
) -> None:
    take(agreement, 0, 2)
    where = address("drop_held", InboundConversation.objects.get())
    hidden = supervisor.get(where).context["form"].initial["version"]
    take(agreement, 3)

    answer = supervisor.post(where, {"reason": "they begin again", "version": hidden})

    assert "the conversation has changed in the meantime" in messages_of(answer)
    assert InboundMessage.objects.filter(state="held").count() == 2
    submit(supervisor, where)
    assert not InboundMessage.objects.filter(state="held").exists()


def test_page_says_which_numbers_are_delivered_expected_and_held(
    viewer: Client, agreement: Agreement
) -> None:
    take(agreement, 0, 1)
    conversation = InboundConversation.objects.get()
    page = page_of(viewer, conversation)
    assert (
        "None of its messages was delivered yet. Received in order, not delivered yet: 0, 1."
        in page
    )
    InboundMessage.objects.update(state="delivered", delivered_at=conversation.last_at)
    take(agreement, 5, 4, 2)

    page = page_of(viewer, conversation)

    assert re.search(r"Delivered last: number 1, at [-0-9: ]+UTC\.", page)
    assert (
        "Received in order, not delivered yet: 2. Next number expected from the partner: 3."
        " Held: 4, 5. The first message of a conversation has number 0."
    ) in page
    take(agreement, 3)
    rows = tables_of(viewer, conversation)["Received and not held, last first"].rows
    assert [row[1] for row in rows] == [5, 4, 3, 2, 1, 0]
    assert [row[5] != "-" for row in rows] == [False] * 4 + [True] * 2


def test_page_counts_all_that_is_not_delivered(viewer: Client, agreement: Agreement) -> None:
    """More than may be held: their consumer takes nothing."""
    take(agreement, *range(3))
    conversation = InboundConversation.objects.get()
    first = InboundMessage.objects.filter(order_number=0)
    first.update(state="delivered", delivered_at=conversation.last_at)
    copy = InboundMessage.objects.get(order_number=2)
    InboundMessage.objects.bulk_create(
        InboundMessage(**as_copied(copy), message_id=f"talk-{number}", order_number=number)
        for number in range(3, 112)
    )

    page = page_of(viewer, conversation)

    assert re.search(r"Delivered last: number 0, at [-0-9: ]+UTC\.", page)
    assert "not delivered yet: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 101 more. Next" in page


def as_copied(message: InboundMessage) -> dict[str, object]:
    own = {"id", "message_id", "order_number"}
    named = [field.attname for field in message._meta.concrete_fields if field.name not in own]
    return {name: getattr(message, name) for name in named}


def test_page_does_not_call_delivered_what_was_dropped(
    supervisor: Client, agreement: Agreement
) -> None:
    take(agreement, 0, 2, 3)
    conversation = InboundConversation.objects.get()
    use(supervisor, "drop_held", conversation)

    assert "None of its messages was delivered yet." in page_of(supervisor, conversation)
    InboundMessage.objects.filter(order_number=0).update(
        state="delivered", delivered_at=conversation.last_at
    )
    assert "Delivered last: number 0, at" in page_of(supervisor, conversation)
    table = tables_of(supervisor, conversation)["Received and not held, last first"]
    assert table.headers[5] == "Delivered or given up"
    words = {row[1]: str(row[2]).lower() for row in table.rows}
    assert "delivered" in words[0]
    assert all("given up while held" in words[number] for number in (2, 3))
    Delivery.objects.create(
        message=InboundMessage.objects.get(order_number=3),
        consumer=Consumer.objects.create(name="orders", kind="pull"),
        state="rejected",
        attempt=1,
        started_at=conversation.last_at,
    )
    table = tables_of(supervisor, conversation)["Received and not held, last first"]
    (words_of_it,) = [str(row[2]).lower() for row in table.rows if row[1] == 3]
    assert "rejected" in words_of_it, "by its consumer"


@pytest.mark.requirement("EB-121")
def test_held_messages_are_listed_in_their_order(viewer: Client, agreement: Agreement) -> None:
    change_conversation.start_order_in(agreement, "talk", serial.LAST - 2, Actor("ann", "moved"))
    take(agreement, 1, serial.LAST)

    tables = tables_of(viewer, InboundConversation.objects.get())

    held = tables["Held, lowest number first"].rows
    assert [row[1] for row in held] == [serial.LAST, 1]
