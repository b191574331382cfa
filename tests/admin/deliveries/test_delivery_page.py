"""The page of a delivery says what is known, who waits for it and what to do."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from msh.models import Consumer, ConsumerKind, Delivery, InboundMessage
from tests.admin.conftest import url
from tests.delivery.desk import consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def delivery(state: str, count: int = 3, **values: Any) -> Delivery:
    """Of the first of so many messages."""
    world = make_world()
    system = consumer(ConsumerKind.PULL, name="erp")
    first, *_ = receive(world, count)
    now = timezone.now()
    times = {"started_at": now, "ended_at": now} | ({"due": now} if state == "failed" else {})
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
    assert "If it has the message, choose Mark completed. If it does not, choose Run again." in page
    assert "With Ask resolver" not in page
    for name in ("run-again", "mark-completed", "park", "reject"):
        assert f"/{doubtful.pk}/{name}/" in page
    assert "Received and stored" in page


def test_a_resolver_is_named_where_there_is_one(administrator: Client) -> None:
    doubtful = delivery("in_doubt")
    Consumer.objects.update(resolver="some.resolver")
    assert "With Ask resolver, consumer erp finds out" in page_of(administrator, doubtful)


def test_one_that_nobody_decides_has_no_alarm(administrator: Client) -> None:
    page = page_of(administrator, delivery("completed", 1))
    assert "consumer erp has taken the message." in page.lower()
    assert "Recommended action" not in page
    assert "msh-headline-suspended" not in page


def test_a_parked_one_holds_nobody(administrator: Client) -> None:
    parked = delivery("parked")
    InboundMessage.objects.filter(pk=parked.message_id).update(state="parked")
    page = page_of(administrator, parked)
    assert "behind it are delivered without it" in page
    assert "wait behind it" not in page
