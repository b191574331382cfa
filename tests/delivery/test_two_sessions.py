"""What takes two connections, or one that is lost."""

import threading
import time

import pytest
from django.db import connection, transaction
from pytest_django import Settings

from msh.flows.operations.change_delivery import decide
from msh.flows.sending.notification_loop import PostedEvent
from msh.models import ConsumerKind, Delivery, Incident, PartyEvent
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.delivery.events import AttemptFailed, CompletionMarked, DeliveryPolled
from msh.store.delivery import deliveries
from msh.store.delivery.deliveries import Consumers
from msh.store.history import Actor
from msh.store.sending import party_events
from tests.delivery.desk import Desk, consumer, receive
from tests.delivery.test_application import Office
from tests.flows.world import make_world
from tests.sessions import meet, somebody_waits_for_us
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

ANN = Actor("ann", "because")
calls: list[str] = []


def wait_long(event: PartyEvent) -> None:
    time.sleep(1.5)


def lose_the_connection_once(event: PartyEvent) -> None:
    calls.append(event.message.message_id)
    if len(calls) == 1:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def world_with_events(count: int) -> list[PartyEvent]:
    world = make_world()
    for _ in range(count):
        world.submit()
    world.settle()
    return list(PartyEvent.objects.order_by("pk"))


def test_a_handler_may_wait_longer_than_other_transactions(settings: Settings) -> None:
    settings.MSH_FROM_PARTY_HANDLER = f"{__name__}.wait_long"
    (event,) = world_with_events(1)
    with connection.cursor() as cursor:
        cursor.execute("SET idle_in_transaction_session_timeout = '1s'")

    Office().poll()

    connection.close()
    event.refresh_from_db()
    assert (event.delivered_at is not None, event.tries) == (True, 1)


def test_handler_that_loses_its_connection_fails_and_others_run(
    settings: Settings,
) -> None:
    settings.MSH_FROM_PARTY_HANDLER = f"{__name__}.lose_the_connection_once"
    calls.clear()
    first, second = world_with_events(2)

    Office().poll()

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.delivered_at, first.tries) == (None, 1)
    assert first.due > first.at
    assert (second.delivered_at is not None, second.tries) == (True, 1)
    assert calls == [first.message.message_id, second.message.message_id]


def test_result_of_a_post_waits_for_who_holds_its_event() -> None:
    (event,) = world_with_events(1)
    transmitted = AttemptResult(AttemptOutcome.TRANSMITTED, 200)

    meet(
        lambda: party_events.lock_event(event.pk),
        lambda: Office().record(PostedEvent(event.pk), transmitted),
    )

    event.refresh_from_db()
    assert event.delivered_at is not None


def parked(count: int) -> list[Delivery]:
    """Deliveries of one partner that failed: one incident is open for all of them."""
    consumer(ConsumerKind.HTTP, attempts=1, on_failure="park")
    receive(make_world(), count)
    desk = Desk()
    for _ in range(count):
        desk.poll()
        desk.answer(503)
    return list(Delivery.objects.order_by("pk"))


def decided_meanwhile(delivery: Delivery) -> threading.Thread:
    """In another session an operator completes it, as far as our transaction lets him."""

    def run() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '60s'")
        decide([delivery.pk], "mark-completed", ANN)
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: not thread.is_alive() or somebody_waits_for_us())
    return thread


def test_an_incident_is_not_resolved_over_a_delivery_that_fails_meanwhile() -> None:
    one, other = parked(2)
    decide([other.pk], "run-again", ANN)

    with transaction.atomic():
        (held,) = deliveries.lock([other.pk], Consumers())
        held.step(DeliveryPolled())
        held.step(AttemptFailed(held.attempt, "down again"))
        operator = decided_meanwhile(one)
    operator.join()

    one.refresh_from_db()
    other.refresh_from_db()
    assert (one.state, other.state) == ("completed", "parked")
    assert Incident.objects.get().resolved_at is None


def test_two_last_decisions_at_once_resolve_the_incident() -> None:
    one, other = parked(2)

    with transaction.atomic():
        (held,) = deliveries.lock([other.pk], Consumers())
        held.step(CompletionMarked(), ANN)
        operator = decided_meanwhile(one)
    operator.join()

    assert Incident.objects.get().resolved_by == "ann"
