"""What is decided together is locked in the order that others lock it in, and no more than that.

`tests/flows/test_lock_order.py` crosses whole transactions; here it is one statement at a time.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from msh.models import Consumer, ConsumerKind, Delivery, InboundMessage, Incident
from msh.store.delivery import deliveries
from msh.store.delivery.deliveries import Consumers
from tests.flows.world import World, make_world
from tests.sessions import beside, in_another_session, somebody_waits_for_us
from tests.waiting import wait_until

from .desk import consumer, receive

pytestmark = pytest.mark.django_db(transaction=True)

NOW = timezone.now()


def blocked(taker: Consumer, world: World) -> Delivery:
    (message,) = receive(world)
    return Delivery.objects.create(
        message=message, consumer=taker, state="blocked", attempt=1, started_at=NOW
    )


def incidents(world: World) -> list[Incident]:
    kinds = ("delivery_in_doubt", "delivery_failed", "delivery_rejected")  # locked last to first
    return [
        Incident.objects.create(
            partner=world.here, direction="in", kind=kind, opened_at=NOW, last_at=NOW
        )
        for kind in kinds
    ]


Rows = tuple[Any, Any]
"""That which is locked first, and the next."""


def two_deliveries(made: list[Delivery], worlds: list[World]) -> Rows:
    return made[0], made[1]


def two_messages(made: list[Delivery], worlds: list[World]) -> Rows:
    return made[0].message, made[1].message


def incidents_of_two_partners(made: list[Delivery], worlds: list[World]) -> Rows:
    second, first = (incidents(world)[1] for world in reversed(worlds))
    return first, second


def incidents_of_one_partner(made: list[Delivery], worlds: list[World]) -> Rows:
    *_, second, first = incidents(worlds[0])
    return first, second


def hold(row: Any) -> None:
    with transaction.atomic():
        type(row).objects.select_for_update(no_key=True).get(pk=row.pk)


@pytest.mark.parametrize(
    "choose", [two_deliveries, two_messages, incidents_of_two_partners, incidents_of_one_partner]
)
def test_waiting_for_the_first_row_holds_no_later_lock(choose: Callable[..., Rows]) -> None:
    """Otherwise two that decide on the same deliveries could wait for each other."""
    taker = consumer(ConsumerKind.HTTP)
    worlds = [make_world() for _ in range(2)]
    made = [blocked(taker, world) for world in worlds]
    first, second = choose(made, worlds)
    keys = [one.pk for one in reversed(made)]

    def decide() -> None:
        with transaction.atomic():
            deliveries.lock_to_decide(keys, Consumers())

    with ExitStack() as stack, transaction.atomic():
        hold(first)
        deciding = stack.enter_context(beside(decide))
        wait_until(lambda: somebody_waits_for_us() or deciding.done())
        assert not deciding.done()
        in_another_session(lambda: hold(second))


def test_decision_does_not_block_references_to_the_message() -> None:
    taker = consumer(ConsumerKind.HTTP)
    made = blocked(taker, make_world())
    other = consumer(ConsumerKind.HTTP, name="other", action="Cancel")

    def refer() -> None:
        Delivery.objects.create(
            message=InboundMessage.objects.get(),
            consumer=other,
            state="blocked",
            attempt=1,
            started_at=NOW,
        )

    with transaction.atomic():
        deliveries.lock_to_decide([made.pk], Consumers())
        in_another_session(refer)
    assert Delivery.objects.count() == 2
