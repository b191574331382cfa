"""An inbound message that waits says behind what, because of what, and since when."""

import pytest
from django.test import Client

from msh.models import Consumer, ConsumerKind, Delivery, InboundMessage
from tests.admin.conftest import page_of
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def words(client: Client, message: InboundMessage) -> str:
    """The sentence at the head of its page, without marks."""
    html = page_of(client, message).split('aria-label="Summary"')[1].split("</section>")[0]
    return " ".join(html.replace("<bdi>", "").replace("</bdi>", "").split())


def test_one_behind_another_names_it_and_its_delivery(administrator: Client) -> None:
    consumer(ConsumerKind.HTTP, name="erp", url="http://127.0.0.1:9/")
    first, _, third = receive(make_world(), 3)
    blocked = Delivery.objects.create(
        consumer=Consumer.objects.get(),
        message=first,
        state="blocked",
        attempt=3,
        started_at=first.received_at,
        ended_at=first.received_at,
        detail="ORA-12541: no listener",
    )
    shown = words(administrator, third)
    assert "It waits behind 2 messages of this partner." in shown
    for row in (first, blocked):
        assert f"/{row.pk}/change/" in shown
    for word in ("consumer erp", "ORA-12541: no listener", "An operator has to decide", "ago"):
        assert word in shown
    assert "waits behind" not in words(administrator, first)


def test_one_without_a_consumer_leads_to_a_new_one(administrator: Client) -> None:
    (first,) = receive(make_world(), 1)
    shown = words(administrator, first)
    assert "no consumer takes" in shown
    assert "Add consumer" in shown


def test_one_that_its_application_never_fetched(administrator: Client) -> None:
    consumer(ConsumerKind.PULL, name="archive")
    (first,) = receive(make_world(), 1)
    assert "fetches its messages itself. It last fetched: never." in words(administrator, first)


def test_one_of_a_partner_who_is_held(administrator: Client) -> None:
    consumer(ConsumerKind.PULL, name="archive")
    world = make_world()
    (first,) = receive(world, 1)
    type(world.here).objects.filter(pk=first.link.partner_id).update(delivers=False)
    assert "Messages of this partner are held by an operator" in words(administrator, first)


def test_one_that_is_delivered_waits_for_nobody(administrator: Client) -> None:
    consumer(ConsumerKind.IN_PROCESS)
    (first,) = receive(make_world(), 1)
    Desk().settle()
    first.refresh_from_db()
    shown = words(administrator, first)
    assert "Delivered to the application." in shown
    assert "waits" not in shown
