"""A database clock that ran ahead and was set back (D13)."""

from datetime import timedelta

import pytest
from django.utils import timezone

from msh.flows import watch
from msh.models import (
    Channel,
    ConsumerKind,
    Delivery,
    InboundMessage,
    OperatorNotice,
    OutboundMessage,
    PartyEvent,
    Signal,
)
from msh.protocol.vocabulary import DeliverySemantics
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

TOMORROW = timedelta(days=1)
SOON = timedelta(minutes=5)


@pytest.mark.parametrize(("away", "stays"), [(TOMORROW, False), (SOON, True)])
def test_what_is_due_farther_away_than_it_can_be_is_due_now(away: timedelta, stays: bool) -> None:
    due = timezone.now() + away
    world = make_world()
    first, second = receive(world, 2)
    best_effort = world.submit(semantics=DeliverySemantics.BEST_EFFORT)
    world.look()
    OutboundMessage.objects.filter(pk=best_effort.pk).update(due=due)
    InboundMessage.objects.filter(pk=second.pk).update(state="routed", forward_due=due)
    Signal.objects.update(owed=1, due=due)
    PartyEvent.objects.update(due=due)
    OperatorNotice.objects.create(
        cause="x", channel=Channel.EMAIL, partner=world.here, kind="x", at=due, due=due
    )

    watch.watch()

    found = (
        OutboundMessage.objects.get(pk=best_effort.pk).due,
        InboundMessage.objects.get(pk=second.pk).forward_due,
        *Signal.objects.values_list("due", flat=True),
        *PartyEvent.objects.values_list("due", flat=True),
        OperatorNotice.objects.get(cause="x").due,
    )
    assert len(found) == 7
    assert {one == due for one in found} == {stays}
    assert first.state == "accepted"


@pytest.mark.parametrize(
    ("state", "waits"), [("failed", timedelta(0)), ("processing", timedelta(seconds=300))]
)
def test_a_delivery_waits_no_longer_than_its_consumer_has_it_wait(
    state: str, waits: timedelta
) -> None:
    """Whoever works on it now has a whole lease left."""
    consumer(ConsumerKind.HTTP, lease=300, retry_interval=60)
    receive(make_world(), 2)
    Desk().look()
    now = timezone.now()
    Delivery.objects.update(state=state, due=now + SOON)
    watch.watch()
    assert Delivery.objects.get().due == now + SOON

    Delivery.objects.update(due=now + TOMORROW)
    watch.watch()
    due = Delivery.objects.get().due
    assert due is not None
    assert waits <= due - now < waits + timedelta(minutes=4)
