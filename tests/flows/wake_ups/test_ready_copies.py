"""The next copy, composed with the Acknowledgement before it, is claimed by its wake-up."""

import pytest
from django.db import transaction
from django.utils import timezone

from msh.flows.names import EVERYTHING, NOTHING, Names
from msh.flows.operations import change_link
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp
from msh.models import Attempt, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import Finished
from msh.transport.job import Job
from tests.flows import byhand, recovering
from tests.flows.byhand import PLENTY, Carrying
from tests.flows.wake_ups.conftest import in_use, names_of, taken
from tests.flows.world import World

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ready(loop: SendingLoop, named: list[dict[WakeUp, Names]]) -> tuple[World, Names]:
    """A message that an Acknowledgement has put in flight, and what its wake-up names."""
    world = in_use()
    world.submit()
    world.submit("the next")
    names_of(named)
    (first,) = byhand.poll()
    world.hand_over(first)
    byhand.end(first)
    (ack,) = byhand.poll()
    names_of(named)
    world.hand_over(ack)
    names = names_of(named)
    assert (names.links, names.signals, names.all) == (frozenset(), frozenset(), False)
    return world, names


def claim_of(world: World) -> tuple[object, ...]:
    """What the claim of a copy has written."""
    link = world.link
    assert link.in_flight is not None
    (attempt,) = link.in_flight.attempts.all()
    assert link.due is not None
    due_in = round((link.due - attempt.claimed_at).total_seconds(), 1)
    return link.state, link.unsent, link.attempt, link.retries_spent, attempt.number, due_in


def test_ready_copy_is_claimed_as_a_poll_claims_it(
    ready: tuple[World, Names], loop: SendingLoop
) -> None:
    world, names = ready
    composed = OutboundMessage.objects.get(state="in_flight")
    with transaction.atomic():
        (polled,) = byhand.poll()
        claimed_by_poll = claim_of(world)
        transaction.set_rollback(True)

    loop.round(names)

    (job,) = taken(loop)
    assert claim_of(world) == claimed_by_poll
    assert (job.key, job.body, job.url) == (polled.key, polled.body, polled.url)
    assert bytes(composed.head or b"") == job.body[: len(composed.head or b"")] != b""


def test_wake_up_that_comes_twice_sends_one_copy(
    ready: tuple[World, Names], loop: SendingLoop
) -> None:
    world, names = ready
    loop.round(names)
    loop.round(names)
    assert len(taken(loop)) == 1
    assert claim_of(world)[2] == 1


def test_link_that_has_changed_is_polled_for(ready: tuple[World, Names], loop: SendingLoop) -> None:
    """The wake-up names what was decided for another version of it."""
    world, names = ready
    recovering.suspend(world)
    loop.round(names)
    assert taken(loop) == []
    assert Attempt.objects.filter(message=world.link.in_flight).count() == 0

    change_link.resume(world.there, recovering.ANN)
    loop.round(names)
    assert len(taken(loop)) == 1
    assert claim_of(world)[2] == 1


def test_late_wake_up_claims_no_attempt_of_before(
    ready: tuple[World, Names], loop: SendingLoop, caplog: pytest.LogCaptureFixture
) -> None:
    world, names = ready
    loop.round(names)
    OutboundLink.objects.update(due=timezone.now())
    byhand.poll(Carrying(busy=frozenset({world.there.pk})))  # the retry waits for a place
    taken(loop)

    loop.round(names)

    assert len(taken(loop)) == 1
    assert (world.link.attempt, world.link.retries_spent, caplog.messages) == (2, 1, [])


def test_lost_wake_up_costs_no_retry(ready: tuple[World, Names]) -> None:
    world, _ = ready
    assert len(byhand.poll()) == 1
    assert claim_of(world)[2:5] == (1, 0, 1)


def test_ready_copy_waits_for_a_place(ready: tuple[World, Names], loop: SendingLoop) -> None:
    world, names = ready
    loop.carrier.room = Carrying(left=0)  # type: ignore[attr-defined]
    loop.round(names)
    assert Attempt.objects.filter(message=world.link.in_flight).count() == 0

    loop.carrier.room = PLENTY  # type: ignore[attr-defined]
    loop.round(names)
    assert claim_of(world)[2] == 1


def test_ready_copy_whose_bytes_have_changed_is_not_sent(
    ready: tuple[World, Names], loop: SendingLoop
) -> None:
    world, names = ready
    OutboundMessage.objects.filter(state="in_flight").update(head=b"changed")
    loop.round(names)
    loop.round(NOTHING)
    assert taken(loop) == []
    assert (world.link.state, world.link.suspended_for) == ("suspended", "refused_by_peer")
    (attempt,) = Attempt.objects.filter(message__state="in_flight")
    assert "stored bytes" in attempt.detail


@pytest.fixture
def after_a_2xx(loop: SendingLoop, named: list[dict[WakeUp, Names]]) -> tuple[World, Job, Names]:
    """A copy whose 2xx waits to be recorded, while the Acknowledgement has made the next ready."""
    world = in_use()
    world.submit()
    world.submit("the next")
    names_of(named)
    loop.round(EVERYTHING)
    (copy,) = taken(loop)
    world.hand_over(copy)
    (ack,) = byhand.poll()
    names_of(named)
    world.hand_over(ack)
    return world, copy, names_of(named)


def attempt_of(job: Job) -> tuple[str, int | None, bool | None, bool]:
    attempt = Attempt.objects.get(message__message_id=job.key.message_id)  # type: ignore[attr-defined]
    return attempt.outcome, attempt.status, attempt.body_sent, attempt.ended_at is not None


def test_claim_of_the_next_copy_records_the_2xx_before(
    after_a_2xx: tuple[World, Job, Names], loop: SendingLoop
) -> None:
    _, copy, names = after_a_2xx
    loop.take(Finished(copy, byhand.TRANSMITTED))
    loop.round(names)
    assert len(taken(loop)) == 1
    assert attempt_of(copy) == ("transmitted", 204, True, True)
    assert not loop._unrecorded


def test_2xx_is_kept_if_the_next_copy_is_not_claimed(
    after_a_2xx: tuple[World, Job, Names], loop: SendingLoop
) -> None:
    world, copy, names = after_a_2xx
    (ready,) = names.ready
    loop.take(Finished(copy, byhand.TRANSMITTED))
    other = Names(ready=frozenset({ready._replace(version=ready.version + 1)}))
    loop._claim_ready(other.ready)
    assert attempt_of(copy)[0] == ""
    assert len(loop._unrecorded) == 1

    loop.round(EVERYTHING)
    assert attempt_of(copy)[0] == "transmitted"
    assert world.link.unsent is False


@pytest.mark.parametrize(
    "result",
    [
        AttemptResult(AttemptOutcome.FAILED, status=503, detail="later"),
        AttemptResult(AttemptOutcome.TRANSMITTED, status=200, detail="strange"),
        AttemptResult(AttemptOutcome.TRANSMITTED, status=None),
    ],
)
def test_what_is_no_plain_2xx_is_recorded_by_itself(
    after_a_2xx: tuple[World, Job, Names], loop: SendingLoop, result: AttemptResult
) -> None:
    _, copy, names = after_a_2xx
    loop.take(Finished(copy, result))
    loop._held_until = 0.0
    loop.round(names)
    attempt = Attempt.objects.get(message__message_id=copy.key.message_id)  # type: ignore[attr-defined]
    assert (attempt.outcome, attempt.status, attempt.detail) == (
        *(result.outcome, result.status, result.detail),
    )
