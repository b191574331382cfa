"""Two sessions deliver at the same time: each message is given to its consumer by one of them."""

import pytest
from django.db import transaction
from django.utils import timezone

from msh.flows.delivery.pull import Outcome, settle, take
from msh.models import ConsumerKind, Delivery, InboundMessage
from msh.protocol.delivery.events import AttemptFailed
from msh.store.delivery import deliveries
from msh.store.delivery.deliveries import Consumers
from msh.transport.job import Job
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, receive, state_of
from tests.flows.world import make_world
from tests.sessions import in_another_session, waits_for_us

pytestmark = pytest.mark.django_db(transaction=True)

IN_PROCESS, HTTP, PULL = ConsumerKind.IN_PROCESS, ConsumerKind.HTTP, ConsumerKind.PULL


def let_another_worker_poll(message: InboundMessage) -> None:
    """While the consumer runs. The other worker must not call it."""
    application.act = None
    in_another_session(Desk().poll)


def fail(message: InboundMessage) -> None:
    raise ConnectionError("the stock system is down")


@pytest.mark.parametrize("history", [True, False])
def test_a_new_message_is_given_to_its_consumer_by_one_worker(history: bool) -> None:
    consumer(IN_PROCESS, history=history)
    (message,) = receive(make_world())
    application.act = let_another_worker_poll

    Desk().poll()

    assert application.taken == [message.message_id]
    assert state_of(message)[0] == "delivered"


@pytest.mark.parametrize("history", [True, False])
def test_a_failed_message_is_run_again_by_one_worker(history: bool) -> None:
    consumer(IN_PROCESS, retry_interval=0, history=history)
    (message,) = receive(make_world())
    application.act = fail
    Desk().poll()
    application.act = let_another_worker_poll

    Desk().poll()

    assert application.taken == [message.message_id] * 2
    assert state_of(message)[0] == "delivered"


def jobs_of_a_poll() -> list[Job]:
    desk = Desk()
    desk.poll()
    return desk.transmitted.jobs


@pytest.mark.parametrize("again", [False, True])
def test_a_message_is_posted_by_one_worker(again: bool) -> None:
    """The other posts what is left, without waiting."""
    consumer(HTTP, retry_interval=0)
    first, second = (receive(world)[0] for world in (make_world(), make_world()))
    if again:
        desk = Desk()
        desk.poll()
        for job in list(desk.transmitted.jobs):
            desk.transmitted.jobs = [job]
            desk.answer(503)
        Delivery.objects.update(due=timezone.now())

    with transaction.atomic():
        desk = Desk()
        desk.transmitted.slots = 1
        desk.poll()
        (mine,) = desk.transmitted.jobs
        (other,) = in_another_session(jobs_of_a_poll)

    assert {ids(mine), ids(other)} == {first.message_id, second.message_id}
    assert jobs_of_a_poll() == []


def ids(job: Job) -> str:
    return dict(job.headers)["X-MSH-Message-Id"]


@pytest.mark.parametrize("again", [False, True])
def test_a_message_is_taken_by_one_caller(again: bool) -> None:
    made = consumer(PULL, retry_interval=0)
    for world in (make_world(), make_world()):
        receive(world)
    if again:
        for one in take(made, 2):
            settle(made, one.delivery, one.attempt, Outcome.FAILED)

    with transaction.atomic():
        (first,) = take(made, 1)
        (second,) = in_another_session(lambda: take(made, 2))

    assert first.message != second.message
    assert take(made, 2) == []


def test_settling_waits_for_the_lock_of_the_delivery() -> None:
    made = consumer(PULL)
    (message,) = receive(make_world())
    (taken,) = take(made, 1)

    def complete() -> None:
        settle(made, taken.delivery, taken.attempt, Outcome.COMPLETED)

    with transaction.atomic():
        (held,) = deliveries.lock([taken.delivery], Consumers(), wait=True)
        assert waits_for_us(complete)
        held.step(AttemptFailed(taken.attempt, "down"))
    complete()

    assert state_of(message) == ("delivered", "completed")


def test_expired_lease_is_ended_by_one_worker() -> None:
    consumer(HTTP, history=False)
    (message,) = receive(make_world())
    assert len(jobs_of_a_poll()) == 1
    Delivery.objects.update(due=timezone.now())

    with transaction.atomic():
        Desk().poll()
        in_another_session(Desk().poll)

    assert Delivery.objects.get(message=message).failures == 1
