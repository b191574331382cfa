"""Incidents about deliveries: opened once, for one partner, and over with their cause."""

from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from msh.flows.operations.change_incident import resolve
from msh.models import Consumer, ConsumerKind, Delivery, History, InboundMessage, Incident
from msh.protocol.delivery.events import CompletionMarked
from msh.store.delivery import deliveries
from msh.store.delivery.deliveries import Consumers
from msh.store.delivery.unclaimed import alarm_unclaimed
from partners.models import Partner
from tests.delivery.desk import consumer, receive
from tests.flows.recovering import ANN
from tests.flows.world import World, make_world
from tests.sessions import in_another_session

pytestmark = pytest.mark.django_db

NOW = timezone.now()


def incident(world: World, kind: str, **values: Any) -> Incident:
    given = {"direction": "in", "opened_at": NOW, "last_at": NOW} | values
    return Incident.objects.create(partner=world.here, kind=kind, **given)


def is_open(one: Incident) -> bool:
    one.refresh_from_db()
    return one.resolved_at is None


def alarms() -> list[tuple[str, int]]:
    """Of open ones that no consumer is there: partner and count."""
    found = Incident.objects.filter(kind="no_consumer", resolved_at=None).order_by("pk")
    return list(found.values_list("partner__name", "count"))


# --- no consumer takes the head -------------------------------------------------------------------


def test_unconsumed_head_opens_one_incident_for_each_partner() -> None:
    worlds = [make_world() for _ in range(3)]
    for world in worlds[:2]:
        receive(world)
    assert [alarm_unclaimed() for _ in range(2)] == [2, 0]
    assert alarms() == [(world.here.name, 1) for world in worlds[:2]]
    receive(worlds[2])
    assert alarm_unclaimed() == 1


def test_they_are_called_again_after_one_was_resolved_by_hand() -> None:
    receive(make_world())
    alarm_unclaimed()
    resolve(Incident.objects.get(), ANN)
    assert alarm_unclaimed() == 1
    assert Incident.objects.count() == 2


@pytest.mark.parametrize("values", [{"kind": "stuck"}, {"kind": "no_consumer", "direction": "out"}])
def test_another_incident_of_the_partner_is_no_such_alarm(
    world: World, values: dict[str, str]
) -> None:
    receive(world)
    other = incident(world, **values)
    assert alarm_unclaimed() == 1
    consumer(ConsumerKind.PULL)
    alarm_unclaimed()
    assert alarms() == [(world.here.name, 1)] * (values["kind"] == "no_consumer")
    assert is_open(other)


@pytest.mark.parametrize("about", ["", "held", "another consumer", "another pair"])
def test_incident_ends_when_a_consumer_takes_the_head(about: str) -> None:
    world, other = make_world(), make_world()
    receive(world)
    receive(other)
    alarm_unclaimed()
    ours = Incident.objects.get(partner=world.here)
    wanted: dict[str, dict[str, Any]] = {
        "another consumer": {"action": "Cancel"},
        "another pair": {"partner": other.here},
    }
    consumer(ConsumerKind.PULL, **wanted.get(about, {"partner": world.here}))
    if about == "held":
        Partner.objects.filter(pk=world.here.pk).update(delivers=False)

    alarm_unclaimed()

    assert is_open(ours) is bool(about)
    assert is_open(Incident.objects.get(partner=other.here)) is (about != "another pair")


def test_an_alarm_that_was_resolved_keeps_who_resolved_it(world: World) -> None:
    receive(world)
    alarm_unclaimed()
    before = Incident.objects.get()
    resolve(before, ANN)
    consumer(ConsumerKind.PULL)
    alarm_unclaimed()
    assert Incident.objects.get().resolved_by == ANN.name


@pytest.mark.django_db(transaction=True)
def test_poll_does_not_wait_for_a_locked_incident() -> None:
    receive(make_world())
    alarm_unclaimed()
    consumer(ConsumerKind.PULL)
    with transaction.atomic():
        Incident.objects.select_for_update(no_key=True).get()
        in_another_session(alarm_unclaimed)
        assert alarms() != []
    alarm_unclaimed()
    assert alarms() == []


# --- deliveries that failed, or are in doubt ------------------------------------------------------

KINDS = {"delivery_failed": "blocked", "delivery_in_doubt": "in_doubt"}


def begun(message: InboundMessage, taker: Consumer, state: str) -> Delivery:
    due = NOW if state == "failed" else None
    return Delivery.objects.create(
        message=message, consumer=taker, state=state, attempt=1, started_at=NOW, due=due
    )


def complete(delivery: Delivery) -> None:
    with transaction.atomic():
        (held,) = deliveries.lock_to_decide([delivery.pk], Consumers())
        held.step(CompletionMarked(), ANN)
        deliveries.write_together([held])


@pytest.mark.parametrize("kind", KINDS)
def test_incident_ends_with_its_last_delivery(kind: str) -> None:
    world, other = make_world(), make_world()
    taker, state = consumer(ConsumerKind.HTTP), KINDS[kind]
    of_world = receive(world, 4)
    first, second = (begun(message, taker, state) for message in of_world[:2])
    begun(of_world[2], taker, "failed")  # is run again by itself
    begun(of_world[3], taker, next(other for other in KINDS.values() if other != state))
    begun(receive(other)[0], taker, state)
    (another,) = set(KINDS) - {kind}
    ours = incident(world, kind)
    others = [
        incident(other, kind),
        incident(world, another),
        incident(world, kind, direction="out"),
    ]
    earlier = incident(world, kind, resolved_at=NOW, resolved_by="bob")

    complete(first)
    assert is_open(ours)
    complete(second)

    assert not is_open(ours)
    assert ours.resolved_by == ANN.name
    row = History.objects.get(event="IncidentResolved", partner=world.here)
    assert (row.message_id, row.actor) == (second.message.message_id, ANN.name)
    assert row.detail == f"{kind}; {ANN.reason}"
    assert all(map(is_open, others))
    earlier.refresh_from_db()
    assert earlier.resolved_by == "bob"


@pytest.mark.django_db(transaction=True)
def test_decision_locks_only_incidents_of_its_partners() -> None:
    worlds = [make_world() for _ in range(2)]
    taker = consumer(ConsumerKind.HTTP)
    made = [begun(receive(world)[0], taker, "blocked") for world in worlds]
    for world in worlds:
        incident(world, "delivery_failed")
    with transaction.atomic():
        complete(made[0])
        in_another_session(lambda: complete(made[1]))
    assert not Incident.objects.filter(resolved_at=None).exists()
