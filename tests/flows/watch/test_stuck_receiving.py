"""Links from partners that are stuck: deliveries, consumers, Acknowledgements."""

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from msh.flows.delivery.pull import Outcome, settle, take
from msh.flows.operations import change_link, watch
from msh.models import (
    ConsumerKind,
    Delivery,
    InboundMessage,
    Incident,
    Signal,
)
from msh.store.operations.operator_actions import Switch
from tests.delivery.desk import consumer, receive
from tests.flows.watch.watching import ANN, LONG_AGO, age_history, stuck_detail
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db


def arrived(*, long_ago: bool = True) -> tuple[World, InboundMessage]:
    """One message came and no consumer has it."""
    world = make_world()
    (message,) = receive(world)
    if long_ago:
        InboundMessage.objects.update(received_at=timezone.now() - LONG_AGO)
        age_history(world)
    return world, message


def test_stopped_pull_consumer_is_notified_once_and_resolved(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    orders = consumer(ConsumerKind.PULL)
    world, _ = arrived()

    assert [watch.find_stuck() for _ in range(2)] == [1, 1]

    assert stuck_detail(world).endswith(
        "consumer orders has not received the first message yet; its application has never fetched"
        " messages"
    )
    (taken,) = take(orders, 1)
    assert watch.find_stuck() == 0
    assert Incident.objects.get().resolution == "traffic resumed"
    settle(orders, taken.delivery, 1, Outcome.COMPLETED)
    assert watch.find_stuck() == 0


def test_a_consumer_that_works_on_an_old_backlog_is_not_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    orders = consumer(ConsumerKind.PULL)
    receive(make_world(), 2)
    InboundMessage.objects.update(received_at=timezone.now() - LONG_AGO)
    (taken,) = take(orders, 1)
    settle(orders, taken.delivery, 1, Outcome.COMPLETED)
    assert watch.find_stuck() == 0


def test_deliveries_that_are_held_and_forgotten_are_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world, _ = arrived(long_ago=False)
    change_link.switch(world.here, Switch.DELIVERS, on=False, actor=ANN)
    InboundMessage.objects.update(received_at=timezone.now() - LONG_AGO)
    assert watch.find_stuck() == 0
    age_history(world)
    assert watch.find_stuck() == 1
    assert stuck_detail(world).endswith("deliveries are held by an operator")

    change_link.switch(world.here, Switch.DELIVERS, on=True, actor=ANN)
    resolved = Incident.objects.get(kind="stuck")
    assert (resolved.resolved_by, resolved.resolution) == (ANN.name, ANN.reason)


def test_what_is_stuck_for_another_reason_stays_open_when_deliveries_go_on(
    settings: Settings,
) -> None:
    settings.MSH_STUCK_AFTER = 3600
    consumer(ConsumerKind.PULL, enabled=False)
    world, _ = arrived()
    assert watch.find_stuck() == 1
    change_link.switch(world.here, Switch.DELIVERS, on=False, actor=ANN)
    change_link.switch(world.here, Switch.DELIVERS, on=True, actor=ANN)
    assert Incident.objects.get(kind="stuck").resolved_at is None


def test_a_consumer_that_is_switched_off_is_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    consumer(ConsumerKind.PULL, enabled=False)
    world, _ = arrived()
    assert watch.find_stuck() == 1
    assert stuck_detail(world).endswith("consumer orders is switched off")
    assert Incident.objects.get(kind="stuck").consumer == "orders"


def test_a_blocked_delivery_has_its_own_incident(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    orders = consumer(ConsumerKind.PULL, attempts=1, on_failure="block")
    arrived()
    (taken,) = take(orders, 1)
    settle(orders, taken.delivery, 1, Outcome.FAILED, reason="disk full")
    Delivery.objects.update(started_at=timezone.now() - LONG_AGO)
    assert watch.find_stuck() == 0
    assert Incident.objects.get().kind == "delivery_failed"


def test_an_ack_that_cannot_be_delivered_is_stuck(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    _, job = world.start()
    world.hand_over(job)
    pending = Signal.objects.filter(link__partner=world.here)
    pending.update(first_at=timezone.now() - LONG_AGO, tries=59, last_detail="503 closed")
    assert watch.find_stuck() == 0  # tried too seldom: an old Ack that is pending again
    pending.update(tries=60)

    assert watch.find_stuck() == 1

    assert "an Acknowledgement has been pending since" in stuck_detail(world)
    assert stuck_detail(world).endswith("after 60 attempts the last answer is: 503 closed")
    pending.update(pending=0)
    assert watch.find_stuck() == 0


def test_a_delivery_in_a_state_of_a_later_version_hides_no_other_stuck_one(
    settings: Settings,
) -> None:
    settings.MSH_STUCK_AFTER = 3600
    orders = consumer(ConsumerKind.PULL)
    arrived()
    take(orders, 1)
    Delivery.objects.update(
        state="later", started_at=timezone.now() - LONG_AGO, due=timezone.now() - LONG_AGO
    )
    other, _ = arrived()

    assert watch.find_stuck() == 2
    incident = Incident.objects.get(kind="stuck", partner=other.here)
    assert "has not received the first message yet; its application last" in incident.detail
