"""A lane that is taken out of the work: which message is named, and what of it is written."""

from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from msh.flows.sending.kinds import LaneCopy
from msh.models import (
    Attempt,
    History,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
    PartyEvent,
)
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending.isolation import isolate_link
from tests.sessions import meet

from .byhand import TRANSMITTED
from .recovering import numbers, suspend
from .world import World, make_world

pytestmark = pytest.mark.django_db

WHY = "RuntimeError: what nobody has thought of"


def isolate(world: World, *ended: Any) -> None:
    with transaction.atomic():
        isolate_link(world.there.pk, WHY, ended)


def named(world: World) -> str:
    isolate(world)
    return Incident.objects.get().message_id


def test_isolated_message_is_named_and_its_from_party_notified(world: World) -> None:
    message = world.submit()
    world.submit()
    world.poll()
    assert named(world) == message.message_id
    event = PartyEvent.objects.get()
    assert (event.message, event.kind, event.detail) == (message, "suspended", WHY)


def test_without_one_the_head_of_its_queue_is_named() -> None:
    other, world = make_world(), make_world()
    world.submit()
    world.settle()
    other.submit()
    world.submit(semantics=DeliverySemantics.BEST_EFFORT)
    head = world.submit()
    world.submit()
    assert named(world) == head.message_id
    assert not PartyEvent.objects.filter(kind="suspended").exists()


def test_rewound_messages_are_named_before_the_queue(world: World) -> None:
    messages = [world.submit() for _ in range(3)]
    world.settle()
    for message, number in zip(messages, (3, 1, 2), strict=True):
        OutboundMessage.objects.filter(pk=message.pk).update(sequence_number=10 + number)
    OutboundMessage.objects.update(state="rewound")
    world.submit()
    assert numbers(world)[-1] == ("queued", None)
    assert named(world) == messages[1].message_id


def test_a_lane_without_messages_is_suspended_for_what_it_raised() -> None:
    world, other = make_world(), make_world()
    for one in (world, other):
        OutboundLink.objects.create(partner=one.there)
    assert named(world) == ""
    link = world.link
    assert (link.state, link.suspended_for, link.suspended_detail) == (
        "suspended",
        "processing_failed",
        WHY,
    )
    assert other.link.state == "idle"


def test_isolated_forwarded_message_notifies_no_application(world: World) -> None:
    world.submit()
    world.settle()
    onward = world.submit()
    OutboundMessage.objects.filter(pk=onward.pk).update(forwards=InboundMessage.objects.get())
    world.poll()
    isolate(world)
    assert not PartyEvent.objects.filter(message=onward).exists()


def test_a_lane_that_is_suspended_stays_suspended_for_what_it_was(world: World) -> None:
    _, job = world.start()
    suspend(world)
    OutboundLink.objects.update(suspended_since=timezone.now())
    before = world.link
    key = job.key
    assert isinstance(key, LaneCopy)

    isolate(world, (key.key, key.attempt, TRANSMITTED))

    link = world.link
    assert (link.suspended_for, link.suspended_since) == ("operator", before.suspended_since)
    assert Attempt.objects.get().outcome == "transmitted"
    assert Incident.objects.get().kind == "processing_failed"
    assert History.objects.filter(event="ProcessingFailed").count() == 1


@pytest.mark.django_db(transaction=True)
def test_isolation_waits_for_the_lock_of_the_lane(world: World) -> None:
    """What it was suspended for meanwhile stands."""
    world.submit()
    world.poll()
    meet(lambda: suspend(world), lambda: isolate(world))
    assert world.link.suspended_for == "operator"
