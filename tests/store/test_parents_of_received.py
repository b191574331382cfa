"""A message that comes in has no foreign keys, nor has a signal: agreement and link stay."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

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
from tests.api.test_bulk_at_once import another, waits_for_a_lock
from tests.flows.world import World, make_world
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

PARENTS = ("partners_agreement", "msh_inboundlink")


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


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


def remove_received() -> None:
    with connection.cursor() as cursor:
        for table in ("msh_inboundpayload", "msh_inboundmessage", "msh_signal"):
            cursor.execute(f"DELETE FROM {table}")


def remove(other: "psycopg.Connection[Any]", table: str, partner: Partner) -> None:
    statement = b"DELETE FROM " + table.encode() + b" WHERE partner_id = %s"
    other.execute(statement, [partner.pk])


def closing(take: Take, partner: Partner, job: Job) -> None:
    """What a thread of a test does: it leaves no connection."""
    try:
        take(partner, job)
    finally:
        connection.close()


@HOW
@pytest.mark.parametrize("table", PARENTS)
def test_parent_of_a_message_cannot_be_deleted(
    partner: Partner, job: Job, take: Take, table: str
) -> None:
    take(partner, job)
    Signal.objects.all().delete()
    with another() as other, pytest.raises(psycopg.errors.ForeignKeyViolation, match=table):
        remove(other, table, partner)


def test_link_of_a_signal_cannot_be_deleted(partner: Partner, job: Job) -> None:
    locked(partner, job)
    InboundMessage.objects.all().delete()
    with another() as other, pytest.raises(psycopg.errors.ForeignKeyViolation, match="signals"):
        remove(other, "msh_inboundlink", partner)


@HOW
@pytest.mark.parametrize("table", PARENTS)
def test_deletion_waits_for_a_message_that_is_stored(
    partner: Partner, job: Job, thread: ThreadPoolExecutor, take: Take, table: str
) -> None:
    with another() as other:
        with transaction.atomic():
            take(partner, job)
            deletion = thread.submit(remove, other, table, partner)
            wait_until(waits_for_a_lock, what="the deletion, for the message")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            deletion.result()


@HOW
@pytest.mark.parametrize("table", PARENTS)
def test_message_waits_for_a_deletion_and_is_not_left_without_a_parent(
    world: World, partner: Partner, job: Job, thread: ThreadPoolExecutor, take: Take, table: str
) -> None:
    with another() as other:
        remove(other, table, partner)
        taking = thread.submit(closing, take, partner, job)
        wait_until(waits_for_a_lock, what="the message, for the deletion")
        other.commit()
    taking.result()
    assert not InboundMessage.objects.exists()
    refusal = Signal.objects.get()
    assert refusal.kind == "Error"
    assert refusal.link == InboundLink.objects.get(partner=world.here)


def test_deletion_of_a_link_waits_for_an_error(
    partner: Partner, thread: ThreadPoolExecutor
) -> None:
    error = do.QueueError(ErrorCode.VALUE_NOT_RECOGNIZED, Field.TPA_ID, "what")
    about = PartialHeader(message_id="m1")
    with another() as other:
        with transaction.atomic():
            queue_error(partner.pk, error, about, None)
            deletion = thread.submit(remove, other, "msh_inboundlink", partner)
            wait_until(waits_for_a_lock, what="the deletion, for the Error Message")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            deletion.result()
