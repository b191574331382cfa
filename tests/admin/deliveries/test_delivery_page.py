"""The page of a delivery says what is known, who waits for it and what to do."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from msh.admin.deliveries import delivery_head
from msh.models import Consumer, ConsumerKind, Delivery, InboundConversation, InboundMessage
from msh.protocol.kinds import DeliveryState
from tests.admin.conftest import url, use
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def delivery(state: str, count: int = 3, **values: Any) -> Delivery:
    """Of the first of so many messages."""
    world = make_world()
    system = consumer(ConsumerKind.PULL, name="erp")
    first, *_ = receive(world, count)
    now = timezone.now()
    times = {"started_at": now, "ended_at": now} | (
        {"due": now} if state in ("failed", "processing") else {}
    )
    return Delivery.objects.create(
        consumer=system, message=first, state=state, attempt=1, **times, **values
    )


def page_of(client: Client, row: Delivery) -> str:
    html = client.get(url(Delivery, "change", row.pk)).content.decode()
    return " ".join(
        html.replace('<bdi class="msh-id">', "").replace("<bdi>", "").replace("</bdi>", "").split()
    )


def test_in_doubt_is_decided_on_its_page(administrator: Client) -> None:
    doubtful = delivery("in_doubt", detail="the lease of attempt 1 ended without a result")

    page = page_of(administrator, doubtful)

    assert "Unknown whether consumer erp has the message" in page
    assert "2 messages wait behind it." in page
    assert f"Search the application for MessageId {doubtful.message.message_id}." in page
    assert "If it has the message, mark the delivery completed. If it does not, run the" in page
    assert "sk the resolver" not in page
    for name in ("run-again", "mark-completed", "park", "reject"):
        assert f"/{doubtful.pk}/{name}/" in page
    assert "Received and stored" in page


def test_a_resolver_is_named_where_there_is_one(administrator: Client) -> None:
    doubtful = delivery("in_doubt")
    Consumer.objects.update(resolver="some.resolver")
    assert "Or ask the resolver: consumer erp finds out" in page_of(administrator, doubtful)


def test_one_that_nobody_decides_has_no_alarm(administrator: Client) -> None:
    page = page_of(administrator, delivery("completed", 1))
    assert "Consumer erp has taken the message." in page
    assert "Recommended action" not in page
    assert "msh-headline-suspended" not in page


@pytest.mark.parametrize("state", DeliveryState)
def test_each_sentence_begins_with_a_capital(state: DeliveryState) -> None:
    """F30: "consumer invoices has taken the message"."""
    texts = (delivery_head._SENTENCES.get(state, "{Consumer}"), delivery_head._DECIDED.get(state))
    for text in filter(None, texts):
        sentences = re.split(r"(?<=[.]) ", text)
        assert all(re.match(r"\{?[A-Z]", one) for one in sentences), text


def test_a_rejected_one_says_when_it_is_delivered_again(administrator: Client) -> None:
    """F30: "It is not delivered again" stood over the button *Run again*."""
    rejected = delivery("rejected", detail="unknown customer")
    page = page_of(administrator, rejected)
    assert "Consumer erp has rejected the message. Messages behind it go on." in page
    assert "If the cause is removed, run the delivery again: it is delivered out of order" in page
    assert f"/{rejected.pk}/run-again/" in page


@pytest.mark.parametrize(
    ("state", "label"),
    [("processing", "Lease ends"), ("failed", "Next attempt"), ("completed", "")],
)
def test_what_is_due_is_named(administrator: Client, state: str, label: str) -> None:
    """F30: the end of the lease was called the next attempt."""
    one = delivery(state, 1)
    Delivery.objects.filter(pk=one.pk).update(due=timezone.now() + timedelta(minutes=5))
    page = page_of(administrator, one)
    shown = [name for name in ("Lease ends", "Next attempt") if f"<dt>{name}</dt>" in page]
    assert shown == ([label] if label else [])


def test_a_parked_one_holds_nobody(administrator: Client) -> None:
    parked = delivery("parked")
    InboundMessage.objects.filter(pk=parked.message_id).update(state="parked")
    page = page_of(administrator, parked)
    assert "behind it are delivered without it" in page
    assert "wait behind it" not in page


def refused(count: int = 2) -> Delivery:
    """The first of so many messages, blocked by an error of its application."""
    application.reset()

    def refuse(message: InboundMessage) -> None:
        raise ConnectionError("no listener")

    consumer(ConsumerKind.IN_PROCESS, attempts=1, on_failure="block")
    application.act = refuse
    first, *_ = receive(make_world(), count)
    Desk().settle()
    application.reset()
    return Delivery.objects.get(message=first)


def rows_of(client: Client, row: Delivery) -> list[str]:
    """Of the timeline, as text."""
    (timeline,) = client.get(url(Delivery, "change", row.pk)).context["tables"]
    return [" | ".join(strip_tags(str(cell)) for cell in cells) for cells in timeline.rows]


def test_what_an_operator_marked_is_not_what_the_application_said(operator: Client) -> None:
    one = refused()
    use(operator, "mark_completed", one, "they booked it by hand")
    page = page_of(operator, one)
    assert "Marked completed by ann. Consumer" in page
    assert "has taken the message" not in page
    assert "0 delivered since, 1 not delivered yet" in page
    *_, started, _, marked = [row for row in rows_of(operator, one) if "Incident" not in row]
    assert "Attempt 1 to deliver it started | processing" in started
    assert "Marked completed by an operator | delivered | ann" in marked
    assert marked.endswith("attempt 1; they booked it by hand")

    Desk().settle()
    assert "1 delivered since, 0 not delivered yet" in page_of(operator, one)


def test_what_runs_again_is_not_what_failed(operator: Client) -> None:
    one = refused(1)
    use(operator, "run_again", one, "database back")
    page = page_of(operator, one)
    assert "Run again was requested: consumer" in page
    assert 'hx-trigger="every 5s"' in page
    (asked,) = (row for row in rows_of(operator, one) if "Run again" in row)
    assert asked.endswith("database back")
    assert "no listener" not in asked

    Desk().settle()
    page = page_of(operator, one)
    assert "has taken the message" in page
    assert 'hx-trigger="every 5s"' not in page


def test_only_what_waited_for_a_decision_is_counted_behind_it(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what comes later, nor what is in the order of another conversation."""
    one = refused(4)
    other = InboundMessage.objects.latest("pk")
    other.ordered_in = InboundConversation.objects.create(
        link=other.link, agreement=other.agreement, conversation_id="another",
        last_at=timezone.now(),
    )  # fmt: skip
    other.save(update_fields=["ordered_in"])
    use(operator, "mark_completed", one, "they booked it by hand")
    assert "0 delivered since, 2 not delivered yet" in page_of(operator, one)

    InboundMessage.objects.filter(pk=one.message_id + 1).update(
        received_at=timezone.now() + timedelta(minutes=1)
    )
    assert "0 delivered since, 1 not delivered yet" in page_of(operator, one)
    InboundMessage.objects.update(received_at=one.started_at)
    monkeypatch.setattr(delivery_head, "MOST", 1)
    assert "0 delivered since, more than 1 not delivered yet" in page_of(operator, one)
    InboundMessage.objects.update(state="delivered", delivered_at=timezone.now())
    assert "more than 1 delivered since, 0 not delivered yet" in page_of(operator, one)
    monkeypatch.setattr(delivery_head, "MOST", 2)
    assert "2 delivered since, 0 not delivered yet" in page_of(operator, one)
    assert "more than" not in page_of(operator, one)


def test_what_its_application_took_held_nobody_up(operator: Client) -> None:
    taken = delivery("completed")
    InboundMessage.objects.update(state="delivered", delivered_at=timezone.now())

    assert "delivered since" not in page_of(operator, taken)


def test_a_failure_that_does_not_count_was_not_asked_for(operator: Client) -> None:
    """Run again is said of who asked for it, after the attempt that is under way."""
    assert "Run again was requested" not in page_of(operator, delivery("failed"))
