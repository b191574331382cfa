"""What a step is based on is read after the lock: it is what the lock's last holder committed."""

from collections.abc import Callable
from typing import Any

import pytest

from msh import wire
from msh.flows.operations import cancel, change_link
from msh.flows.receiving import receive
from msh.flows.receiving.incoming import Incoming
from msh.models import InboundMessage
from msh.protocol.effects import QueueError
from msh.protocol.kinds import Verdict
from msh.protocol.message import Field
from msh.protocol.vocabulary import ErrorCode
from msh.store.operations.operator_actions import open_links
from msh.store.receiving.messages import queue_error
from msh.store.receiving.senders import find_sender
from msh.transport.job import Job
from tests.sessions import meet

from .recovering import ANN
from .world import LOST, World

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[[], object]


def in_flight(world: World) -> Job:
    _, job = world.start()
    return job


def take(world: World, job: Job) -> Act:
    """The slow path at once: the usual one takes nothing while the row is held."""
    sender = world.here if job.partner_id == world.there.pk else world.there
    known = find_sender(f"Bearer {sender.name}")
    assert known is not None
    return lambda: receive.receive(known, Incoming(job.content_type, job.body))


def end_attempt(world: World, job: Job) -> Act:
    return lambda: world.end(job, LOST)


def take_error(world: World, job: Job) -> Act:
    header = wire.parse(job.content_type, job.body).header
    why = QueueError(ErrorCode.OTHER_XML, Field.MESSAGE, "cannot be read")
    queue_error(world.here.pk, why, header, 1)
    (error,) = world.poll()
    return take(world, error)


@pytest.mark.parametrize("prepare", [end_attempt, take_error])
def test_concurrent_suspension_by_an_operator_stays(
    world: World,
    prepare: Callable[[World, Job], Act],
) -> None:
    act = prepare(world, in_flight(world))

    meet(lambda: change_link.suspend(world.there, ANN), act)

    assert (world.link.state, world.link.suspended_for) == ("suspended", "operator")


def test_ack_of_a_concurrently_cancelled_message_is_a_late_verdict(world: World) -> None:
    message, job = world.start()
    world.hand_over(job)
    (ack,) = world.poll()

    meet(lambda: cancel.cancel(message, Verdict.UNKNOWN, ANN), take(world, ack))

    message.refresh_from_db()
    assert (message.state, message.outcome) == ("cancelled", "received")


def test_a_copy_that_comes_while_the_first_is_stored_is_a_copy(world: World) -> None:
    job = in_flight(world)
    open_links(world.here)
    act = take(world, job)

    answer: Any = meet(act, act)

    assert (answer.status, answer.reason) == (204, "")
    assert InboundMessage.objects.get().duplicates == 1
