"""Which lanes a poll finds, and which message of each comes next."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from msh.flows.sending import lanes
from msh.flows.sending.kinds import Ended
from msh.models import Incident, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.engine import USE_INDEX_ORDER
from msh.store.sending import polling
from msh.store.sending.links import OutboundLinks
from msh.store.sending.polling import Slots
from partners.models import Partner
from tests.flows.costs import add_idle_partners, cost_of, statements_of
from tests.sql import analyze

from . import byhand
from .world import LOST, World, make_world

pytestmark = pytest.mark.django_db


def found(in_all: int = 100) -> list[int]:
    """The partners whose lanes a poll finds, in its order."""
    return polling.lock_links(Slots(4, in_all))


def with_lane(state: str = "idle") -> World:
    world = make_world()
    since = timezone.now() if state == "suspended" else None
    OutboundLink.objects.create(partner=world.there, state=state, suspended_since=since)
    return world


KINDS = pytest.mark.parametrize("kind", ["queued", "rewound"])
NUMBERED: dict[str, Any] = {"sequence_number": 1, "epoch": 1, "terms": {}}


def work_for(world: World, kind: str) -> None:
    world.submit()
    if kind == "rewound":
        of_link = OutboundMessage.objects.filter(link=world.link)
        of_link.update(state="rewound", **NUMBERED)


@KINDS
def test_an_idle_lane_with_a_queue_is_found_wherever_it_stands(kind: str) -> None:
    """Between those that have none, and those that may not send."""
    idle = [True, False, True, True, False, True, True, True, False]
    worlds = [with_lane("idle" if one else "suspended") for one in idle]
    for number in (1, 2, 4, 5, 7, 8):
        work_for(worlds[number], kind)
    assert found() == [worlds[number].there.pk for number in (2, 5, 7)]
    assert found(in_all=1) == [worlds[2].there.pk]


def test_poll_finds_no_more_than_it_takes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "AT_ONCE", 2)
    for _ in range(3):
        make_world().submit()
    assert len(found()) == 2


@KINDS
def test_a_lane_is_not_found_by_the_work_of_another(kind: str) -> None:
    worlds = [with_lane("idle"), with_lane("suspended"), with_lane("idle")]
    work_for(worlds[1], kind)
    assert found() == []


@pytest.mark.parametrize(
    "values",
    [
        {"semantics": DeliverySemantics.BEST_EFFORT},
        {"state": "acknowledged", **NUMBERED},
        {"state": "cancelled"},
    ],
)
def test_lane_is_not_found_by_messages_of_other_kinds(world: World, values: dict[str, Any]) -> None:
    world.submit()
    OutboundMessage.objects.update(**values)
    assert found() == []


@pytest.mark.parametrize("state", ["waiting", "transient"])
def test_due_lane_is_found(state: str) -> None:
    world, later = make_world(), make_world()
    for one in (world, later):
        one.submit()
    assert len(byhand.poll()) == 2
    for one, minutes in ((world, -1), (later, 1)):
        due = timezone.now() + timedelta(minutes=minutes)
        OutboundLink.objects.filter(partner=one.there).update(state=state, due=due)

    assert found() == [world.there.pk]


def test_a_best_effort_message_is_not_put_in_flight(world: World) -> None:
    first, second = world.submit(), world.submit()
    OutboundMessage.objects.filter(pk=first.pk).update(semantics=DeliverySemantics.BEST_EFFORT)

    world.poll()

    assert world.link.in_flight_id == second.pk


def test_a_rewound_message_goes_before_one_that_was_queued_earlier(world: World) -> None:
    queued, rewound = world.submit(), world.submit()
    of_rewound = OutboundMessage.objects.filter(pk=rewound.pk)
    of_rewound.update(state="rewound", **NUMBERED)
    OutboundLink.objects.update(next_number=2)

    (job,) = byhand.poll()

    assert job.key.message_id == rewound.message_id  # type: ignore[attr-defined]
    queued.refresh_from_db()
    assert queued.state == "queued"


def test_rewound_messages_go_in_the_order_of_their_numbers(world: World) -> None:
    messages = [world.submit() for _ in range(4)]
    world.settle()
    OutboundMessage.objects.update(state="rewound", completed_at=None, earlier_attempts=1)
    numbers = [(2, 1), (1, 12), (2, 2), (1, 11)]
    for message, (epoch, number) in zip(messages, numbers, strict=True):
        of_message = OutboundMessage.objects.filter(pk=message.pk)
        of_message.update(epoch=epoch, sequence_number=number)

    (job,) = byhand.poll()

    assert job.key.message_id == messages[3].message_id  # type: ignore[attr-defined]


# --- what is written ------------------------------------------------------------------------------


def test_outcome_is_written_before_that_of_an_earlier_copy() -> None:
    world = make_world(retry_interval=600)
    world.submit()
    (first,) = world.poll()
    OutboundLink.objects.update(due=timezone.now())
    (second,) = world.poll()
    before = world.link.due

    with transaction.atomic():
        links = OutboundLinks.lock([world.there.pk])
        lanes.record(links, [Ended(second.key, LOST), Ended(first.key, LOST)])
        links.write()

    assert before is not None
    assert world.link.due is not None
    assert world.link.due != before


def test_a_link_stays_suspended_for_what_it_was_whatever_comes_late() -> None:
    world = make_world(retries=0)
    message, job = world.start()
    world.hand_over(job)
    (ack,) = world.poll()
    OutboundLink.objects.update(due=timezone.now())
    world.poll()
    since = timezone.now() - timedelta(hours=1)
    OutboundLink.objects.update(suspended_since=since)

    world.hand_over(ack)

    message.refresh_from_db()
    assert (message.state, world.link.late_ack) == ("acknowledged", True)
    assert (world.link.suspended_for, world.link.suspended_since) == ("retries_spent", since)


# --- what a poll costs ----------------------------------------------------------------------------


@KINDS
def test_partners_that_are_suspended_with_work_do_not_slow_a_poll(kind: str) -> None:
    for _ in range(3):
        make_world().submit()
    before = cost_of_a_poll()
    add_idle_partners(400)
    suspended = OutboundLink.objects.filter(partner__name__startswith="idle-")
    suspended.update(state="suspended", due=None, suspended_since=timezone.now())
    link_ids = suspended.values_list("pk", flat=True)
    message = OutboundMessage.objects.all()[0]
    message.state = kind
    if kind == "rewound":
        message.sequence_number, message.epoch, message.terms = 1, 1, {}
    for message.pk, message.link_id in zip(count(1_000_000), link_ids, strict=False):
        message.save(force_insert=True)
    analyze("msh_outboundlink", "msh_outboundmessage")
    assert cost_of_a_poll() < before + 150


@pytest.mark.django_db(transaction=True)
def test_links_that_were_there_once_cost_a_poll_nothing() -> None:
    """Their index stays long after VACUUM: reading and sorting all links seems cheaper."""
    for _ in range(3):
        make_world().submit()
    before = cost_of_a_poll()
    add_idle_partners(3000)
    of_idle_partners = OutboundLink.objects.filter(partner__name__startswith="idle-")
    of_idle_partners.update(state="idle", due=None)
    of_idle_partners.delete()
    vacuum()
    OutboundLink.objects.bulk_create(
        OutboundLink(partner=partner, state="suspended", suspended_since=timezone.now())
        for partner in Partner.objects.filter(name__startswith="idle-")[:400]
    )
    vacuum()
    assert cost_of_a_poll() < before + 150


def vacuum() -> None:
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE msh_outboundlink, msh_outboundmessage")


def cost_of_a_poll() -> int:
    """Pages and rows that looking for lanes touches."""
    return sum(cost_of(one) for one in statements_of(found) if one.statement != USE_INDEX_ORDER)


@pytest.mark.parametrize("status", [429, 503])
def test_waits_that_the_partner_asks_for_spend_no_retry(status: int) -> None:
    """D54: as a TransientError."""
    world = make_world(retries=1)
    message = world.submit()
    busy = AttemptResult(AttemptOutcome.FAILED, status, f"{status} busy", retry_after=300.0)
    for _ in range(10):
        world.post(busy)
        link = world.link
        assert (link.state, link.retries_spent) == ("transient", 0)
        assert link.due is not None
        assert link.due > timezone.now() + timedelta(seconds=200)
        OutboundLink.objects.update(due=timezone.now())
    world.post()
    assert world.link.state == "waiting"
    assert not Incident.objects.exists()
    assert OutboundMessage.objects.get(pk=message.pk).state == "in_flight"


@pytest.mark.parametrize(("status", "retry_after"), [(503, None), (500, 5.0), (None, None)])
def test_what_is_no_such_wait_spends_one(status: int | None, retry_after: float | None) -> None:
    world = make_world(retries=1)
    _, job = world.start()
    world.end(job, AttemptResult(AttemptOutcome.FAILED, status, "x", retry_after=retry_after))
    assert world.link.state == "waiting"
    OutboundLink.objects.update(due=timezone.now())
    assert world.poll()
    assert world.link.retries_spent == 1
