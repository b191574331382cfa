"""What operators see and do: console pages, commands, the trace, the logs, the checks."""

import html
import json
import logging
import re

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from msh.admin.deliveries.delivery import BULK_LIMIT
from msh.flows.delivery.pull import Outcome, settle, take
from msh.flows.operations import change_link
from msh.flows.operations.inspection.trace import message_counts, trace_of
from msh.models import Consumer, ConsumerKind, Delivery, History, InboundMessage, Incident
from msh.store.history import Actor
from tests.admin.conftest import client_of, submit
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.flows.world import LOST, World, make_world

pytestmark = pytest.mark.django_db

LIST = reverse("admin:msh_delivery_changelist")


@pytest.fixture
def operator() -> Client:
    return client_of("ann", "view_delivery", "decide_delivery")


def parked(count: int = 3) -> list[InboundMessage]:
    """Messages that the application did not take."""

    def refuse(message: InboundMessage) -> None:
        raise ConnectionError("no <b>stock</b>")

    consumer(ConsumerKind.IN_PROCESS, attempts=1, on_failure="park")
    application.act = refuse
    messages = receive(make_world(), count)
    Desk().settle()
    application.act = None
    return messages


def decide_one(client: Client, message: InboundMessage, verb: str) -> int:
    url = reverse(f"admin:msh_delivery_{verb}", args=[delivery_of(message).pk])
    status: int = submit(client, url, "seen").status_code
    return status


def test_the_pages_show_what_waits_and_escape_it(operator: Client) -> None:
    messages = parked()
    page = operator.get(LIST).content.decode()
    assert all(message.message_id in page for message in messages)
    assert "no &lt;b&gt;stock&lt;/b&gt;" in page
    url = reverse("admin:msh_delivery_change", args=[delivery_of(messages[0]).pk])
    assert re.search(rf'<a href="{url}[^>]*><span[^>]*><bdi>{messages[0].message_id}<', page)
    assert operator.get(url).status_code == 200


def blocked() -> InboundMessage:
    """The application does not take it, and its pair waits behind it."""
    orders = consumer(ConsumerKind.PULL, attempts=1, on_failure="block")
    message, _ = receive(make_world(), 2)
    (taken,) = take(orders, 1)
    settle(orders, taken.delivery, 1, Outcome.FAILED, reason="disk full")
    return message


def test_the_page_of_a_message_leads_to_its_delivery() -> None:
    message = blocked()
    client = client_of("vera", "view_inboundmessage")

    page = client.get(reverse("admin:msh_inboundmessage_change", args=[message.pk]))

    table = page.context["tables"][0]
    assert table.title == "Deliveries"
    ((name, state, *_),) = table.rows
    where = reverse("admin:msh_delivery_change", args=[delivery_of(message).pk])
    assert f'href="{where}"' in name
    assert "blocked" in state


def test_the_page_of_the_link_offers_what_helps_to_who_may() -> None:
    message = blocked()
    delivery = delivery_of(message)
    run_again = reverse("admin:msh_delivery_run_again", args=[delivery.pk])
    page = reverse("admin:msh_inboundlink_change", args=[message.link_id])

    sees = ("view_inboundlink", "view_delivery")
    offered = client_of("ann", *sees, "decide_delivery").get(page).content.decode()
    shown = client_of("vera", *sees).get(page).content.decode()

    where = reverse("admin:msh_delivery_change", args=[delivery.pk])
    assert f'href="{where}"' in offered
    assert f'href="{where}"' in shown
    assert run_again in offered
    assert run_again not in shown


def test_an_incident_leads_to_the_deliveries_it_is_about(admin_client: Client) -> None:
    message = blocked()
    incident = Incident.objects.get(kind="delivery_failed")

    page = admin_client.get(reverse("admin:msh_incident_change", args=[incident.pk]))

    links = re.findall(r'href="([^"]+)" class="text-link">(\w+) deliveries', page.content.decode())
    found = {
        state: admin_client.get(html.unescape(link)).context["cl"].result_list
        for link, state in links
    }
    assert {state: list(rows) for state, rows in found.items()} == {
        "blocked": [delivery_of(message)],
        "parked": [],
    }


def test_one_is_decided_in_its_dialog(operator: Client) -> None:
    first, second, third = parked()
    assert decide_one(operator, first, "mark_completed") == 302
    assert decide_one(operator, second, "reject") == 302
    assert decide_one(operator, third, "run_again") == 302
    Desk().settle()
    states = [state_of(message) for message in (first, second, third)]
    assert states == [
        ("delivered", "completed"),
        ("rejected", "rejected"),
        ("delivered", "completed"),
    ]


def test_the_dialog_speaks_of_this_message(operator: Client) -> None:
    first, second = parked(2)
    run_again = reverse("admin:msh_delivery_run_again", args=[delivery_of(first).pk])
    dialog = operator.get(run_again).content.decode()
    number = f"Message {first.sequence_number} of {first.link.partner}, {first.message_id}"
    assert number in dialog
    assert "The partner does not have to do anything" in dialog
    assert "out of order" in dialog

    Delivery.objects.filter(message=second).update(state="blocked")
    InboundMessage.objects.filter(pk=second.pk).update(state="accepted")
    blocked = reverse("admin:msh_delivery_run_again", args=[delivery_of(second).pk])
    assert "out of order" not in operator.get(blocked).content.decode()


def test_for_ticked_rows_only_what_is_possible_is_offered(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = parked(3)
    keys = [delivery_of(message).pk for message in messages]
    decide_one(operator, messages[0], "mark_completed")
    data = {"action": "decide_in_bulk", "_selected_action": keys}

    asked = operator.post(LIST, data)
    offered = dict(asked.context["form"].fields["decision"].choices)
    assert offered == {
        "run-again": "Run again (2)",
        "mark-completed": "Mark completed (2)",
        "reject": "Reject (2)",
    }

    monkeypatch.setattr("msh.admin.deliveries.delivery.BULK_LIMIT", 2)
    cut = operator.post(LIST, data).content.decode()
    assert "Only the first 2 of them are included." in cut


def test_as_many_rows_as_may_be_decided_fit_into_a_form(operator: Client) -> None:
    (message,) = parked(1)
    keys = [delivery_of(message).pk, *range(-BULK_LIMIT + 1, 0)]
    data = {"action": "decide_in_bulk", "decision": "mark-completed", "reason": "they have it"}

    operator.post(LIST, {**data, "_selected_action": keys})

    assert state_of(message) == ("delivered", "completed")


def test_a_viewer_decides_nothing() -> None:
    viewer = client_of("vera", "view_delivery")
    (message,) = parked(1)
    assert decide_one(viewer, message, "reject") == 403
    keys = [delivery_of(message).pk]
    viewer.post(
        LIST,
        {"action": "decide_in_bulk", "_selected_action": keys, "decision": "reject", "reason": "x"},
    )
    assert state_of(message) == ("parked", "parked")


def test_many_are_decided_at_once(operator: Client) -> None:
    messages = parked()
    keys = [delivery_of(message).pk for message in messages]
    asked = operator.post(LIST, {"action": "decide_in_bulk", "_selected_action": keys})
    html = asked.content.decode()
    assert "Decide on 3 deliveries</h2>" in html
    for message in messages:
        assert f"{message.message_id}</bdi></a>" in html
    assert '<textarea name="reason"' in html
    assert "border" in asked.context["form"].fields["reason"].widget.attrs["class"]
    assert {state_of(message) for message in messages} == {("parked", "parked")}
    decided = operator.post(
        LIST,
        {
            "action": "decide_in_bulk",
            "_selected_action": keys,
            "decision": "mark-completed",
            "reason": "they have them",
        },
        follow=True,
    ).content.decode()
    assert "Mark completed: 3 done. See what became of " in decided
    for key in keys:
        assert f"delivery {key}</bdi></a>" in decided
    assert {state_of(message) for message in messages} == {("delivered", "completed")}
    delivered = History.objects.filter(actor="ann", event="MessageDelivered")
    assert delivered.filter(detail__contains="they have them").count() == 3


def test_only_what_is_named_can_be_selected_at_once(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has counted what is on the other pages."""
    parked(2)
    html = operator.get(LIST).content.decode()
    assert "9999999999" not in html
    assert "Select all matching" not in html
    monkeypatch.setattr("msh.admin.deliveries.delivery.DeliveryAdmin.list_per_page", 1)
    html = operator.get(LIST).content.decode()
    assert "9999999999" not in html
    assert f"Select all matching deliveries, at most {BULK_LIMIT}" in html


def test_a_consumer_is_made_in_the_console(admin_client: Client) -> None:
    form = {
        "name": "orders",
        "enabled": "on",
        "kind": "http",
        "url": "http://127.0.0.1:9/x",
        "lease": "30",
        "attempts": "3",
        "retry_interval": "5",
        "on_failure": "park",
        "history": "on",
        "authorization": "Bearer secret",
        "reason": "the shop takes them",
    }
    answer = admin_client.post(reverse("admin:msh_consumer_add"), form)
    assert answer.status_code == 302, answer.content.decode()
    made = Consumer.objects.get()
    assert (made.policy.lease, made.authorization()) == (30, "Bearer secret")
    form["url"] = "ftp://x/"
    refused = admin_client.post(reverse("admin:msh_consumer_change", args=[made.pk]), form)
    assert "not a URL to POST to" in refused.content.decode()


def test_consumers_and_decisions_by_command(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("consumer", "calls", url="http://127.0.0.1:9/x", lease=30, history="off")
    call_command("consumer", "calls", lease=40)
    made = Consumer.objects.get(name="calls")
    assert (made.kind, made.lease, made.history) == ("http", 40, False)
    with pytest.raises(CommandError, match="lease"):
        call_command("consumer", "calls", lease=0)
    with pytest.raises(CommandError, match="cannot be imported"):
        call_command("consumer", "other", path="no.such.thing")
    made.delete()
    messages = parked(2)
    capsys.readouterr()
    call_command("deliveries", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["message_id"] for row in rows] == [message.message_id for message in messages]
    call_command("decide", "mark-completed", all_in="parked", reason="seen")
    assert "mark-completed: 2 done." in capsys.readouterr().out
    with pytest.raises(CommandError, match="1 of 1 were refused"):
        call_command("decide", "reject", str(rows[0]["delivery"]), reason="seen")
    with pytest.raises(CommandError, match="Specify deliveries"):
        call_command("decide", "reject", reason="seen")


@pytest.mark.requirement("001-26", "001-27", "004-11")
def test_trace_and_counts_have_both_directions(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer(ConsumerKind.IN_PROCESS)
    message = world.submit()
    world.settle()
    Desk().settle()

    events = [moment.event for moment in trace_of(message.message_id)]

    sent = {"MessageSubmitted", "PutInFlight", "Attempt 1", "AckReceived", "FromPartyPending"}
    assert sent <= set(events)
    received = ["MessageArrived", "Delivery 1", "MessageDelivered"]
    assert [event for event in events if event in received] == received
    assert {moment.direction for moment in trace_of(message.message_id)} == {"in", "out"}
    call_command("trace", message.message_id)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 24
    call_command("trace", message.message_id, "--json")
    (entry, *_) = json.loads(capsys.readouterr().out)["history"]
    assert list(entry) == list(trace_of(message.message_id)[0].document())
    assert lines[1].split() == [name for name in entry if name not in ("times", "since")]
    counts = message_counts()
    passed = ("out MessageSubmitted", "in MessageArrived", "in MessageDelivered")
    assert [counts[name] for name in passed] == [1, 1, 1]
    call_command("messages", "--counts", "--partner", world.there.name, "--json")
    of_partner = json.loads(capsys.readouterr().out)
    assert {"event": "out MessageSubmitted", "count": 1} in of_partner
    assert not [row for row in of_partner if row["event"].startswith("in ")]


@pytest.mark.requirement("001-25")
def test_a_day_of_failures_is_quiet_and_one_screen(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A partner that is down, and an application that is: no stack trace, a line each."""
    caplog.set_level(logging.INFO)
    world = make_world(retries=1000, retry_interval=1)
    consumer(ConsumerKind.IN_PROCESS, attempts=2000, retry_interval=0)
    message = world.submit()
    for number in range(50):
        world.post(LOST)
        if number < 49:
            change_link.send_now(world.there, Actor("clock", ""))
    change_link.send_now(world.there, Actor("clock", ""))
    world.settle()

    def refuse(message: InboundMessage) -> None:
        raise ConnectionError("down")

    application.act = refuse
    desk = Desk()
    for _ in range(50):
        desk.poll()
    assert delivery_of(InboundMessage.objects.get()).failures == 50
    troubles = [record for record in caplog.records if record.levelno >= logging.INFO]
    assert len(troubles) <= 60
    assert not any(record.exc_info or "Traceback" in record.getMessage() for record in troubles)
    capsys.readouterr()
    call_command("trace", message.message_id)
    screen = capsys.readouterr().out
    assert len(screen.splitlines()) <= 40, screen
    assert "50 times since" in screen


@pytest.mark.requirement("002-12")
def test_without_a_document_history_the_check_fails_loudly() -> None:
    made = consumer(ConsumerKind.IN_PROCESS)
    assert [m.id for m in run_checks(tags=["database"], databases=["default"])] == []
    Consumer.objects.filter(pk=made.pk).update(path="no.such.consumer")
    (warning,) = run_checks(tags=["database"], databases=["default"])
    assert (warning.id, "no.such.consumer" in warning.msg) == ("msh.W001", True)
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {Delivery._meta.db_table} RENAME TO elsewhere")
    (error,) = run_checks(tags=["database"], databases=["default"])
    assert error.id == "msh.E006"


@pytest.mark.requirement("001-19")
def test_the_history_is_found_by_index() -> None:
    """Whatever the number of rows: a duplicate is looked up by (pair, MessageId), a delivery by
    its message."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for query in (
            "SELECT FROM msh_inboundmessage WHERE link_id = 1 AND message_id = 'x'",
            "SELECT FROM msh_delivery WHERE message_id = 1",
            "SELECT FROM msh_delivery WHERE consumer_id = 1 AND message_id = 1",
        ):
            cursor.execute(f"EXPLAIN {query}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert "Index" in plan, plan
