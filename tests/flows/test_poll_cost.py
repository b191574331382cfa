"""What one poll for work finds, and what it costs: by the work there is, not by what is stored."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from msh.flows.send_budget import BYTES_AT_ONCE
from msh.models import OutboundLink, OutboundMessage, Signal
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.clock import CLOCK
from msh.store.engine import USE_INDEX_ORDER, Call
from msh.store.operations.clock_repair import make_far_work_due
from msh.store.operations.stuck_links import find_unmoved
from msh.store.receiving.forwarding import find_due
from msh.store.sending import link_sql, message_sql, polling
from msh.store.sending.message_sql import LARGE
from tests.sql import analyze

from . import byhand
from .byhand import Carrying
from .chain import make_chain
from .costs import add_idle_partners, cost_of, multiply, statements_of
from .world import World, make_world

pytestmark = pytest.mark.django_db

BEST_EFFORT = DeliverySemantics.BEST_EFFORT
FULL = Carrying(held=BYTES_AT_ONCE)
NEARLY_FULL = Carrying(held=BYTES_AT_ONCE - 1)


def owe(world: World) -> Signal:
    """An Ack is pending to the other side."""
    world.submit()
    (job,) = (job for job in byhand.poll() if job.partner_id == world.there.pk)
    world.hand_over(job)
    return Signal.objects.get(link__partner=world.here)


# --- nobody starves -------------------------------------------------------------------------------


def test_many_pending_signals_of_one_partner_do_not_hide_others() -> None:
    flooded, other = make_world(), make_world()
    signal = owe(flooded)
    multiply(signal, 1_500, ref_to_message_id="'flood-' || n", due="source.due - interval '1 h'")
    owe(other)

    assert [job.partner_id for job in byhand.poll()].count(other.here.pk) == 1


def test_many_best_effort_messages_of_one_partner_hide_no_others() -> None:
    flooded, other = make_world(), make_world()
    message = flooded.submit(semantics=BEST_EFFORT)
    multiply(message, 1_500, message_id="'flood-' || n")
    other.submit(semantics=BEST_EFFORT)

    partners = [job.partner_id for job in byhand.poll()]

    assert partners.count(other.there.pk) == 1
    assert partners.count(flooded.there.pk) == 4


@pytest.mark.parametrize("semantics", DeliverySemantics)
@pytest.mark.parametrize("carrying", [FULL, NEARLY_FULL], ids=["full", "nearly full"])
def test_large_messages_that_wait_for_bytes_hide_no_small_one(
    monkeypatch: pytest.MonkeyPatch, semantics: DeliverySemantics, carrying: Carrying
) -> None:
    """More of them than one poll takes, and all due before it."""
    monkeypatch.setattr(polling, "AT_ONCE", 5)
    large = [make_world() for _ in range(6)]
    for world in large:
        world.submit("x" * LARGE, semantics=semantics)
    for _ in range(3):  # lanes get their messages in flight, and none has a slot
        assert byhand.poll(FULL) == []
    small = make_world()
    small.submit(semantics=semantics)
    if semantics is not BEST_EFFORT:  # in flight, and last in line
        assert byhand.poll(Carrying(busy=frozenset({small.there.pk}), held=BYTES_AT_ONCE)) == []

    partners = [job.partner_id for job in byhand.poll(carrying)]

    assert small.there.pk in partners
    assert len(partners) == (1 if carrying is FULL else 2)


def test_lanes_that_wait_for_bytes_are_served_when_there_are_some() -> None:
    worlds = [make_world() for _ in range(3)]
    for world in worlds:
        world.submit("x" * LARGE)
    assert byhand.poll(FULL) == []

    served = [job.partner_id for _ in worlds for job in byhand.poll(NEARLY_FULL)]

    assert sorted(served) == sorted(world.there.pk for world in worlds)


# --- waits that are long --------------------------------------------------------------------------


@pytest.mark.parametrize(("hours", "agreed"), [(2, True), (24, False)])
def test_a_long_wait_is_not_looked_at_but_one_that_cannot_be(hours: int, agreed: bool) -> None:
    """D13. By mail a Timeout of hours is usual; what is farther away the clock has left behind."""
    world = make_world(timeout=4 * 3600)
    world.submit()
    (job,) = byhand.poll()
    world.end(job)
    OutboundLink.objects.update(due=timezone.now() + timedelta(hours=hours))

    with transaction.atomic():
        assert list(polling.lock_work((), polling.Slots(4, 256))) == []
    make_far_work_due()

    assert (byhand.poll() == []) is agreed
    assert (world.link.retries_spent == 0) is agreed


# --- what a poll costs ----------------------------------------------------------------------------


def statements_of_a_poll() -> list[Call[Any]]:
    """What a poll runs to find work, with its parameters."""

    def search() -> None:
        polling.lock_work((), polling.Slots(4, 256))
        find_due(50)

    seen = statements_of(search)
    return [
        one
        for one in seen
        if one.statement not in (USE_INDEX_ORDER, link_sql.LOCK_FREE, link_sql.LOAD, CLOCK)
    ]


def cost_of_a_poll() -> int:
    """Pages and rows that a poll touches."""
    return sum(map(cost_of, statements_of_a_poll()))


@pytest.fixture
def some_work() -> World:
    """Some of everything."""
    chain = make_chain()
    chain.submit()
    chain.hand_over(next(job for job in byhand.poll() if job.partner_id == chain.at_a.pk))
    worlds = [make_world() for _ in range(4)]
    for world in worlds:
        owe(world)
    for world in worlds:
        world.submit(semantics=BEST_EFFORT)
    make_world().submit()
    analyze()
    return worlds[0]


UNSENT = {"sequence_number": "NULL", "epoch": "NULL", "terms": "NULL"}
GROWTH = 150
"""Indexes get a level more, and of each partner a poll takes what it may. Nothing else costs."""


def test_idle_partners_do_not_slow_a_poll(some_work: World) -> None:
    before = cost_of_a_poll()
    add_idle_partners(800)
    assert cost_of_a_poll() < before + GROWTH


def test_queued_messages_do_not_slow_a_poll(some_work: World) -> None:
    before = cost_of_a_poll()
    multiply(OutboundMessage.objects.filter(semantics=BEST_EFFORT)[0], 3_000, message_id="'q' || n")
    busy = OutboundMessage.objects.filter(state="in_flight")[0]
    queued = {"state": "'queued'", "head": "NULL", "body_sha256": "NULL"}
    multiply(busy, 3_000, message_id="'r' || n", **UNSENT, **queued)
    multiply(Signal.objects.filter(pending=1)[0], 3_000, ref_to_message_id="'s' || n")
    assert cost_of_a_poll() < before + GROWTH


HEAD = 400
"""For the first of a queue. Those that have gone before it would cost more than their number."""


def dear_heads_of(world: World) -> dict[str, int]:
    """Which searches for the next message of the link cost as much as HEAD, and how much."""
    costs = {why: cost_of(call, by_index=False) for why, call in heads_of(world).items()}
    return {why: cost for why, cost in costs.items() if cost >= HEAD}


def heads_of(world: World) -> dict[str, Call[Any]]:
    """What looks for the next message of a link."""
    key = world.there.pk
    few = {"limit": 5, "large": LARGE, "bytes": 1_000_000}
    following = {"credential_id": None, "partner_id": key, **few}
    (unmoved,) = statements_of(lambda: find_unmoved(timedelta(minutes=1), 10))
    return {
        "its link": link_sql.LOAD(partner_ids=[key]),
        "those behind it": message_sql.LOAD_FOLLOWING(**following),
        "what is stuck": unmoved,
    }


def test_messages_that_have_gone_do_not_hide_the_head_of_a_queue() -> None:
    """A scan by the primary key meets all of them before it."""
    world = make_world()
    world.submit()
    message = OutboundMessage.objects.get(link=world.link)
    gone = {"state": "'cancelled'", "completed_at": "now()"}
    multiply(message, 3_000, message_id="'g' || n", **UNSENT, **gone)
    multiply(message, 3_000, message_id="'q' || n", **UNSENT, state="'queued'")
    OutboundMessage.objects.filter(pk=message.pk).update(
        state="failed", completed_at=timezone.now()
    )
    analyze()
    assert dear_heads_of(world) == {}


def test_messages_cancelled_since_the_last_analyze_do_not_hide_what_is_rewound() -> None:
    """An index with both looks as empty as that of what is rewound."""
    world = make_world()
    world.submit()
    message = OutboundMessage.objects.get(link=world.link)
    multiply(message, 3_000, message_id="'q' || n", **UNSENT, state="'queued'")
    analyze()
    queued = OutboundMessage.objects.filter(link=world.link, state="queued").order_by("pk")
    queued.filter(pk__gt=queued[20].pk).update(state="cancelled", completed_at=timezone.now())
    assert dear_heads_of(world) == {}
