"""How many copies there are: the row counts them, whoever sends them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from msh.flows.hints import EVERYTHING, NOTHING
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import Attempt, OutboundLink
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import Finished
from msh.transport.job import Job
from partners.models import Agreement

from .byhand import KeepingCarrier
from .world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)

NO_ANSWER = AttemptResult(AttemptOutcome.FAILED, detail="no answer within 54 s")


def after_a_restart(*, records: bool = True) -> list[Job]:
    """What a new process sends at once. It has no answer, and dies when it has recorded that, or
    before."""
    loop, carrier = SendingLoop(), KeepingCarrier()
    loop.carrier = carrier  # type: ignore[assignment]
    loop.round(EVERYTHING)
    jobs = carrier.take()
    if records:
        for job in jobs:
            loop.take(Finished(job, NO_ANSWER))
        loop.round(NOTHING)
    return jobs


def wait_is_over(world: World) -> None:
    past = timezone.now() - timedelta(seconds=1)
    OutboundLink.objects.filter(partner=world.there).update(due=past)


@pytest.mark.parametrize("lost", [False, True], ids=["recorded", "lost with the process"])
def test_there_are_as_many_copies_as_agreed_whatever_restarts_and_changes(lost: bool) -> None:
    """A message follows the terms that it was sent under; the next one the new ones."""
    world = make_world(timeout=60, retries=3, retry_interval=60)
    message, following = world.submit(), world.submit("the next")
    bodies = []
    for retries in (1, 10, 3, 1):
        jobs = after_a_restart(records=not lost)
        assert [job.key.message_id for job in jobs] == [message.message_id]  # type: ignore[attr-defined]
        bodies += [job.body for job in jobs]
        Agreement.objects.filter(partner=world.there).update(retries=retries, retry_interval=5)
        wait_is_over(world)

    assert after_a_restart() == []
    assert (world.link.state, world.link.suspended_for) == ("suspended", "retries_spent")
    assert len(set(bodies)) == 1
    assert Attempt.objects.filter(message=message).count() == 1 + 3

    following.refresh_from_db()
    assert following.state == "queued"
