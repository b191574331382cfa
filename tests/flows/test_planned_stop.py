"""A loop that is asked to stop begins nothing, and records what it has begun."""

import threading
import time

import pytest
from django.db import connection

from msh.flows.delivery.delivery_loop import DeliveryLoop
from msh.flows.hints import EVERYTHING, NOTHING
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.worker_loop import WorkerLoop
from msh.models import Attempt, Consumer, ConsumerKind, Delivery, OutboundLink
from msh.transport.carrier import Finished
from partners.models import Partner
from tests.delivery.desk import consumer
from tests.peer import Peer, answers
from tests.peer.answers import Answer
from tests.peer.recording import Received
from tests.waiting import wait_until

from .byhand import TRANSMITTED, KeepingCarrier
from .flying import Sky
from .world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)


def taken(loop: SendingLoop) -> list[object]:
    carrier = loop.carrier
    assert isinstance(carrier, KeepingCarrier)
    return list(carrier.take())


def test_an_idle_link_begins_nothing_with_the_end_of_a_copy(
    world: World, loop: SendingLoop
) -> None:
    """The Acknowledgement came before the 2xx was recorded, and a message after it."""
    message = world.submit()
    loop.round(EVERYTHING)
    (copy,) = loop.carrier.take()  # type: ignore[attr-defined]
    world.hand_over(copy)
    loop.round(EVERYTHING)
    (ack,) = loop.carrier.take()  # type: ignore[attr-defined]
    world.hand_over(ack)
    world.submit("the next")
    loop.take(Finished(copy, TRANSMITTED))
    loop.take(Finished(ack, TRANSMITTED))

    loop.stop()
    loop.round(NOTHING)

    assert taken(loop) == []
    assert Attempt.objects.get().outcome == "transmitted"
    assert Attempt.objects.get().message_id == message.pk


def test_a_partner_of_flights_begins_nothing_with_the_end_of_a_copy(
    sky: Sky, loop: SendingLoop
) -> None:
    sky.submit()
    loop.round(EVERYTHING)
    (job,) = loop.carrier.take()  # type: ignore[attr-defined]
    sky.submit()
    loop.take(Finished(job, TRANSMITTED))

    loop.stop()
    loop.round(NOTHING)

    assert taken(loop) == []
    assert Attempt.objects.get().outcome == "transmitted"


def stop_while_under_way(loop: WorkerLoop, answer: Answer) -> None:
    """The loop POSTs to a peer, which answers when the stop is ten seconds old."""
    answered = threading.Event()

    def run() -> None:
        try:
            loop.run()
        finally:
            connection.close()

    def slowly(_: Received) -> Answer:
        answered.wait(60)
        return answer

    with Peer() as peer:
        peer.always(slowly)
        Partner.objects.update(address=peer.address)
        Consumer.objects.update(url=peer.address)
        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: peer.received)
        loop.stop()
        loop._stopped_at = time.monotonic() - 10.0
        thread.join(timeout=1)  # one that does not wait has ended by then
        answered.set()
        thread.join(timeout=60)
        loop.carrier.close()
    assert not thread.is_alive()


def test_a_consumer_that_takes_long_is_heard(world: World) -> None:
    """Its message would be in doubt, and a person would have to decide."""
    world.submit()
    world.settle()
    consumer(ConsumerKind.HTTP)
    stop_while_under_way(DeliveryLoop(), answers.status(200))
    assert Delivery.objects.get().state == "completed"


def test_a_partner_that_takes_long_is_heard() -> None:
    world = make_world(timeout=600)
    world.submit()
    stop_while_under_way(SendingLoop(), answers.status(503))
    assert Attempt.objects.get().outcome == "failed"
    assert OutboundLink.objects.get(partner=world.there).state == "waiting"
