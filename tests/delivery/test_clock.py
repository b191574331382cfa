"""A database clock that ran ahead and was set back (D13)."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from msh.alerts.models import OperatorNotice
from msh.flows.operations import watch
from msh.models import (
    ConsumerKind,
    Delivery,
    InboundMessage,
    Incident,
    OutboundLink,
    OutboundMessage,
    PartyEvent,
    Signal,
)
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.operations.clock_repair import make_far_work_due
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import make_world
from tests.sessions import in_another_session

pytestmark = pytest.mark.django_db

TOMORROW = timedelta(days=1)
SOON = timedelta(minutes=5)


def everything_due_at(due: datetime) -> None:
    """One of each kind that waits for a time, and one of each that does not any more."""
    world = make_world()
    _, waiting, gone = receive(world, 3)
    best_effort = [world.submit(semantics=DeliverySemantics.BEST_EFFORT) for _ in range(2)]
    world.poll()
    OutboundMessage.objects.filter(pk__in=[one.pk for one in best_effort]).update(due=due)
    OutboundMessage.objects.filter(pk=best_effort[1].pk).update(state="sent")
    InboundMessage.objects.filter(pk=waiting.pk).update(state="routed", forward_due=due)
    InboundMessage.objects.filter(pk=gone.pk).update(state="forwarded", forward_due=due)
    Signal.objects.update(due=due)
    Signal.objects.filter(ref_to_message_id=waiting.message_id).update(pending=1)
    PartyEvent.objects.update(due=due, delivered_at=due)
    PartyEvent.objects.filter(message__message_id=waiting.message_id).update(delivered_at=None)
    ends: dict[str, dict[str, Any]] = {
        "open": {},
        "told": {"sent_at": due},
        "up": {"given_up": True},
    }
    for cause, ended in ends.items():
        OperatorNotice.objects.create(
            cause=cause, channel="email", partner=world.here, kind="x", at=due, due=due, **ended
        )


def waiting() -> list[datetime | None]:
    """When each kind is due."""
    return [
        OutboundMessage.objects.get(semantics="BestEffort", state="in_flight").due,
        InboundMessage.objects.get(state="routed").forward_due,
        Signal.objects.get(pending=1).due,
        PartyEvent.objects.get(delivered_at=None).due,
        OperatorNotice.objects.get(cause="open").due,
    ]


def ended() -> set[datetime | None]:
    return {
        OutboundMessage.objects.get(semantics="BestEffort", state="sent").due,
        InboundMessage.objects.get(state="forwarded").forward_due,
        *Signal.objects.filter(pending=0).values_list("due", flat=True),
        *PartyEvent.objects.exclude(delivered_at=None).values_list("due", flat=True),
        *OperatorNotice.objects.exclude(cause="open").values_list("due", flat=True),
    }


@pytest.mark.parametrize(("away", "stays"), [(TOMORROW, False), (SOON, True)])
def test_impossible_due_time_is_due_now(away: timedelta, stays: bool) -> None:
    due = timezone.now() + away
    everything_due_at(due)

    watch.watch()

    assert {one == due for one in waiting()} == {stays}
    assert ended() == {due}


@pytest.mark.parametrize(
    ("days", "held_stays", "turn_stays"),
    [(0.9, True, True), (7.9, True, False), (10, False, False)],
)
def test_calls_that_are_held_back_or_come_next_may_be_far(
    days: float, held_stays: bool, turn_stays: bool
) -> None:
    """Quiet hours, and a wait of the escalation, are longer than any back-off."""
    far, partner = timezone.now() + timedelta(days=days), make_world().there
    values = {"kind": "stuck", "channel": "email", "at": far, "due": far}
    OperatorNotice.objects.create(cause="held", partner=partner, held=True, **values)
    Incident.objects.create(
        partner=partner, direction="in", kind="stuck", opened_at=far, last_at=far, next_turn=far
    )
    make_far_work_due()
    assert (OperatorNotice.objects.get().due == far) == held_stays
    assert (Incident.objects.get().next_turn == far) == turn_stays


@pytest.mark.django_db(transaction=True)
def test_locked_rows_are_repaired_by_the_next_run() -> None:
    due = timezone.now() + TOMORROW
    everything_due_at(due)
    consumer(ConsumerKind.HTTP)
    Desk().poll()
    Delivery.objects.update(due=due)
    lane = make_world()
    lane.submit()
    lane.end(next(job for job in lane.poll() if job.partner_id == lane.there.pk))
    OutboundLink.objects.filter(partner=lane.there).update(due=due)
    held = (Delivery, InboundMessage, OutboundLink, OutboundMessage, Signal, PartyEvent)
    with transaction.atomic():
        for model in (*held, OperatorNotice):
            list(model.objects.select_for_update(no_key=True))
        in_another_session(make_far_work_due)
        assert set(waiting()) == {due}

    make_far_work_due()

    assert due not in (*waiting(), Delivery.objects.get().due, lane.link.due)


@pytest.mark.parametrize(
    ("state", "waits"), [("failed", timedelta(0)), ("processing", timedelta(seconds=300))]
)
def test_a_delivery_waits_no_longer_than_its_consumer_has_it_wait(
    state: str, waits: timedelta
) -> None:
    """Whoever works on it now has a whole lease left."""
    consumer(ConsumerKind.HTTP, lease=300, retry_interval=60)
    receive(make_world(), 2)
    Desk().poll()
    now = timezone.now()
    Delivery.objects.update(state=state, due=now + SOON)
    watch.watch()
    assert Delivery.objects.get().due == now + SOON

    Delivery.objects.update(due=now + TOMORROW)
    watch.watch()
    due = Delivery.objects.get().due
    assert due is not None
    assert waits <= due - now < waits + timedelta(minutes=4)


@pytest.mark.parametrize(("lease", "retry_interval"), [(10, 3600), (3600, 10)])
def test_a_delivery_may_wait_for_its_lease_or_its_interval(lease: int, retry_interval: int) -> None:
    """Twice as long as either; another that is too far away changes nothing of it."""
    now = timezone.now()
    orders = consumer(ConsumerKind.HTTP, lease=lease, retry_interval=retry_interval)
    made = [
        Delivery.objects.create(
            consumer=orders,
            message=receive(make_world())[0],
            state="failed",
            attempt=1,
            started_at=now,
            due=now + away,
        )
        for away in (timedelta(minutes=100), timedelta(minutes=140))
    ]
    watch.watch()
    for delivery in made:
        delivery.refresh_from_db()
    assert [one.due == now + timedelta(minutes=100) for one in made] == [True, False]
    assert made[1].due is not None
    assert made[1].due < now + SOON


def test_a_lane_that_cannot_be_read_keeps_no_other_from_being_brought_back() -> None:
    worlds = [make_world() for _ in range(2)]
    for world in worlds:
        world.submit()
    for job in worlds[0].poll():
        worlds[0].end(job)
    OutboundLink.objects.update(due=timezone.now() + TOMORROW)
    OutboundMessage.objects.filter(link=worlds[0].link).update(terms={})
    make_far_work_due()
    due = [world.link.due for world in worlds]
    assert [one is not None and one < timezone.now() + SOON for one in due] == [False, True]
