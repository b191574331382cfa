"""Functions of the application that do not return: they hold a consumer's threads, and no more."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.flows.delivery.consumer_in_process import deliver_pair
from msh.flows.delivery.delivery_loop import THREADS_PER_CONSUMER
from msh.flows.sending.submit import submit
from msh.models import Consumer, ConsumerKind, Delivery
from msh.protocol.message import Payload
from msh.store.delivery import polling as delivery_work
from tests.delivery.desk import Desk, Function, consumer, receive, state_of
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

MANY = 2 * THREADS_PER_CONSUMER + 1
NOW = timezone.now()


class Hung(Desk):
    """Its calls have begun and do not return."""

    def call(self, key: Any, function: Function, *arguments: Any) -> None:
        self._calls.add(key)

    def running(self, which: Consumer) -> int:
        """How many threads this consumer has."""
        return sum(call.consumer == which.pk for call in self.calls)


def worlds_with_a_message(count: int) -> list[World]:
    worlds = [make_world() for _ in range(count)]
    for world in worlds:
        receive(world)
    return worlds


def test_a_consumer_that_hangs_leaves_threads_to_another() -> None:
    slow = consumer(ConsumerKind.IN_PROCESS, name="slow")
    worlds = worlds_with_a_message(MANY)
    other = consumer(ConsumerKind.IN_PROCESS, name="other", partner=worlds[-1].here)
    desk = Hung()
    desk.settle()
    assert (desk.running(slow), desk.running(other)) == (THREADS_PER_CONSUMER, 1)


def test_a_resolver_that_hangs_stops_no_other_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where a poll is full of deliveries that would have it asked."""
    resolver = "tests.delivery.application.resolve"
    slow = consumer(ConsumerKind.HTTP, name="slow", resolver=resolver)
    (world, *_) = worlds_with_a_message(MANY)
    dead = Desk()
    dead.transmitted.slots = MANY
    dead.settle()
    other = consumer(ConsumerKind.IN_PROCESS, name="other", partner=world.here)
    Delivery.objects.update(due=NOW - timedelta(days=2))
    Delivery.objects.filter(message__link__partner=world.here).update(
        consumer=other, state="failed", due=NOW - timedelta(days=1)
    )

    monkeypatch.setattr(delivery_work, "AT_ONCE", THREADS_PER_CONSUMER)
    desk = Hung()
    desk.settle()

    assert (desk.running(slow), desk.running(other)) == (THREADS_PER_CONSUMER, 1)


def test_a_run_of_a_pair_ends_where_another_consumer_takes_the_next() -> None:
    """Whose threads are counted by themselves."""
    first = consumer(ConsumerKind.IN_PROCESS, name="first", action="New")
    consumer(ConsumerKind.IN_PROCESS, name="second", action="Later")
    world = make_world()
    messages = receive(world, 2)
    submit(world.agreement, "Orders", "Later", [Payload(b"<order/>")])
    messages += receive(world)[:1]
    head = delivery_work.find_next(messages[0].link_id)

    assert deliver_pair(head, first) == 2
    assert [state_of(message)[0] for message in messages] == ["delivered", "delivered", "accepted"]
    Desk().settle()
    assert state_of(messages[2])[0] == "delivered"
