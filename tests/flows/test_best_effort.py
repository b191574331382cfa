"""Which BestEffort messages a poll finds, and which first."""

from collections.abc import Collection
from typing import Any

import pytest
from django.utils import timezone

from msh.models import OutboundLink, OutboundMessage
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending import polling
from msh.store.sending.message_sql import LARGE
from msh.store.sending.polling import Slots
from partners.models import Partner

from . import byhand
from .byhand import Carrying
from .world import World, make_world

pytestmark = pytest.mark.django_db

BEST_EFFORT, RELIABLE = DeliverySemantics.BEST_EFFORT, DeliverySemantics.ONCE_AND_ONLY_ONCE


def found(
    in_all: int = 100, of_partner: int = 100, full: Collection[int] = (), *, large: bool = True
) -> list[int]:
    """Row ids, in the order in which they are sent."""
    return [row.id for row in polling.lock_best_effort(Slots(of_partner, in_all, full, large))]


def queue(world: World, count: int = 1, text: str = "small", **options: Any) -> list[int]:
    options = {"semantics": BEST_EFFORT} | options
    return [world.submit(text, **options).pk for _ in range(count)]


@pytest.mark.parametrize(
    ("semantics", "values"),
    [
        (BEST_EFFORT, {"state": "sent"}),
        (BEST_EFFORT, {"state": "in_flight"}),
        (BEST_EFFORT, {"state": "cancelled"}),
        (RELIABLE, {}),
    ],
)
def test_only_queued_best_effort_messages_take_slots(
    semantics: DeliverySemantics, values: dict[str, str]
) -> None:
    """Neither of the first link, nor of one between, nor before it on its own link."""
    worlds = [make_world() for _ in range(4)]
    others = [queue(world, semantics=semantics)[0] for world in worlds]
    OutboundMessage.objects.filter(pk__in=others).update(**values or {"state": "queued"})
    second, last = queue(worlds[1])[0], queue(worlds[3])[0]
    assert found(in_all=1) == [second]
    assert found(in_all=1, full=[worlds[1].there.pk]) == [last]
    assert found(of_partner=1) == [second, last]


@pytest.mark.parametrize(
    ("state", "goes"),
    [("idle", True), ("waiting", True), ("transient", False), ("suspended", False)],
)
def test_they_go_while_the_link_may_send(world: World, state: str, goes: bool) -> None:
    queue(world, semantics=RELIABLE)
    if state != "idle":
        world.poll()
    values: dict[str, Any] = {"state": state}
    if state == "suspended":
        values |= {"due": None, "unsent": False, "suspended_since": timezone.now()}
    OutboundLink.objects.update(**values)
    waiting = queue(world)
    assert found() == (waiting if goes else [])


@pytest.mark.parametrize(("retries_spent", "goes"), [(0, True), (1, True), (3, True), (4, False)])
def test_a_link_that_is_probed_lets_none_pass(retries_spent: int, goes: bool) -> None:
    """The terms of the message in flight say what a probe is, and no other's."""
    world = make_world(retries=3)
    queue(world, 2, semantics=RELIABLE)
    world.settle()
    queue(world, semantics=RELIABLE)
    byhand.poll(Carrying(busy=frozenset(Partner.objects.values_list("pk", flat=True))))
    OutboundLink.objects.filter(pk=world.link.pk).update(retries_spent=retries_spent)
    for message, retries in zip(OutboundMessage.objects.order_by("pk"), (0, 9), strict=False):
        terms = (message.terms or {}) | {"retries": retries}
        OutboundMessage.objects.filter(pk=message.pk).update(terms=terms)
    waiting = queue(world)
    assert found() == (waiting if goes else [])


def test_the_link_whose_first_message_is_oldest_comes_first() -> None:
    worlds = [make_world() for _ in range(3)]
    for world in worlds:
        OutboundLink.objects.create(partner=world.there)
    keys = [queue(worlds[n])[0] for n in (1, 2, 0)]
    assert found() == keys
    assert found(in_all=2) == keys[:2]


def test_each_link_has_a_place_before_one_has_two() -> None:
    flooded, other = make_world(), make_world()
    first, second, _ = queue(flooded, 3)
    (beside,) = queue(other)
    assert found(of_partner=1) == [first, beside, second]


@pytest.mark.parametrize("text", ["small", "x" * LARGE], ids=["small", "large"])
def test_poll_finds_no_more_than_there_are_slots(text: str) -> None:
    """Of large ones as many again; and one more of a partner than it has slots, so that the poll
    sees what is left."""
    worlds = [make_world() for _ in range(3)]
    for world in worlds:
        queue(world, 2, text=text)
    assert len(found(in_all=2, of_partner=1)) == 4
    assert len(found(in_all=1, of_partner=100)) == 2


def test_large_ones_have_a_window_of_their_own() -> None:
    worlds = [make_world() for _ in range(4)]
    large = [queue(world, text="x" * LARGE)[0] for world in worlds[:2]]
    small = [queue(world)[0] for world in worlds[2:]]
    assert found(in_all=1) == [large[0], small[0]]
    assert found(in_all=1, large=False) == small[:1]
    assert found() == [*large, *small]
