"""A message is submitted again in the moment in which prune removes it."""

from collections.abc import Callable

import pytest

from msh.flows.operations.prune import prune_all
from msh.flows.sending.prepare import prepare_heading, prepare_message
from msh.flows.sending.submit_many import submit_all
from msh.models import OutboundMessage, SubmittedId
from msh.protocol.message import Payload
from tests.flows.world import World
from tests.sessions import meet

from .pruning import age

NAMES = ["m-1", "m-2", "m-3"]


def submit_alone(world: World) -> list[str]:
    return [world.submit(message_id=name).state for name in NAMES[:2]]


def submit_in_bulk(world: World) -> list[str]:
    heading = prepare_heading(world.agreement, "Orders", "New", None, {})
    payload = Payload(b"<order/>", label="order.xml")
    new = [prepare_message(heading, [payload], name, None, "") for name in NAMES[:2]]
    return [answer.result for answer in submit_all([new])]


@pytest.mark.requirement("001-05")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("submit", "known"), [(submit_alone, "acknowledged"), (submit_in_bulk, "known")]
)
def test_submitted_again_while_prune_removes_it(
    world: World, submit: Callable[[World], list[str]], known: str
) -> None:
    for name in NAMES:
        world.submit(message_id=name)
    world.settle()
    age()

    again = meet(prune_all, lambda: submit(world))

    assert again == [known, known]
    assert list(OutboundMessage.objects.values_list("message_id", flat=True)) == ["m-3"]
    assert SubmittedId.objects.count() == 2
