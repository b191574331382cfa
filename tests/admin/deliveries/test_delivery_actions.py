"""The decisions on a delivery."""

import pytest

from msh.models import ConsumerKind, Delivery, InboundMessage
from tests.admin.conftest import address, client_of, messages_of, use
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def test_parking_a_blocked_delivery_delivers_the_next_message() -> None:
    application.reset()

    def refuse(message: InboundMessage) -> None:
        if message.pk == first.pk:
            raise ConnectionError("no stock")

    consumer(ConsumerKind.IN_PROCESS, attempts=1, on_failure="block")
    application.act = refuse
    first, second = receive(make_world(), 2)
    Desk().settle()
    delivery = Delivery.objects.get(message=first)
    assert delivery.state == "blocked"

    decider = client_of("dora", "view_delivery", "decide_delivery")
    assert "Park: done." in messages_of(use(decider, "park", delivery))
    Desk().settle()

    delivery.refresh_from_db()
    assert delivery.state == "parked"
    assert Delivery.objects.get(message=second).state == "completed"
    assert "is parked" in decider.get(address("park", delivery)).content.decode()
    application.reset()
