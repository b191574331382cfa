"""After a suspension, a stop, a jump of the clock: operators, late Acks, and the numbers."""

from dataclasses import replace

import pytest

from msh.protocol import effects as do
from msh.protocol import events as on
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import IncidentKind, PartyEventKind, Verdict
from msh.protocol.lane import OPERATOR, Lane, LaneState

from .tables.form import after
from .tables.sender import TERMS
from .worker import Copy, LaneWorker, acknowledged, failed, told_to_wait, transmitted, worker_dies

T, I = TERMS.timeout, TERMS.retry_interval  # noqa: E741 (as in the specification's timeline)
LAST = 999_999_999


def suspended(lane: Lane | None = None) -> LaneWorker:
    """A worker whose partner was silent: m1 is in flight, its budget spent."""
    worker = LaneWorker(lane=lane).sends("m1")
    worker.copies.clear()
    worker.effects.clear()
    return worker


@pytest.mark.requirement("000-033", "000-034")
def test_resume_sends_the_same_message_with_new_retries() -> None:
    worker = suspended(Lane(next_number=23))
    worker.passes(1000)
    start = worker.second
    assert worker.happens(on.OperatorResumed()) == (do.ResolveIncidents(), do.Transmit())
    worker.goes_on()
    assert worker.copies == [
        Copy(start, "m1", 23, attempt=5),
        Copy(start + T, "m1", 23, attempt=6),
        Copy(start + T + I, "m1", 23, attempt=7),
        Copy(start + T + 2 * I, "m1", 23, attempt=8),
    ]
    assert (worker.lane.state, worker.second) == (LaneState.SUSPENDED, start + T + 3 * I)


@pytest.mark.requirement("000-034")
def test_the_queue_follows_the_message_that_was_resumed() -> None:
    worker = suspended(Lane(next_number=23))
    worker.happens(on.OperatorResumed())
    worker.goes_on(acknowledged).sends("m2", acknowledged)
    numbers = [(copy.message_id, copy.sequence_number) for copy in worker.copies]
    assert numbers == [("m1", 23), ("m2", 24)]


@pytest.mark.requirement("000-030")
def test_a_late_ack_completes_but_only_an_operator_resumes() -> None:
    """D12."""
    worker = suspended()
    worker.passes(600)
    assert worker.happens(on.AckReceived("m1")) == (
        do.Complete("m1"),
        do.NotifyFromParty(PartyEventKind.ACKNOWLEDGED, "m1"),
    )
    assert (worker.lane.state, worker.lane.late_ack) == (LaneState.SUSPENDED, True)
    with pytest.raises(IllegalTransition):
        worker.happens(on.LanePolled("m2", TERMS))
    assert worker.happens(on.OperatorResumed()) == (do.ResolveIncidents(), do.PollLane())
    worker.sends("m2", acknowledged)
    assert worker.copies == [Copy(T + 3 * I + 600, "m2", 2, attempt=1)]
    assert worker.lane.late_ack is False


@pytest.mark.requirement("000-097")
def test_every_further_ack_is_counted_and_dropped() -> None:
    worker = LaneWorker().sends("m1", acknowledged)
    before = worker.lane
    for _ in range(4):
        assert worker.happens(on.AckReceived("m1")) == (do.CountDuplicateAck("m1"),)
    assert worker.lane == before


@pytest.mark.requirement("000-045")
def test_a_new_pair_starts_with_number_1_in_epoch_1() -> None:
    worker = LaneWorker().sends("m1", acknowledged)
    assert worker.effects[0] == do.PutInFlight("m1", 1, 1, TERMS)


@pytest.mark.requirement("000-043", "000-045", "000-046")
def test_numbers_count_up_wrap_around_and_rise_into_a_new_epoch() -> None:
    worker = LaneWorker(lane=Lane(next_number=LAST - 1, epoch=4))
    for message_id in ("m1", "m2", "m3", "m4"):
        worker.sends(message_id, acknowledged)
    put = [effect for effect in worker.effects if isinstance(effect, do.PutInFlight)]
    numbers = [(effect.message_id, effect.sequence_number, effect.epoch) for effect in put]
    assert numbers == [("m1", LAST - 1, 4), ("m2", LAST, 4), ("m3", 1, 5), ("m4", 2, 5)]
    assert (worker.lane.next_number, worker.lane.epoch) == (3, 5)


@pytest.mark.parametrize("number", [23, LAST])
@pytest.mark.parametrize("stays_suspended", [True, False])
@pytest.mark.parametrize("verdict", Verdict)
def test_the_verdict_of_a_cancellation_decides_the_next_number(
    verdict: Verdict, stays_suspended: bool, number: int
) -> None:
    """D18: received, N+1; unknown, 1 in a new epoch; not received, N again."""
    worker = suspended(Lane(next_number=number, epoch=4))
    if not stays_suspended:
        worker.happens(on.OperatorResumed())
    worker.happens(on.MessageCancelled(verdict, nothing_sent=True))
    if stays_suspended:
        worker.happens(on.OperatorResumed())

    assert worker.lane.state is LaneState.IDLE
    worker.happens(on.LanePolled("m2", TERMS))

    wraps = number == LAST
    assert (
        worker.effects[-2]
        == {
            Verdict.RECEIVED: do.PutInFlight(
                "m2", 1 if wraps else 24, 5 if wraps else 4, terms=TERMS
            ),
            Verdict.UNKNOWN: do.PutInFlight("m2", 1, 6 if wraps else 5, TERMS),
            Verdict.NOT_RECEIVED: do.PutInFlight("m2", number, 4, TERMS),
        }[verdict]
    )


@pytest.mark.requirement("000-047", "000-048", "000-049")
def test_a_reset_starts_the_numbers_again_in_a_new_epoch() -> None:
    worker = LaneWorker(lane=Lane(next_number=23, epoch=4)).sends("m1", acknowledged)
    worker.happens(on.SequenceReset())
    worker.sends("m2", acknowledged)
    assert do.PutInFlight("m2", 1, 5, TERMS) in worker.effects


@pytest.mark.requirement("000-048")
def test_a_reset_is_refused_while_a_message_is_in_flight() -> None:
    worker = suspended()
    with pytest.raises(IllegalTransition):
        worker.happens(on.SequenceReset())


def test_send_now_spends_nothing_and_waits_as_if_it_were_the_copy_before() -> None:
    worker = LaneWorker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(transmitted)
    worker.passes(10)
    worker.happens(on.SendNowRequested())
    worker.goes_on()
    assert worker.seconds == [0, 10, 10 + T, 10 + T + I, 10 + T + 2 * I]


def test_end_of_an_attempt_does_not_delay_a_requested_copy() -> None:
    worker = LaneWorker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(worker_dies)
    worker.happens(on.SendNowRequested())
    wanted = worker.lane
    for late in (on.AttemptTransmitted("m1", 1), on.AttemptFailed("m1", 1)):
        assert worker.happens(late) == ()
        assert worker.lane == wanted


def test_reset_retries_gives_the_budget_back_and_keeps_the_deadline() -> None:
    worker = LaneWorker()
    worker.happens(on.LanePolled("m1", TERMS))
    for due in (T, T + I):
        worker.sends_copy(transmitted)
        worker.now = after(due)
        worker.happens(on.DeadlinePassed())
    worker.sends_copy(transmitted)
    worker.passes(5)
    worker.happens(on.RetriesReset())
    worker.goes_on(failed)
    assert worker.seconds == [0, T, T + I, T + 2 * I, *(T + k * I for k in (3, 4))]
    assert worker.second == T + 5 * I


def test_an_operator_ends_a_transient_wait() -> None:
    worker = LaneWorker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(told_to_wait(90))
    worker.passes(10)
    worker.happens(on.OperatorResumed())
    assert worker.goes_on(acknowledged).seconds == [0, 10]


def test_attempt_may_end_on_a_suspended_lane() -> None:
    worker = LaneWorker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(worker_dies)
    worker.happens(on.OperatorSuspended())
    stopped = worker.lane
    worker.happens(on.AttemptTransmitted("m1", 1))
    assert worker.lane == stopped
    assert (stopped.state, stopped.flying.message_id) == (LaneState.SUSPENDED, "m1")
    worker.happens(on.OperatorResumed())
    assert worker.goes_on(acknowledged).copies[-1] == Copy(0, "m1", 1, attempt=2)


@pytest.mark.requirement("000-005")
def test_a_long_stop_causes_one_copy_and_no_burst() -> None:
    """D13."""
    worker = LaneWorker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(transmitted)
    worker.passes(10 * 86_400)
    assert worker.happens(on.DeadlinePassed()) == (do.Transmit(),)
    assert worker.happens(on.DeadlinePassed()) == ()
    worker.sends_copy(transmitted)
    assert worker.happens(on.DeadlinePassed()) == ()
    assert worker.seconds == [0, 10 * 86_400]


@pytest.mark.parametrize(("back", "copies"), [(100, 1), (100 + 60, 1), (100 + 61, 2)])
def test_a_due_time_beyond_the_longest_wait_counts_as_due(back: float, copies: int) -> None:
    """D13: the clock was set back. The longest wait here is twice the 100 s of a TransientError."""
    worker = LaneWorker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(told_to_wait(40))
    worker.passes(-back)
    if worker.happens(on.DeadlinePassed()):
        worker.sends_copy(transmitted)
    assert len(worker.copies) == copies


@pytest.mark.parametrize(
    ("back", "state"), [(604_770, LaneState.TRANSIENT), (604_771, LaneState.IDLE)]
)
def test_wait_of_an_empty_lane_is_bounded(back: float, state: LaneState) -> None:
    worker = LaneWorker()
    worker.happens(on.LanePolled("m1", TERMS))
    worker.sends_copy(told_to_wait(30))
    worker.happens(on.AckReceived("m1"))
    worker.passes(-back)
    worker.happens(on.DeadlinePassed())
    assert worker.lane.state is state


def test_probes_go_on_until_one_is_acknowledged() -> None:
    """D41: one copy each, nobody is told again; the Ack resumes and the queue follows."""
    worker = suspended()
    for _ in range(3):
        worker.passes(600)
        worker.happens(on.ProbeDue())
        worker.goes_on()
        assert worker.lane.state is LaneState.SUSPENDED
    assert len(worker.copies) == 3
    assert not any(isinstance(effect, do.NotifyFromParty) for effect in worker.effects)
    worker.happens(on.ProbeDue())
    worker.goes_on(acknowledged)
    assert worker.lane.state is LaneState.IDLE
    assert do.ResolveIncidents() in worker.effects
    assert worker.sends("m2", acknowledged).copies[-1].sequence_number == 2


@pytest.mark.parametrize(
    "cause", [*(kind for kind in IncidentKind if kind not in do.SILENCE), OPERATOR]
)
def test_only_silence_is_probed_or_ended_by_a_late_ack(cause: str) -> None:
    """What a person or an Error stopped, a person lets go again."""
    lane = replace(suspended().lane, suspended_for=cause)
    with pytest.raises(IllegalTransition):
        LaneWorker(lane=lane).happens(on.ProbeDue())
    worker = LaneWorker(lane=lane)
    worker.happens(on.AckReceived("m1", resumes=True))
    assert worker.lane.state is LaneState.SUSPENDED


def test_rewound_messages_keep_number_and_attempts() -> None:
    worker = LaneWorker(lane=Lane(next_number=LAST - 1, epoch=4))
    for message_id in ("m1", "m2", "m3"):
        worker.sends(message_id, acknowledged)
    worker.happens(on.OperatorSuspended())
    worker.happens(on.SequenceRewound(on.Numbered(LAST - 1, 4)))
    worker.happens(on.OperatorResumed())
    worker.copies.clear()
    for message_id, numbered in (("m2", on.Numbered(LAST, 4)), ("m3", on.Numbered(1, 5))):
        worker.happens(on.LanePolled(message_id, TERMS, numbered, attempts=1))
        worker.goes_on(acknowledged)
    worker.sends("m4", acknowledged)
    copies = [(one.message_id, one.sequence_number, one.attempt) for one in worker.copies]
    assert copies == [("m2", LAST, 2), ("m3", 1, 2), ("m4", 2, 1)]


def test_a_resume_forgets_the_transient_errors_too() -> None:
    limit = TERMS.transient_count_limit
    worker = LaneWorker().sends("m1", *[told_to_wait(30)] * (limit + 1))
    worker.happens(on.OperatorResumed())
    worker.goes_on(*[told_to_wait(30)] * limit, acknowledged)
    assert worker.lane == replace(Lane(), next_number=2)
