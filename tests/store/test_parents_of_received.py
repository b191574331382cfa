"""A message that comes in has no foreign keys, nor has a signal: agreement and link stay."""

from collections.abc import Callable

import pytest
from django.db import IntegrityError

from msh.flows.receiving.incoming import Incoming
from msh.flows.receiving.receive import receive, receive_fast_path
from msh.models import InboundLink, InboundMessage, Signal
from msh.protocol import effects as do
from msh.protocol.message import Field, PartialHeader
from msh.protocol.vocabulary import ErrorCode
from msh.store.receiving.messages import queue_error
from msh.store.receiving.senders import find_sender
from msh.transport.job import Job
from partners.models import Partner
from tests.flows.world import World, make_world
from tests.sessions import meet
from tests.sql import execute

pytestmark = pytest.mark.django_db(transaction=True)

PARENTS = pytest.mark.parametrize("table", ["partners_agreement", "msh_inboundlink"])


def as_remembered(partner: Partner, job: Job) -> None:
    if receive_fast_path(partner, Incoming(job.content_type, job.body)) is None:
        locked(partner, job)


def locked(partner: Partner, job: Job) -> None:
    receive(partner, Incoming(job.content_type, job.body))


Take = Callable[[Partner, Job], None]
HOW = pytest.mark.parametrize("take", [as_remembered, locked])


@pytest.fixture
def world(transactional_db: None) -> World:
    """What has come is pruned, so that nothing but the next message refers to its parents."""
    world = make_world()
    for _ in range(3):
        world.submit()
        world.settle()
    remove_received()
    return world


@pytest.fixture
def partner(world: World) -> Partner:
    partner = find_sender(f"Bearer {world.here.name}")
    assert partner is not None
    return partner


@pytest.fixture
def job(world: World) -> Job:
    world.submit()
    (job,) = world.poll()
    return job


def remove_received() -> None:
    for table in ("msh_inboundpayload", "msh_inboundmessage", "msh_signal"):
        execute(f"DELETE FROM {table}")


def remove(table: str, partner: Partner) -> None:
    execute(f"DELETE FROM {table} WHERE partner_id = %s", partner.pk)


@HOW
@PARENTS
def test_parent_of_a_message_cannot_be_deleted(
    partner: Partner, job: Job, take: Take, table: str
) -> None:
    take(partner, job)
    Signal.objects.all().delete()
    with pytest.raises(IntegrityError, match=table):
        remove(table, partner)


def test_link_of_a_signal_cannot_be_deleted(partner: Partner, job: Job) -> None:
    locked(partner, job)
    InboundMessage.objects.all().delete()
    with pytest.raises(IntegrityError, match="signals"):
        remove("msh_inboundlink", partner)


@HOW
@PARENTS
def test_deletion_waits_for_a_message_that_is_stored(
    partner: Partner, job: Job, take: Take, table: str
) -> None:
    with pytest.raises(IntegrityError, match=table):
        meet(lambda: take(partner, job), lambda: remove(table, partner))


@HOW
@PARENTS
def test_message_waits_for_a_deletion_and_is_not_left_without_a_parent(
    world: World, partner: Partner, job: Job, take: Take, table: str
) -> None:
    meet(lambda: remove(table, partner), lambda: take(partner, job))
    assert not InboundMessage.objects.exists()
    refusal = Signal.objects.get()
    assert refusal.kind == "Error"
    assert refusal.link == InboundLink.objects.get(partner=world.here)


def test_deletion_of_a_link_waits_for_an_error(partner: Partner) -> None:
    error = do.QueueError(ErrorCode.VALUE_NOT_RECOGNIZED, Field.TPA_ID, "what")
    about = PartialHeader(message_id="m1")
    with pytest.raises(IntegrityError, match="signals"):
        meet(
            lambda: queue_error(partner.pk, error, about, None),
            lambda: remove("msh_inboundlink", partner),
        )
