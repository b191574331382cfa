"""The next copy, promised with the Acknowledgement before it, is sent by the worker that its
wake-up names."""

import math
from dataclasses import astuple, replace

import pytest
from django.db import connection

from msh.flows.hints import EVERYTHING, NOTHING, Hints
from msh.flows.operations import change_link
from msh.flows.sending import lanes, outcomes
from msh.flows.sending.kinds import Ended, LaneCopy, SettledCopy
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp
from msh.models import Attempt, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store import clock
from msh.transport.carrier import Finished
from msh.transport.job import Job, Lapse
from tests.flows import byhand, recovering
from tests.flows.byhand import PLENTY, Carrying, KeepingCarrier, hold_no_longer
from tests.flows.wake_ups.conftest import (
    PROMISED,
    SECOND,
    SENT,
    hints_of,
    in_use,
    lapse_in,
    seconds_until_due,
    state_of,
    taken,
    time_is_over,
)
from tests.flows.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def test_named_worker_only_reads(promised: tuple[World, Hints], loop: SendingLoop) -> None:
    world, hints = promised
    composed = OutboundMessage.objects.get(state="in_flight")
    version = version_of(world)
    loop.round(hints)

    (job,) = taken(loop)
    assert state_of(world) == PROMISED
    assert version_of(world) == version
    assert (job.key.key, job.key.attempt, job.deadline) == (composed.pk, 1, 54.0)  # type: ignore[attr-defined]
    assert bytes(composed.head or b"") == job.body[: len(composed.head or b"")] != b""
    assert world.hand_over(job).status == 204


def version_of(world: World) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT xmin, xmax FROM msh_outboundlink WHERE id = %s", [world.link.pk])
        return str(cursor.fetchone())


def test_end_of_the_post_is_recorded(promised: tuple[World, Hints], loop: SendingLoop) -> None:
    world, hints = promised
    loop.round(hints)
    (job,) = taken(loop)
    loop.take(Finished(job, byhand.TRANSMITTED))
    hold_no_longer(loop)
    loop.round(NOTHING)
    assert state_of(world) == SENT
    assert attempt_of(job) == ("transmitted", 204, True, True)
    assert 59 < seconds_until_due(world) <= 60  # Timeout, from the end of the attempt


@pytest.fixture
def begun(promised: tuple[World, Hints], loop: SendingLoop) -> Job:
    """The worker that the wake-up names has begun its POST."""
    _, hints = promised
    loop.round(hints)
    (job,) = taken(loop)
    job.note_begin()
    return job


def test_poll_writes_that_it_is_being_sent(
    promised: tuple[World, Hints], begun: Job, loop: SendingLoop
) -> None:
    """So that nobody else sends it, however long the POST takes."""
    world, hints = promised
    lapse_in(begun, 0.5)
    loop.round(EVERYTHING)
    assert state_of(world) == SENT
    assert 110 < seconds_until_due(world) <= 5 + 54 + 60
    assert begun.lapse == Lapse(math.inf, begun=True)

    loop.round(EVERYTHING | hints)  # the wake-up came twice
    assert taken(loop) == []


def test_poll_leaves_the_link_of_a_copy_that_has_just_begun(
    promised: tuple[World, Hints], begun: Job, loop: SendingLoop
) -> None:
    """Its Acknowledgement, which comes before the next poll as a rule, finds the link unchanged."""
    world, _ = promised
    version = version_of(world)
    loop.round(EVERYTHING)
    assert version_of(world) == version


@pytest.mark.parametrize("left", [-0.001, 0.9])
def test_worker_that_polls_late_keeps_what_it_is_sending(
    promised: tuple[World, Hints], begun: Job, loop: SendingLoop, left: float
) -> None:
    """The clock may have been set forward: then time is left of its own second."""
    world, _ = promised
    lapse_in(begun, left)
    time_is_over()
    loop.round(EVERYTHING)
    assert (taken(loop), state_of(world)) == ([], SENT)


@pytest.mark.parametrize("fails", [False, True])
def test_worker_that_is_stopping_keeps_what_it_is_sending(
    promised: tuple[World, Hints],
    begun: Job,
    loop: SendingLoop,
    fails: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else another claims the copy after a second, while the partner answers."""
    world, _ = promised
    loop._stopping.set()
    if fails:
        monkeypatch.setattr(loop, "_lock_links", fail)
    loop._round()
    assert (taken(loop), state_of(world)) == ([], SENT)
    assert begun.lapse == Lapse(math.inf, begun=True)


def fail(*_: object) -> None:
    raise ValueError("a defect")


@pytest.mark.parametrize("hints", [EVERYTHING, NOTHING])
def test_round_that_is_done_one_by_one_keeps_it_too(
    promised: tuple[World, Hints],
    begun: Job,
    loop: SendingLoop,
    hints: Hints,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, _ = promised
    time_is_over()

    monkeypatch.setattr(loop, "_lock_links", fail)
    loop.round(hints or Hints(frozenset({world.there.pk})))
    assert (taken(loop), state_of(world)) == ([], SENT)
    assert "one by one" in caplog.text


def test_poll_leaves_a_promised_copy_to_its_worker(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    world, hints = promised
    loop.round(EVERYTHING)
    assert taken(loop) == []
    loop.round(hints)
    assert len(taken(loop)) == 1
    assert state_of(world) == PROMISED


@pytest.mark.parametrize("changes", [{"attempt": 2}, {"key": 2**40}, {"partner_id": 2**40}])
def test_wake_up_that_names_something_else_sends_nothing(
    promised: tuple[World, Hints], loop: SendingLoop, changes: dict[str, int]
) -> None:
    world, hints = promised
    (promise,) = hints.promised
    loop.round(Hints(promised=frozenset({promise._replace(**changes)})))
    hold_no_longer(loop)
    loop.round(NOTHING)
    assert (taken(loop), state_of(world)) == ([], PROMISED)


def test_promise_in_its_last_moments_is_left_to_the_poll(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    """Else a POST could begin when another worker has claimed the copy."""
    world, hints = promised
    OutboundLink.objects.update(due=clock.read_clock() + SECOND / 20)
    loop.round(hints)
    assert (taken(loop), world.link.promised) == ([], True)


REFUSED = AttemptResult(AttemptOutcome.FAILED, detail="connection refused", body_sent=False)


@pytest.fixture
def shared(promised: tuple[World, Hints], loop: SendingLoop) -> tuple[World, Job, Job]:
    """A wake-up that has come to two workers: the jobs of both. Redis gives a name to one, but may
    give it again after a failover."""
    world, hints = promised
    loop.round(hints)
    (first,) = taken(loop)
    other = SendingLoop()
    other.carrier = KeepingCarrier()  # type: ignore[assignment]
    other.round(hints)
    (second,) = taken(other)
    assert first.key == second.key
    return world, first, second


def test_wake_up_that_comes_to_two_workers_is_recorded_once(
    shared: tuple[World, Job, Job],
) -> None:
    """The partner discards the second copy."""
    world, *jobs = shared
    for job in jobs:
        assert world.hand_over(job).status == 204
        byhand.end(job)
    assert (state_of(world), len(world.received())) == (SENT, 4)


@pytest.mark.parametrize("records_first", [True, False])
@pytest.mark.parametrize("result", [REFUSED, None])
def test_row_of_two_copies_never_denies_that_one_was_sent(
    shared: tuple[World, Job, Job],
    loop: SendingLoop,
    records_first: bool,
    result: AttemptResult | None,
) -> None:
    """One worker has sent it, and may have been killed before it wrote that; the other one could
    not (D18)."""
    world, first, second = shared
    world.hand_over(first)
    if records_first:
        byhand.end(first)
    loop.take(Finished(second, result))
    hold_no_longer(loop)
    loop.round(NOTHING)
    assert attempt_of(second)[2] is not False


def test_copy_that_could_not_be_read_may_have_been_sent_by_another_worker(
    promised: tuple[World, Hints], loop: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, hints = promised
    monkeypatch.setattr(lanes, "stored_body", fail)
    loop.round(hints)
    loop.round(NOTHING)
    attempt = Attempt.objects.get(message__state="in_flight")
    assert (attempt.outcome, attempt.body_sent) == ("refused", True)


def test_worker_that_is_named_twice_sends_one_copy(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    _, hints = promised
    loop.round(hints)
    loop.round(hints)
    assert len(taken(loop)) == 1


def test_copy_that_lapsed_unsent_is_no_failure(
    promised: tuple[World, Hints], begun: Job, loop: SendingLoop
) -> None:
    """Whoever sends it now counts it: also if this worker knows nothing of it any more."""
    world, _ = promised
    loop._under_way._jobs.clear()
    loop.take(Finished(begun, None))
    hold_no_longer(loop)
    loop.round(NOTHING)
    assert (state_of(world), attempt_of(begun)[3]) == (PROMISED, False)


def test_link_that_has_changed_is_polled(promised: tuple[World, Hints], loop: SendingLoop) -> None:
    world, hints = promised
    recovering.suspend(world)
    loop.round(hints)
    assert taken(loop) == []
    assert state_of(world) == (False, False, 1, 0, [1])

    change_link.resume(world.there, recovering.ANN)
    loop.round(hints)
    assert [job.key.attempt for job in taken(loop)] == [2]  # type: ignore[attr-defined]


def test_promised_copy_waits_for_a_place(promised: tuple[World, Hints], loop: SendingLoop) -> None:
    world, hints = promised
    loop.carrier.room = Carrying(left=0)  # type: ignore[attr-defined]
    loop.round(hints)
    assert taken(loop) == []
    assert loop._hints.promised == hints.promised

    loop.carrier.room = PLENTY  # type: ignore[attr-defined]
    loop.round(loop._hints)
    assert len(taken(loop)) == 1
    assert state_of(world) == PROMISED


def test_promised_copy_whose_bytes_have_changed_is_not_sent(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    world, hints = promised
    OutboundMessage.objects.filter(state="in_flight").update(head=b"changed")
    loop.round(hints)
    loop.round(NOTHING)
    assert taken(loop) == []
    assert (world.link.state, world.link.suspended_for) == ("suspended", "refused_by_peer")
    (attempt,) = Attempt.objects.filter(message__state="in_flight")
    assert "stored bytes" in attempt.detail


@pytest.fixture
def after_a_2xx(
    loop: SendingLoop, named: list[dict[WakeUp, Hints]], monkeypatch: pytest.MonkeyPatch
) -> tuple[World, Job, Hints]:
    """A copy whose 2xx waits to be recorded, for longer than a test takes, while the
    Acknowledgement has made the next ready."""
    monkeypatch.setattr(outcomes, "HOLD", 600.0)
    world = in_use()
    world.submit()
    world.submit("the next")
    hints_of(named)
    loop.round(EVERYTHING)
    (copy,) = taken(loop)
    world.hand_over(copy)
    (ack,) = byhand.poll()
    hints_of(named)
    world.hand_over(ack)
    return world, copy, hints_of(named)


def attempt_of(job: Job) -> tuple[str, int | None, bool | None, bool]:
    attempt = Attempt.objects.get(message__message_id=job.key.message_id)  # type: ignore[attr-defined]
    return attempt.outcome, attempt.status, attempt.body_sent, attempt.ended_at is not None


def test_2xx_before_a_promised_copy_is_recorded_without_the_link(
    after_a_2xx: tuple[World, Job, Hints], loop: SendingLoop
) -> None:
    world, copy, hints = after_a_2xx
    loop.take(Finished(copy, byhand.TRANSMITTED))
    loop.round(hints)
    assert len(taken(loop)) == 1
    assert [type(one.copy) for one in loop._outcomes] == [SettledCopy]
    assert loop.is_busy()
    assert attempt_of(copy)[0] == ""

    hold_no_longer(loop)
    version = version_of(world)
    loop.round(NOTHING)
    assert version_of(world) == version
    assert attempt_of(copy) == ("transmitted", 204, True, True)
    assert not loop._outcomes


def test_2xx_is_kept_if_the_next_copy_is_not_promised_any_more(
    after_a_2xx: tuple[World, Job, Hints], loop: SendingLoop
) -> None:
    world, copy, hints = after_a_2xx
    loop.take(Finished(copy, byhand.TRANSMITTED))
    time_is_over()
    loop._transmit_promised(hints.promised)
    assert [type(one.copy) for one in loop._outcomes] == [LaneCopy]

    loop.round(EVERYTHING)
    assert attempt_of(copy)[0] == "transmitted"
    assert world.link.unsent is False


@pytest.mark.parametrize(
    "result",
    [
        AttemptResult(AttemptOutcome.FAILED, status=503, detail="later"),
        AttemptResult(AttemptOutcome.TRANSMITTED, status=200, detail="200 OK: strange"),
        AttemptResult(AttemptOutcome.TRANSMITTED, status=None, detail="taken"),
    ],
)
def test_what_the_answer_said_is_recorded_with_the_next_copy(
    after_a_2xx: tuple[World, Job, Hints], loop: SendingLoop, result: AttemptResult
) -> None:
    _, copy, hints = after_a_2xx
    loop.take(Finished(copy, result))
    hold_no_longer(loop)
    loop.round(hints)
    hold_no_longer(loop)
    loop.round(NOTHING)
    assert not loop._outcomes
    attempt = Attempt.objects.get(message__message_id=copy.key.message_id)  # type: ignore[attr-defined]
    assert (attempt.outcome, attempt.status, attempt.detail) == (
        *(result.outcome, result.status, result.detail),
    )


def test_2xx_that_cannot_be_written_keeps_no_other_waiting(
    after_a_2xx: tuple[World, Job, Hints], loop: SendingLoop
) -> None:
    _, copy, hints = after_a_2xx
    loop.take(Finished(copy, replace(byhand.TRANSMITTED, detail="\0")))
    loop.round(hints)
    (following,) = taken(loop)
    settled = SettledCopy(*astuple(following.key))  # type: ignore[call-overload]
    loop._outcomes.keep([Ended(settled, byhand.TRANSMITTED)])
    hold_no_longer(loop)
    loop.round(NOTHING)
    assert not loop._outcomes
    assert attempt_of(following)[0] == "transmitted"


def test_2xx_of_the_copy_in_flight_is_held_by_itself(
    after_a_2xx: tuple[World, Job, Hints], loop: SendingLoop
) -> None:
    """Its link is not locked because the time of those before it is over."""
    _, copy, hints = after_a_2xx
    loop.take(Finished(copy, byhand.TRANSMITTED))
    loop.round(hints)
    (following,) = taken(loop)
    hold_no_longer(loop)

    loop.take(Finished(following, byhand.TRANSMITTED))
    loop.round(NOTHING)

    assert attempt_of(copy)[0] == "transmitted"
    assert attempt_of(following)[0] == ""
    assert loop.patience() <= outcomes.HOLD / 2


@pytest.mark.parametrize(("left", "is_held"), [(0.4, True), (0.2, False)])
def test_2xx_is_held_only_while_nobody_may_claim_the_copy(
    after_a_2xx: tuple[World, Job, Hints], loop: SendingLoop, left: float, is_held: bool
) -> None:
    """Else another worker sends it again."""
    _, _, hints = after_a_2xx
    loop.round(hints)
    (following,) = taken(loop)
    lapse_in(following, left)
    loop.take(Finished(following, byhand.TRANSMITTED))
    loop.round(NOTHING)
    assert (attempt_of(following)[0] == "") is is_held


def test_a_name_that_comes_again_when_its_post_has_ended_sends_nothing(
    promised: tuple[World, Hints], loop: SendingLoop
) -> None:
    """Its 2xx is held for a moment: no row says yet that it was sent."""
    world, hints = promised
    loop.round(hints)
    (job,) = taken(loop)
    loop.take(Finished(job, byhand.TRANSMITTED))
    assert world.link.promised

    loop.round(hints)

    assert taken(loop) == []
