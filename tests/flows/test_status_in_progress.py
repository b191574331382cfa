"""What a partner is told of its numbers while a message of it is being accepted (D18, D43)."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from django.db import transaction

from msh.flows.errors import NotPossible
from msh.flows.operations import cancel
from msh.flows.receiving import receive
from msh.flows.receiving.incoming import Incoming
from msh.flows.receiving.link_status import status_for
from msh.models import InboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.kinds import Verdict
from msh.protocol.link_status import LinkStatus
from msh.store.receiving.senders import find_sender
from tests.sessions import beside, meet, somebody_waits_for_us, waits_for_us
from tests.waiting import wait_until

from .recovering import ANN, answering, numbers
from .world import World

pytestmark = pytest.mark.django_db(transaction=True)

UNANSWERED = AttemptResult(AttemptOutcome.FAILED, detail="no answer within 54 s")


def arrival(world: World) -> tuple[OutboundMessage, Callable[[], object]]:
    """A message whose attempt ended without an answer here, and what takes it on the other side."""
    message, job = world.start()
    world.end(job, UNANSWERED)
    sender = find_sender(f"Bearer {world.here.name}")
    assert sender is not None
    return message, lambda: receive.receive(sender, Incoming(job.content_type, job.body))


@pytest.mark.parametrize("before", [0, 1])
def test_the_answer_is_after_an_acceptance_in_progress(world: World, before: int) -> None:
    """Its COMMIT may wait for a standby, while what reads is served. The first message of a pair
    creates its link, which nobody sees before."""
    for _ in range(before):
        world.submit()
        world.settle()
    message, accept = arrival(world)

    def ask() -> LinkStatus:
        return status_for(world.here, [message.message_id])

    status = meet(accept, ask)

    assert status.known == {message.message_id: True}
    assert status.accepted_number == before + 1
    assert status.accepted_message_id == message.message_id


def test_no_answer_proves_nothing(world: World) -> None:
    """A partner whose acceptance does not end says nothing: it is a 503 after lock_timeout."""
    message, accept = arrival(world)
    with transaction.atomic():
        accept()
        assert waits_for_us(lambda: status_for(world.here, [message.message_id]))


def test_a_message_being_accepted_is_not_cancelled_as_not_received(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its number goes to the next message, and both are delivered."""
    message, accept = arrival(world)
    answering(world, monkeypatch)

    def act() -> LinkStatus | None:
        return cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)

    with ExitStack() as stack:
        with transaction.atomic():
            accept()
            cancelling = stack.enter_context(beside(act))
            wait_until(lambda: somebody_waits_for_us() or cancelling.done())
        with pytest.raises(NotPossible, match="was received, as the partner reports"):
            cancelling.result()
    assert numbers(world) == [("in_flight", 1)]


def test_an_answer_leaves_nothing_behind(world: World) -> None:
    """Nor does it wait for a COMMIT: of a standby that is away, or of a database without writes."""
    assert status_for(world.here, ["unknown"]) == LinkStatus(None, "", 1, known={"unknown": False})
    assert not InboundLink.objects.filter(partner=world.here).exists()
