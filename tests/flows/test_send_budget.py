"""Slots for POSTs: what has none waits, whole, and hides nothing that has one."""

from datetime import timedelta

import pytest
from django.utils import timezone

from msh.flows.operations import cancel
from msh.flows.send_budget import BYTES_AT_ONCE, SendBudget
from msh.models import Attempt, OutboundLink
from msh.protocol.kinds import Verdict
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending.message_sql import LARGE

from . import byhand
from .byhand import Carrying
from .recovering import ANN
from .world import World, make_world

pytestmark = pytest.mark.django_db


def test_waiting_for_a_place_uses_no_attempt() -> None:
    """Many silent partners may fill the carrier: a healthy one only waits."""
    world, other = make_world(), make_world()
    message = world.submit()
    best = other.submit(semantics=DeliverySemantics.BEST_EFFORT)

    assert byhand.poll(Carrying(left=0)) == []
    assert world.link.state == "idle"
    (first,) = byhand.poll(Carrying(left=1))

    assert first.partner_id == world.there.pk
    assert [attempt.message_id for attempt in Attempt.objects.all()] == [message.pk]
    best.refresh_from_db()
    assert best.state == "queued"
    (second,) = byhand.poll(Carrying(left=1))
    assert second.partner_id == other.there.pk


def test_partners_without_a_place_do_not_hide_one_that_has() -> None:
    busy, free = make_world(), make_world()
    both = frozenset({busy.there.pk, free.there.pk})
    for world in (busy, free):
        world.submit()
        assert byhand.poll(Carrying(busy=both)) == []

    (job,) = byhand.poll(Carrying(left=1, busy=both - {free.there.pk}))

    assert job.partner_id == free.there.pk
    assert (busy.link.unsent, busy.link.attempt, busy.link.retries_spent) == (True, 0, 0)


def test_large_messages_wait_for_memory_and_small_ones_do_not() -> None:
    budget = SendBudget(Carrying())
    assert budget.reserve(1, BYTES_AT_ONCE - 1)
    assert budget.reserve(1, BYTES_AT_ONCE), (
        "a message larger than what is left, or than all, goes too"
    )
    assert not budget.reserve(2, LARGE)
    assert budget.refused
    assert budget.reserve(2, LARGE - 1)


@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_one_poll_claims_as_much_as_memory_allows(
    semantics: DeliverySemantics,
) -> None:
    worlds = [make_world() for _ in range(3)]
    for world in worlds[:2]:
        world.submit("x" * LARGE, semantics=semantics)
    worlds[2].submit("small", semantics=semantics)
    nearly_full = Carrying(held=BYTES_AT_ONCE - 1)

    first = byhand.poll(nearly_full)
    assert sorted(len(job.body) > LARGE for job in first) == [False, True]
    assert byhand.poll(Carrying(held=BYTES_AT_ONCE)) == []
    (last,) = byhand.poll(nearly_full)
    assert {job.partner_id for job in (*first, last)} == {world.there.pk for world in worlds}


def test_large_copy_before_a_small_message_needs_its_bytes() -> None:
    worlds = [make_world() for _ in range(2)]
    for world in worlds:
        world.submit("x" * LARGE)
        world.submit("small")
    assert byhand.poll(Carrying(held=BYTES_AT_ONCE)) == []  # in flight, and not sent

    (job,) = byhand.poll(Carrying(held=BYTES_AT_ONCE - 1))

    assert len(job.body) > LARGE


def let_a_deadline_pass(world: World, due: timedelta = timedelta(0)) -> None:
    OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now() - due)


@pytest.mark.parametrize("text", ["small", "x" * LARGE], ids=["small", "large"])
def test_a_deadline_passes_though_there_is_no_place(text: str) -> None:
    """Nothing is to be sent, an operator is to be called."""
    world = make_world(retries=0)
    _, job = world.start(text)
    world.end(job)
    let_a_deadline_pass(world)
    busy = frozenset({world.there.pk})

    assert byhand.poll(Carrying(left=1, busy=busy, held=BYTES_AT_ONCE)) == []

    assert world.link.state == "suspended"


def test_longest_due_gets_the_first_place() -> None:
    worlds = [make_world() for _ in range(3)]
    for world in worlds:
        world.submit()
    for job in byhand.poll():
        byhand.end(job)
    for minutes, world in zip((1, 3, 2), worlds, strict=True):
        let_a_deadline_pass(world, timedelta(minutes=minutes))

    partners = [byhand.poll(Carrying(left=1))[0].partner_id for _ in worlds]

    assert partners == [worlds[n].there.pk for n in (1, 2, 0)]


def test_partners_with_nothing_to_send_do_not_hide_one_that_has() -> None:
    worlds = [make_world() for _ in range(3)]
    for world in worlds:
        world.submit()
        world.settle()
    for world in worlds:
        world.submit()
        (job,) = byhand.poll(Carrying(left=1))
        assert job.partner_id == world.there.pk
        world.hand_over(job)
        world.settle()


def test_best_effort_messages_go_in_order_in_the_places_of_their_partner(world: World) -> None:
    best_effort = DeliverySemantics.BEST_EFFORT
    submitted = [world.submit(semantics=best_effort).message_id for _ in range(6)]

    polls = [[job.key.message_id for job in byhand.poll()] for _ in range(2)]  # type: ignore[attr-defined]

    assert polls == [submitted[:4], submitted[4:]]


def test_signals_go_in_order_in_the_places_of_their_partner(world: World) -> None:
    full = frozenset({world.here.pk})
    for _ in range(6):
        message = world.submit()
        (job,) = byhand.poll(Carrying(busy=full))
        world.hand_over(job)
        world.end(job)
        cancel.cancel(message, Verdict.RECEIVED, ANN)

    polls = [[job.key.ref_to_message_id for job in byhand.poll()] for _ in range(2)]  # type: ignore[attr-defined]

    assert polls == [world.received()[:4], world.received()[4:]]


@pytest.mark.parametrize(
    ("state", "retries_spent", "sent"),
    [("waiting", 0, 1), ("waiting", 2, 1), ("waiting", 4, 0), ("transient", 0, 0)],
    ids=["first copy", "retry", "probe", "told to wait"],
)
def test_best_effort_messages_go_while_the_link_may_send(
    state: str, retries_spent: int, sent: int
) -> None:
    world = make_world(retries=3)
    _, job = world.start()
    world.end(job)
    OutboundLink.objects.filter(pk=world.link.pk).update(state=state, retries_spent=retries_spent)
    world.submit(semantics=DeliverySemantics.BEST_EFFORT)

    assert len(world.poll()) == sent


def test_best_effort_messages_without_a_place_do_not_hide_others() -> None:
    worlds = [make_world() for _ in range(2)]
    for world in worlds:
        world.submit(semantics=DeliverySemantics.BEST_EFFORT)
    full = frozenset({worlds[0].there.pk})

    (job,) = byhand.poll(Carrying(left=1, busy=full))

    assert job.partner_id == worlds[1].there.pk
