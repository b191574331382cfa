"""A message that we send has no foreign keys: its link and its agreement stay all the same. Nor has
a link one to its message in flight: a message that has not ended stays."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from msh.flows.sending.prepare import SubmitRefused, prepare
from msh.flows.sending.submit_many import InTheWay, submit_all
from msh.models import OutboundLink, OutboundMessage
from msh.models.outbound import OutboundState
from msh.protocol.message import Payload
from partners.models import Agreement
from tests.api.test_bulk_at_once import another, waits_for_a_lock
from tests.flows.world import World, make_world
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

PARENTS = ("partners_agreement", "msh_outboundlink")


def alone(world: World) -> None:
    world.submit()


def in_bulk(world: World) -> None:
    submit_all([[prepare(world.agreement, "service", "act", [Payload(b"<a/>")], message_id="m")]])


HOW = pytest.mark.parametrize("submit", [alone, in_bulk])


@pytest.fixture
def world(transactional_db: None) -> World:
    """Its link is made, and has no messages."""
    world = make_world()
    world.submit()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM msh_outboundpayload")
        cursor.execute("UPDATE msh_outboundmessage SET state = 'cancelled'")
        cursor.execute("DELETE FROM msh_outboundmessage")
    return world


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as thread:
        yield thread


def remove(other: "psycopg.Connection[Any]", table: str, world: World) -> None:
    condition = {"partners_agreement": "id = %s", "msh_outboundlink": "partner_id = %s"}[table]
    key = {"partners_agreement": world.agreement.pk, "msh_outboundlink": world.there.pk}[table]
    other.execute(f"DELETE FROM {table} WHERE {condition}".encode(), [key])


def closing(submit: Callable[[World], None], world: World) -> None:
    """What a thread of a test does: it leaves no connection."""
    try:
        submit(world)
    finally:
        connection.close()


@HOW
@pytest.mark.parametrize("table", PARENTS)
def test_parent_of_a_message_cannot_be_deleted(
    world: World, submit: Callable[[World], None], table: str
) -> None:
    submit(world)
    with another() as other, pytest.raises(psycopg.errors.ForeignKeyViolation, match=table):
        remove(other, table, world)


@HOW
@pytest.mark.parametrize("table", PARENTS)
def test_deletion_waits_for_a_message_that_is_stored(
    world: World, thread: ThreadPoolExecutor, submit: Callable[[World], None], table: str
) -> None:
    with another() as other:
        with transaction.atomic():
            submit(world)
            deletion = thread.submit(remove, other, table, world)
            wait_until(waits_for_a_lock, what="the deletion, for the message")
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            deletion.result()


def test_message_waits_for_a_deletion_and_is_refused(
    world: World, thread: ThreadPoolExecutor
) -> None:
    for submit, refused in ((alone, SubmitRefused), (in_bulk, InTheWay)):
        kept = Agreement.objects.get(pk=world.agreement.pk)
        with another() as other:
            remove(other, "partners_agreement", world)
            message = thread.submit(closing, submit, world)
            wait_until(waits_for_a_lock, what="the message, for the deletion")
            other.commit()
        with pytest.raises(refused, match="deleted in the meantime"):
            message.result()
        assert not OutboundMessage.objects.exists()
        kept.save(force_insert=True)


def test_link_that_is_deleted_meanwhile_is_made_again(
    world: World, thread: ThreadPoolExecutor
) -> None:
    before = OutboundLink.objects.get().pk
    with another() as other:
        remove(other, "msh_outboundlink", world)
        message = thread.submit(closing, in_bulk, world)
        wait_until(waits_for_a_lock, what="the message, for the deletion")
        other.commit()
    message.result()
    link = OutboundLink.objects.get()
    assert link.pk != before
    assert OutboundMessage.objects.get().link_id == link.pk


ENDED = {"acknowledged", "cancelled", "sent", "failed"}


def remove_message(other: "psycopg.Connection[Any]", key: int) -> None:
    other.execute("DELETE FROM msh_outboundmessage WHERE id = %s", [key])


@pytest.mark.parametrize("state", [state.value for state in OutboundState])
def test_message_that_has_not_ended_cannot_be_deleted(world: World, state: str) -> None:
    message = world.submit()
    OutboundMessage.objects.update(state=state, sequence_number=1, epoch=1, terms={})
    with another() as other:
        if state in ENDED:
            remove_message(other, message.pk)
        else:
            with pytest.raises(psycopg.errors.RestrictViolation, match=f"it is {state}"):
                remove_message(other, message.pk)


def test_deletion_waits_for_a_message_that_is_put_in_flight(
    world: World, thread: ThreadPoolExecutor
) -> None:
    message = world.submit()
    OutboundMessage.objects.update(state="cancelled")
    with another() as other:
        with transaction.atomic():
            OutboundMessage.objects.update(state="in_flight", sequence_number=1, epoch=1, terms={})
            deletion = thread.submit(remove_message, other, message.pk)
            wait_until(waits_for_a_lock, what="the deletion, for the message")
        with pytest.raises(psycopg.errors.RestrictViolation, match="it is in_flight"):
            deletion.result()
