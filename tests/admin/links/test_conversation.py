"""Conversations in order: those that need an operator, and what is done to them."""

import re
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

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
from tests.admin.conftest import address, messages_of, offered, page_of, path_of, submit, url, use
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


@pytest.fixture
def stopped() -> OutboundMessage:
    """A message that stops its conversation, in which two wait behind it. Beside it one that has
    no message any more."""
    sky = make_sky(ordered=True)
    other = sky.submit(conversation_id="other")
    sky.poll()
    sky.answer(other)
    return stop(sky, "talk", behind=2)


@pytest.fixture
def hole(agreement: Agreement) -> InboundConversation:
    """Numbers 2, 3 and 7 wait for number 1. Beside it a conversation of which nobody is called."""
    take(agreement, 0, 3, 2, 7)
    take(agreement, 5, conversation="late")
    make_due(conversation_id="talk")
    watch()
    return InboundConversation.objects.get(conversation_id="talk")


# --- what is said, of any conversation ----------------------------------------------------------


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


# --- a conversation that stands still -----------------------------------------------------------


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


# --- a conversation with a hole -----------------------------------------------------------------


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


@pytest.mark.requirement("EB-132")
def test_dialog_says_how_many_messages_are_dropped(
    supervisor: Client, agreement: Agreement
) -> None:
    take(agreement, 0, 2, 3)
    says = supervisor.get(address("drop_held", InboundConversation.objects.get()))
    assert "Given up: 2 messages. Then number 1 comes next; still held: 0 messages." in str(
        says.context["consequence"]
    )


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


# --- what helps is a button -----------------------------------------------------------------------


def filled(client: Client, row: Model) -> list[str]:
    """The last part of the addresses of the buttons that are filled."""
    pattern = r'href="([^"]*)/"[^>]*class="msh-action msh-action-recommended"'
    return [one.rpartition("/")[2] for one in re.findall(pattern, page_of(client, row))]


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
