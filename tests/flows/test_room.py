"""Places for POSTs: what has none waits, whole, and hides nothing that has one."""

import pytest

from msh.flows.room import BYTES_AT_ONCE, LARGE, Room
from msh.models import Attempt
from msh.protocol.vocabulary import DeliverySemantics

from . import byhand
from .byhand import Carrying
from .world import make_world

pytestmark = pytest.mark.django_db


def test_what_has_no_place_spends_no_attempt_until_it_has_one() -> None:
    """Many silent partners may fill the carrier: a healthy one only waits."""
    world, other = make_world(), make_world()
    message = world.submit()
    best = other.submit(semantics=DeliverySemantics.BEST_EFFORT)

    assert byhand.look(Carrying(left=0)) == []
    assert world.link.state == "idle"
    (first,) = byhand.look(Carrying(left=1))

    assert first.partner_id == world.there.pk
    assert [attempt.message_id for attempt in Attempt.objects.all()] == [message.pk]
    best.refresh_from_db()
    assert best.state == "queued"
    (second,) = byhand.look(Carrying(left=1))
    assert second.partner_id == other.there.pk


def test_partners_without_a_place_do_not_hide_one_that_has() -> None:
    busy, free = make_world(), make_world()
    both = frozenset({busy.there.pk, free.there.pk})
    for world in (busy, free):
        world.submit()
        assert byhand.look(Carrying(busy=both)) == []

    (job,) = byhand.look(Carrying(left=1, busy=both - {free.there.pk}))

    assert job.partner_id == free.there.pk
    assert (busy.link.unsent, busy.link.attempt, busy.link.retries_spent) == (True, 0, 0)


def test_large_messages_wait_when_their_bytes_are_taken_and_small_ones_do_not() -> None:
    room = Room(Carrying())
    assert room.take(1, BYTES_AT_ONCE - 1)
    assert room.take(1, BYTES_AT_ONCE), "a message larger than what is left, or than all, goes too"
    assert not room.take(2, LARGE)
    assert room.refused
    assert room.take(2, LARGE - 1)


@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_one_look_claims_as_much_as_memory_allows_and_leaves_the_rest_to_the_next(
    semantics: DeliverySemantics,
) -> None:
    worlds = [make_world() for _ in range(3)]
    for world in worlds[:2]:
        world.submit("x" * LARGE, semantics=semantics)
    worlds[2].submit("small", semantics=semantics)
    nearly_full = Carrying(held=BYTES_AT_ONCE - 1)

    first = byhand.look(nearly_full)
    assert sorted(len(job.body) > LARGE for job in first) == [False, True]
    assert byhand.look(Carrying(held=BYTES_AT_ONCE)) == []
    (last,) = byhand.look(nearly_full)
    assert {job.partner_id for job in (*first, last)} == {world.there.pk for world in worlds}
