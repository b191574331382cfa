"""Conversations in order: those that need an operator, and what is done to them."""

import re

import pytest
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext

from msh.admin.framework.pages import Table
from msh.flows.operations import change_conversation
from msh.flows.operations.watch import watch
from msh.models import (
    Consumer,
    Delivery,
    Flight,
    History,
    InboundConversation,
    InboundLink,
    InboundMessage,
    Incident,
    OutboundConversation,
    OutboundMessage,
)
from msh.protocol.flight import serial
from msh.store.history import Actor
from partners.models import Agreement, Partner
from tests.admin.conftest import address, messages_of, offered, page_of, submit, url, use
from tests.endpoint.ebms2 import agree
from tests.flows.conversations_in.conversation import make_due, take
from tests.flows.flying import REFUSED, Sky, make_sky

pytestmark = pytest.mark.django_db

STILL, MISSING = "Stopped conversations", "Conversations with a missing message"


@pytest.fixture
def agreement() -> Agreement:
    partner = Partner.objects.create(name="hospital", uri="http://peer.example/ebms/")
    return agree(partner, ordered=True)


def tables_of(client: Client, row: Model) -> dict[str, Table]:
    page = client.get(url(type(row), "change", row.pk))
    return {table.title: table for table in page.context["tables"]}


def stop(sky: Sky, conversation: str, *, behind: int = 0) -> OutboundMessage:
    """Its first message is refused."""
    first, *_ = [sky.submit(conversation_id=conversation) for _ in range(1 + behind)]
    for job in sky.poll():
        sky.end(job, REFUSED)
    return first


@pytest.mark.requirement("EB-124")
def test_a_conversation_that_stands_still_is_restarted(supervisor: Client, viewer: Client) -> None:
    sky = make_sky(ordered=True)
    other = sky.submit(conversation_id="other")
    sky.poll()
    sky.answer(other)
    assert tables_of(viewer, sky.link)[STILL].rows == []
    message = stop(sky, "talk", behind=2)
    conversation = OutboundConversation.objects.get(conversation_id="talk")

    (row,) = tables_of(viewer, sky.link)[STILL].rows
    assert url(OutboundConversation, "change", conversation.pk) in str(row[0])
    assert message.message_id in str(row[2])
    assert row[3:] == (1, 2)
    incident = Incident.objects.get(kind="conversation_stopped")
    assert url(OutboundConversation, "change", conversation.pk) in page_of(viewer, incident)
    page = page_of(viewer, conversation)
    assert "Stopped by a message that failed or is held" in page
    assert url(Incident, "change", incident.pk) in page
    assert page.count("Messages that stop it") == 1
    tables = tables_of(viewer, conversation)
    (stopping,) = tables["Messages that stop it"].rows
    assert url(OutboundMessage, "change", message.pk) in str(stopping[0])
    assert stopping[1] == 0
    assert len(tables["Waiting for their turn"].rows) == 2
    waits = OutboundMessage.objects.latest("pk")
    assert url(OutboundConversation, "change", conversation.pk) in page_of(viewer, waits)
    assert offered(viewer, conversation) == []
    assert offered(supervisor, conversation) == ["resume", "cancel"]  # of the message
    dialog = supervisor.get(address("restart_conversation", conversation)).content.decode()
    assert "1 message of the conversation is neither acknowledged nor cancelled." in dialog
    refused = messages_of(use(supervisor, "restart_conversation", conversation))
    assert "Cannot restart conversation talk" in refused
    names = set(offered(supervisor, message))
    assert {"resume", "cancel"} <= names
    assert not {"suspend", "send_now", "reset_retries"} & names

    use(supervisor, "cancel", message, verdict="unknown")

    assert "a message that has a number was cancelled" in page_of(viewer, conversation)
    assert offered(viewer, conversation) == []
    assert offered(supervisor, conversation) == ["restart_conversation", "start_order"]
    said = messages_of(use(supervisor, "restart_conversation", conversation, "they emptied it"))
    assert said == "Conversation talk: the next message has number 0 with Reset."
    entry = History.objects.get(event="ConversationRestarted")
    assert (entry.actor, "they emptied it" in entry.detail) == ("sue", True)
    assert "Its next message gets number 0 with Reset." in page_of(viewer, conversation)
    said = messages_of(use(supervisor, "start_order", conversation, last="41"))
    assert said == "Conversation talk: started."
    conversation.refresh_from_db()
    assert conversation.next_number == 42


@pytest.mark.requirement("EB-130", "EB-132")
def test_a_hole_is_shown_and_skipped(
    supervisor: Client, viewer: Client, agreement: Agreement
) -> None:
    take(agreement, 0)
    into, conversation = InboundLink.objects.get(), InboundConversation.objects.get()
    assert tables_of(viewer, into)[MISSING].rows == []
    assert offered(supervisor, conversation) == ["start_order"]
    assert "Number 1 comes next." in page_of(viewer, conversation)
    take(agreement, 3, 2, 7)
    take(agreement, 5, conversation="late")
    make_due(conversation_id="talk")
    watch()

    called, other = tables_of(viewer, into)[MISSING].rows
    assert url(InboundConversation, "change", conversation.pk) in str(called[0])
    assert (called[2:4], "opened" in str(called[5])) == ((1, 3), True)
    assert (other[2:4], "opened" in str(other[5])) == ((0, 1), False)
    link = page_of(viewer, into)
    assert "messages have no sequence numbers" in link.lower()
    assert "Resets" not in link
    incident = Incident.objects.get(kind="predecessor_missing")
    assert url(InboundConversation, "change", conversation.pk) in page_of(viewer, incident)
    restarted = Incident.objects.create(
        partner=into.partner,
        direction="in",
        kind="order_restarted",
        message_id=InboundMessage.objects.get(order_number=0).message_id,
        opened_at=incident.opened_at,
        last_at=incident.last_at,
    )
    assert url(InboundConversation, "change", conversation.pk) in page_of(viewer, restarted)
    page = page_of(viewer, conversation)
    assert "Number 1 is missing: 3 messages wait for it. An incident was opened." in page
    assert url(Incident, "change", incident.pk) in page
    listed = tables_of(viewer, into)["Messages, newest first"].rows
    assert {row[1] for row in listed} == {0, 2, 3, 5, 7}
    held = tables_of(viewer, conversation)["Held, lowest number first"].rows
    assert [row[1] for row in held] == [2, 3, 7]
    first = InboundMessage.objects.get(order_number=2)
    assert url(InboundMessage, "change", first.pk) in str(held[0][0])
    assert url(InboundConversation, "change", conversation.pk) in page_of(viewer, first)
    assert offered(viewer, conversation) == []
    assert offered(supervisor, conversation) == [
        *("extend_wait", "skip_missing", "start_order", "drop_held")
    ]
    page = page_of(supervisor, conversation)
    assert page.count('class="msh-action msh-action-irreversible" data-dialog') == 1
    assert "Start order at a number" in page
    says = str(supervisor.get(address("skip_missing", conversation)).context["consequence"])
    assert says.endswith(
        " hospital does not have to do anything. Given up: from number 1 on, 1 message. Delivered"
        " now: 2 messages. Then number 4 comes next; still held: 1 message."
    )

    said = messages_of(use(supervisor, "skip_missing", conversation, "they lost it"))

    assert said == "Conversation talk: skipped. Number 4 comes next; 1 message is held."
    assert InboundMessage.objects.get(message_id="talk-7").state == "held"
    entry = History.objects.get(event="MissingSkipped")
    assert (entry.actor, "they lost it" in entry.detail) == ("sue", True)
    use(supervisor, "start_order", conversation, last="6")
    assert InboundMessage.objects.get(message_id="talk-7").state == "accepted"
    for name in ("extend_wait", "skip_missing", "drop_held"):
        assert "nothing is held." in supervisor.get(address(name, conversation)).content.decode()


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
    assert table.headers[5] == "Left the order"
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
    sky = make_sky(ordered=True, window=120)
    first = sky.submit(conversation_id="talk")
    sky.poll()
    sky.answer(first)
    for _ in range(102):
        sky.submit(conversation_id="talk")
    while Flight.objects.filter(number__isnull=False).count() < 102:
        assert sky.poll()

    page = page_of(viewer, OutboundConversation.objects.get())

    assert "acknowledged: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 92 more. The next" in page


@pytest.mark.requirement("EB-132")
def test_what_is_held_waits_on_or_is_dropped(supervisor: Client, agreement: Agreement) -> None:
    take(agreement, 0, 2, 3)
    make_due()
    watch()
    conversation = InboundConversation.objects.get()

    said = messages_of(use(supervisor, "extend_wait", conversation))

    assert said == "Conversation talk: wait extended. Number 1 comes next; 2 messages are held."
    assert "An incident is opened at " in page_of(supervisor, conversation)
    says = str(supervisor.get(address("drop_held", conversation)).context["consequence"])
    assert "Given up: 2 messages. Then number 1 comes next; still held: 0 messages." in says
    use(supervisor, "drop_held", conversation)
    assert InboundMessage.objects.filter(state="rejected").count() == 2


@pytest.mark.requirement("EB-121")
def test_held_messages_are_listed_in_their_order(viewer: Client, agreement: Agreement) -> None:
    change_conversation.start_order_in(agreement, "talk", serial.LAST - 2, Actor("ann", "moved"))
    take(agreement, 1, serial.LAST)

    tables = tables_of(viewer, InboundConversation.objects.get())

    held = tables["Held, lowest number first"].rows
    assert [row[1] for row in held] == [serial.LAST, 1]


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
