"""A promise that is not kept: a poll of any worker claims the copy, at the cost of no retry, and
never takes it for one that is known not to have been sent."""

import math
import time

import pytest
from django.utils import timezone

from msh.flows import wake_up as wake_ups
from msh.flows.errors import NotPossible
from msh.flows.hints import EVERYTHING, NOTHING, Hints
from msh.flows.operations import cancel
from msh.flows.sending.kinds import LaneCopy
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp
from msh.models import Attempt, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.kinds import Verdict
from msh.store import clock
from msh.transport.carrier import NOT_SENT, Finished
from msh.transport.job import Job
from tests.flows import byhand
from tests.flows.byhand import Carrying, hold_no_longer
from tests.flows.recovering import ANN, answering
from tests.flows.wake_ups.conftest import (
    PROMISED,
    SECOND,
    SENT_BY_ANOTHER,
    in_use,
    lapse,
    lapse_in,
    seconds_until_due,
    state_of,
    taken,
    time_is_over,
)
from tests.flows.world import World

pytestmark = pytest.mark.django_db(transaction=True)

REFUSED = AttemptResult(AttemptOutcome.FAILED, detail="connection refused", body_sent=False)


def lapsed() -> list[Job]:
    """The copy that the poll of another worker claims."""
    jobs = byhand.poll(wake_ups_are_lost=True)
    return [job for job in jobs if isinstance(job.key, LaneCopy)]


def test_lost_wake_up_costs_no_retry(promised: tuple[World, Hints]) -> None:
    world, _ = promised
    time_is_over()
    (job,) = lapsed()
    assert state_of(world) == SENT_BY_ANOTHER
    assert job.key.attempt == 2  # type: ignore[attr-defined]
    assert 110 < seconds_until_due(world) <= 5 + 54 + 60  # Timeout, as after the first copy


def test_late_worker_sends_nothing(promised: tuple[World, Hints], loop: SendingLoop) -> None:
    world, hints = promised
    time_is_over()
    assert len(lapsed()) == 1
    loop.round(hints)
    assert (taken(loop), state_of(world)) == ([], SENT_BY_ANOTHER)


def test_job_lapses_with_the_promise(promised: tuple[World, Hints], loop: SendingLoop) -> None:
    """By a clock that nobody sets, and never later than a second: the row may say a minute because
    the other clock was set back."""
    _, hints = promised
    before = time.monotonic()
    loop.round(hints)
    (job,) = taken(loop)
    assert job.lapse is not None
    assert before <= job.lapse.at - 1 <= time.monotonic()
    assert job.not_after > job.lapse.at
    assert job.is_late(job.lapse.at + 0.001)
    assert not job.is_late(job.lapse.at - 0.001)


def test_copy_that_was_not_begun_in_time_is_no_failure(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    world, hints = promised
    loop.round(hints)
    (job,) = taken(loop)
    assert loop.take(Finished(job, None))  # a reason to poll
    hold_no_longer(loop)
    loop.round(NOTHING)
    assert state_of(world) == PROMISED

    time_is_over()
    loop.round(EVERYTHING)
    assert len(taken(loop)) == 1
    assert state_of(world) == SENT_BY_ANOTHER


def test_worker_whose_copy_another_has_claimed_does_not_begin_it(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    world, hints = promised
    loop.round(hints)
    (job,) = taken(loop)
    time_is_over()
    lapsed()
    lapse_in(job, 0.5)
    loop.round(EVERYTHING)
    assert (job.lapse and job.lapse.at, state_of(world)) == (0.0, SENT_BY_ANOTHER)
    assert job.is_late(time.monotonic())
    assert loop.take(Finished(job, None))
    assert not loop._outcomes


def test_worker_keeps_no_copy_that_has_lapsed_unbegun(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    """It waited for the lock of the link: an attempt written as begun would fail."""
    world, hints = promised
    loop.round(hints)
    (job,) = taken(loop)
    lapse(job)
    loop.round(EVERYTHING)
    assert state_of(world) == PROMISED
    assert loop.take(Finished(job, None))
    assert not loop._outcomes


def test_nothing_is_promised_while_wake_ups_rest(
    named: list[dict[WakeUp, Hints]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would be named, and a poll would have to wait for a second."""
    world = in_use()
    world.submit()
    world.submit("the next")
    (first,) = byhand.poll()
    world.hand_over(first)
    byhand.end(first)
    (ack,) = byhand.poll()
    monkeypatch.setattr(wake_ups._rest, "until", math.inf)
    world.hand_over(ack)
    assert (world.link.unsent, world.link.promised, world.link.attempt) == (True, False, 0)


def test_late_wake_up_sends_no_attempt_of_before(
    promised: tuple[World, Hints], loop: SendingLoop, caplog: pytest.LogCaptureFixture
) -> None:
    world, hints = promised
    time_is_over()
    lapsed()
    OutboundLink.objects.update(due=timezone.now())
    byhand.poll(Carrying(busy=frozenset({world.there.pk})))  # the retry waits for a place

    loop.round(hints)

    assert [job.key.attempt for job in taken(loop)] == [3]  # type: ignore[attr-defined]
    assert (world.link.retries_spent, caplog.messages) == (1, [])


def in_flight(world: World) -> OutboundMessage:
    assert world.link.in_flight is not None
    return world.link.in_flight


def require_doubt(world: World) -> None:
    """Nobody may use the number of the message in flight again (D18)."""
    with pytest.raises(NotPossible, match="may have been received"):
        cancel.cancel(in_flight(world), Verdict.NOT_RECEIVED, ANN)


def test_message_that_was_promised_is_not_known_to_be_unsent(
    promised: tuple[World, Hints],
) -> None:
    """Its worker may be sending it at this moment."""
    require_doubt(promised[0])


def test_copy_of_a_worker_that_died_is_not_known_to_be_unsent(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    """The worker that sends it again finds that nobody listens."""
    world, hints = promised
    loop.round(hints)
    (job,) = taken(loop)
    world.hand_over(job)  # and dies; the Acknowledgement is lost
    time_is_over()
    (again,) = lapsed()
    byhand.end(again, REFUSED)

    require_doubt(world)
    traces = Attempt.objects.filter(message=in_flight(world)).order_by("number")
    assert [(one.number, one.ended_at is None, one.body_sent) for one in traces] == [
        (1, True, True),
        (2, False, False),
    ]


def test_worker_that_was_late_does_not_deny_what_another_has_sent(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    world, hints = promised
    loop.round(hints)
    (late,) = taken(loop)
    time_is_over()
    (again,) = lapsed()
    world.hand_over(again)
    byhand.end(again)
    byhand.end(late, NOT_SENT)

    require_doubt(world)
    assert state_of(world) == SENT_BY_ANOTHER


def test_copy_that_is_claimed_while_the_partner_answers_is_not_known_to_be_unsent(
    promised: tuple[World, Hints], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker ran for minutes; they start when the partner has said that it lacks the message."""
    world, _ = promised
    Attempt.objects.update(claimed_at=clock.read_clock() - 600 * SECOND)
    time_is_over()
    answering(world, monkeypatch, lambda: [world.hand_over(job) for job in lapsed()])

    require_doubt(world)
    assert state_of(world) == SENT_BY_ANOTHER


def test_partner_that_lacks_a_message_whose_promise_nobody_kept_proves_it(
    promised: tuple[World, Hints], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _ = promised
    message = in_flight(world)
    Attempt.objects.update(claimed_at=clock.read_clock() - 600 * SECOND)
    answering(world, monkeypatch)
    cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
    message.refresh_from_db()
    assert (message.state, message.sequence_number) == ("cancelled", None)
