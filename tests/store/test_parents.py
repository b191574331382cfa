"""A message that we send has no foreign keys: its link and its agreement stay all the same. Nor has
a link one to its message in flight: a message that has not ended stays."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest
from django.db import IntegrityError

from msh.flows.sending.prepare import SubmitRefused, prepare_heading, prepare_message
from msh.flows.sending.submit_many import InTheWay, submit_all
from msh.models import OutboundLink, OutboundMessage
from msh.models.outbound import OutboundState
from msh.protocol.message import Payload
from tests.flows.world import World, make_world
from tests.sessions import meet
from tests.sql import execute

pytestmark = pytest.mark.django_db(transaction=True)

Submit = Callable[[World], object]


def alone(world: World) -> None:
    world.submit()


def in_bulk(world: World) -> None:
    heading = prepare_heading(world.agreement, "service", "act", None, {})
    submit_all([[prepare_message(heading, [Payload(b"<a/>")], "m")]])


HOW = pytest.mark.parametrize("submit", [alone, in_bulk])
PARENTS = pytest.mark.parametrize("table", ["partners_agreement", "msh_outboundlink"])


@pytest.fixture
def world(transactional_db: None) -> World:
    """Its link is made, and has no messages."""
    world = make_world()
    world.submit()
    execute("DELETE FROM msh_outboundpayload")
    execute("UPDATE msh_outboundmessage SET state = 'cancelled'")
    execute("DELETE FROM msh_outboundmessage")
    return world


def remove(table: str, world: World) -> None:
    if table == "partners_agreement":
        execute("DELETE FROM partners_agreement WHERE id = %s", world.agreement.pk)
    else:
        execute("DELETE FROM msh_outboundlink WHERE partner_id = %s", world.there.pk)


@HOW
@PARENTS
def test_parent_of_a_message_cannot_be_deleted(world: World, submit: Submit, table: str) -> None:
    submit(world)
    with pytest.raises(IntegrityError, match=table):
        remove(table, world)


@HOW
@PARENTS
def test_deletion_waits_for_a_message_that_is_stored(
    world: World, submit: Submit, table: str
) -> None:
    with pytest.raises(IntegrityError, match=table):
        meet(lambda: submit(world), lambda: remove(table, world))


@pytest.mark.parametrize(("submit", "refused"), [(alone, SubmitRefused), (in_bulk, InTheWay)])
def test_message_waits_for_a_deletion_and_is_refused(
    world: World, submit: Submit, refused: type[Exception]
) -> None:
    with pytest.raises(refused, match="deleted in the meantime"):
        meet(lambda: remove("partners_agreement", world), lambda: submit(world))
    assert not OutboundMessage.objects.exists()


def test_link_that_is_deleted_meanwhile_is_made_again(world: World) -> None:
    before = OutboundLink.objects.get().pk
    meet(lambda: remove("msh_outboundlink", world), lambda: in_bulk(world))
    link = OutboundLink.objects.get()
    assert link.pk != before
    assert OutboundMessage.objects.get().link_id == link.pk


ENDED = {"acknowledged", "cancelled", "sent", "failed"}
STARTED = {"sequence_number": 1, "epoch": 1, "terms": {}}


def remove_messages() -> None:
    execute("DELETE FROM msh_outboundmessage")


@pytest.mark.parametrize("state", [state.value for state in OutboundState])
def test_message_that_has_not_ended_cannot_be_deleted(world: World, state: str) -> None:
    world.submit()
    OutboundMessage.objects.update(state=state, **STARTED)
    stays = pytest.raises(IntegrityError, match=f"it is {state}")
    with nullcontext() if state in ENDED else stays:
        remove_messages()


def test_deletion_waits_for_a_message_that_is_put_in_flight(world: World) -> None:
    world.submit()
    messages = OutboundMessage.objects.all()
    messages.update(state="cancelled")
    with pytest.raises(IntegrityError, match="it is in_flight"):
        meet(lambda: messages.update(state="in_flight", **STARTED), remove_messages)
