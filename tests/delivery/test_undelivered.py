"""Which messages wait for their consumer, and since when: one condition at a time."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.models import (
    Consumer,
    ConsumerKind,
    Delivery,
    History,
    InboundLink,
    InboundMessage,
)
from msh.store.operations.stuck_links import find_undelivered
from partners.models import Partner
from tests.delivery.desk import consumer, receive
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
NOW = timezone.now()
LONG = NOW - timedelta(days=2)
PULL = ConsumerKind.PULL


def waiting(count: int = 1) -> tuple[World, list[InboundMessage]]:
    """So many messages came two days ago, and their consumer has none of them."""
    world = make_world()
    messages = receive(world, count)
    of_world = InboundMessage.objects.filter(link__partner=world.here)
    of_world.update(received_at=LONG)
    return world, messages


def found(limit: int = 50) -> dict[int, str]:
    """Partner ids, and the consumer that is named."""
    return {key: one.consumer for key, one in find_undelivered(DAY, limit).items()}


def begin(message: InboundMessage, **values: Any) -> None:
    given = {"attempt": 1, "started_at": LONG, "state": "processing", "due": LONG} | values
    number = Consumer.objects.count()
    taker = consumer(PULL, name=f"taker-{number}", action=f"Action-{number}")
    Delivery.objects.create(message=message, consumer=taker, **given)


@pytest.mark.parametrize("recent", [False, True])
def test_a_message_waits_since_it_was_received(recent: bool) -> None:
    consumer(PULL)
    world, _ = waiting()
    if recent:
        InboundMessage.objects.update(received_at=NOW)
    assert found() == ({} if recent else {world.here.pk: "orders"})


@pytest.mark.parametrize("about", ["", "another pair", "an earlier run", "long ago"])
def test_it_waits_since_the_one_before_it_left(about: str) -> None:
    """Of the same pair, in the same run of numbers."""
    consumer(PULL)
    world, (first, _) = waiting(2)
    before = waiting()[1][0] if about == "another pair" else first
    InboundMessage.objects.filter(pk=first.pk).update(state="delivered", delivered_at=LONG)
    at = LONG if about == "long ago" else NOW
    InboundMessage.objects.filter(pk=before.pk).update(state="delivered", delivered_at=at)
    if about == "an earlier run":
        InboundMessage.objects.filter(pk=first.pk).update(epoch=0)
    assert (world.here.pk in found()) is bool(about)


@pytest.mark.parametrize(
    ("values", "is_stuck"),
    [
        ({}, True),
        ({"started_at": NOW}, False),
        ({"due": NOW + DAY}, False),
        ({"state": "failed"}, True),
        ({"state": "failed", "due": NOW + DAY}, True),
        ({"state": "blocked", "due": None}, False),
        ({"state": "in_doubt", "due": None}, False),
    ],
)
def test_attempt_moves_until_its_lease_expires(values: dict[str, Any], is_stuck: bool) -> None:
    """What waits for an operator has an incident of its own."""
    world, (message,) = waiting()
    begin(message, **values)
    assert list(found()) == ([world.here.pk] if is_stuck else [])


def test_the_delivery_is_the_newest_of_this_message() -> None:
    consumer(PULL, name="fits", action="New")
    world, (message, _) = waiting(2)
    begin(message, started_at=NOW)
    begin(message)
    begin(waiting()[1][0], started_at=NOW)
    newest = Delivery.objects.filter(message=message).order_by("-pk")[0]
    assert found() == {world.here.pk: newest.consumer.name}


@pytest.mark.parametrize(("delivers", "is_stuck"), [(True, False), (False, True)])
def test_without_a_consumer_only_what_is_held_is_stuck(delivers: bool, is_stuck: bool) -> None:
    """There is an incident for the rest."""
    world, _ = waiting()
    Partner.objects.filter(pk=world.here.pk).update(delivers=delivers)
    assert list(found()) == ([world.here.pk] if is_stuck else [])


@pytest.mark.parametrize(
    ("values", "moves"),
    [({}, True), ({"direction": "out"}, False), ({"subject": "message"}, False)],
)
def test_an_act_on_the_link_moves_what_waits(values: dict[str, str], moves: bool) -> None:
    consumer(PULL)
    world, _ = waiting()
    given = {"direction": "in", "subject": "link", "actor": "ann"} | values
    History.objects.create(partner=world.here, event="Something", **given)
    assert list(found()) == ([] if moves else [world.here.pk])


def test_longest_waiting_delivery_is_found_first() -> None:
    consumer(PULL)
    worlds = [waiting()[0] for _ in range(3)]
    for world, days in zip(worlds, (2, 4, 3), strict=True):
        link = InboundLink.objects.get(partner=world.here)
        link.messages.update(received_at=NOW - days * DAY)
    assert list(found(limit=2)) == [worlds[1].here.pk, worlds[2].here.pk]
