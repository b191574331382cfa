"""A wake-up names what was just stored: the worker reads these rows and does not search. The rows
alone say what there is to do, and what is lost with a wake-up, the sweep finds."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from msh.flows import wake_up as wake_ups
from msh.flows.names import EVERYTHING, NOTHING, Names, Ready
from msh.flows.operations import change_link
from msh.flows.sending import acknowledge
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Attempt, OutboundLink, OutboundMessage, Signal
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending import polling
from msh.store.sending.links import OutboundLinks
from msh.store.sending.message_sql import LARGE
from msh.transport.carrier import Finished
from msh.transport.job import Job
from tests.sessions import in_another_session

from . import byhand, recovering
from .byhand import PLENTY, Carrying, KeepingCarrier
from .world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[dict[WakeUp, Names]]:
    """What was asked for, instead of being sent."""
    asked: list[dict[WakeUp, Names]] = []

    class Messenger:
        send = asked.append

    monkeypatch.setattr(wake_ups, "_messenger", Messenger)
    return asked


@pytest.fixture
def loop() -> SendingLoop:
    loop = SendingLoop()
    loop.carrier = KeepingCarrier()  # type: ignore[assignment]
    return loop


def in_use() -> World:
    """The first messages of a pair are received under a lock."""
    world = make_world()
    for _ in range(2):
        world.submit()
        world.settle()
    return world


def taken(loop: SendingLoop) -> list[Job]:
    jobs: list[Job] = loop.carrier.take()  # type: ignore[attr-defined]
    return jobs


def names_of(asked: list[dict[WakeUp, Names]]) -> Names:
    names = NOTHING
    for one in asked:
        names |= one.get(WakeUp.TRANSMIT, NOTHING)
    asked.clear()
    return names


def test_an_exchange_by_its_wake_ups_alone(
    loop: SendingLoop, named: list[dict[WakeUp, Names]]
) -> None:
    world = in_use()
    named.clear()
    for _ in range(2):
        world.submit()
    for number in (1, 2):
        names = names_of(named)
        partners = {*names.links, *(one.partner_id for one in names.ready)}
        assert (partners, len(names.ready), names.all) == ({world.there.pk}, number - 1, False)
        loop.round(names)
        (copy,) = taken(loop)
        world.hand_over(copy)
        loop.take(Finished(copy, byhand.TRANSMITTED))
        names = names_of(named)
        assert (len(names.signals), names.all) == (1, False)
        loop.round(names)
        (ack,) = taken(loop)
        world.hand_over(ack)
        loop.take(Finished(ack, byhand.TRANSMITTED))
        assert len(world.received()) == 2 + number

    assert names_of(named) == NOTHING
    assert world.link.state == "idle"


def test_message_behind_others_wakes_nobody(named: list[dict[WakeUp, Names]]) -> None:
    world = make_world()
    world.submit()
    assert names_of(named).links == {world.there.pk}

    world.submit()
    assert names_of(named) == NOTHING

    world.settle()
    names_of(named)
    world.submit()
    assert names_of(named).links == {world.there.pk}


def test_message_behind_others_in_a_longer_transaction_is_named(
    named: list[dict[WakeUp, Names]],
) -> None:
    """They may all have been sent when it is committed."""
    world = make_world()
    world.submit()
    names_of(named)
    with transaction.atomic():
        world.submit()
    assert names_of(named).links == {world.there.pk}


def test_best_effort_message_is_looked_for(named: list[dict[WakeUp, Names]]) -> None:
    make_world().submit(semantics=DeliverySemantics.BEST_EFFORT)
    assert names_of(named) == EVERYTHING


# --- links ---------------------------------------------------------------------------------------


def test_named_link_that_another_holds_is_passed_over(loop: SendingLoop) -> None:
    held, free = make_world(), make_world()
    held.submit()
    free.submit()
    with transaction.atomic():
        OutboundLinks.lock([held.there.pk])
        in_another_session(lambda: loop.round(Names(frozenset({held.there.pk, free.there.pk}))))
    assert [job.partner_id for job in taken(loop)] == [free.there.pk]


def test_named_link_that_another_holds_is_neither_waited_for_nor_read() -> None:
    held, free = make_world(), make_world()
    held.submit()
    free.submit()

    def lock() -> set[int]:
        with transaction.atomic():
            return set(polling.lock_named((), [held.there.pk, free.there.pk]).links)

    with transaction.atomic():
        OutboundLinks.lock([held.there.pk])
        assert in_another_session(lock) == {free.there.pk}


def test_named_link_whose_copy_may_not_go_yet_sends_nothing(loop: SendingLoop) -> None:
    world = make_world()
    world.submit()
    byhand.poll(byhand.Carrying(busy=frozenset({world.there.pk})))  # in flight, not sent
    names = Names(frozenset({world.there.pk}))
    OutboundLink.objects.update(due=timezone.now() + timedelta(seconds=5))
    loop.round(names)
    assert taken(loop) == []

    OutboundLink.objects.update(due=timezone.now())
    loop.round(names)
    assert len(taken(loop)) == 1


@pytest.mark.parametrize("state", ["idle", "waiting"])
def test_what_is_next_is_read_with_the_link(state: str) -> None:
    world, other = make_world(), make_world()
    first, _ = world.submit(), world.submit()
    other.submit()
    if state == "waiting":
        byhand.poll(byhand.Carrying(busy=frozenset({world.there.pk})))
    with transaction.atomic():
        work = polling.lock_named((), [world.there.pk])
    assert [row.id for row in work.copies] == [first.pk]


def test_large_message_is_not_read_before_it_has_a_place() -> None:
    world = make_world()
    world.submit("x" * LARGE)
    with transaction.atomic():
        work = polling.lock_named((), [world.there.pk])
    assert (len(list(work.links)), work.copies) == (1, [])


# --- copies that are ready -----------------------------------------------------------------------


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


# --- signals -------------------------------------------------------------------------------------


@pytest.fixture
def claimed() -> Signal:
    """An Acknowledgement, as the fast path has just stored it."""
    world = in_use()
    world.submit()
    (job,) = byhand.poll()
    world.hand_over(job)
    signal = Signal.objects.get(link__partner=world.here, pending=1)
    assert (signal.pending, signal.sending, signal.tries) == (1, True, 1)
    assert signal.due - signal.first_at == timedelta(seconds=1)
    return signal


def swept() -> list[int]:
    """The signals that a sweep finds, of all."""
    with transaction.atomic():
        return [row.id for row in polling.lock_signals(polling.Places(4, 100))]


def test_claimed_signal_is_nobody_elses_for_a_second(claimed: Signal) -> None:
    assert swept() == []
    Signal.objects.filter(pk=claimed.pk).update(due=timezone.now())
    assert swept() == [claimed.pk]


@pytest.mark.parametrize(
    "changed", [{"due": timezone.now() - timedelta(hours=1)}, {"tries": 2}, {"sending": False}]
)
def test_late_wake_up_transmits_nothing(
    claimed: Signal, loop: SendingLoop, changed: dict[str, Any]
) -> None:
    """The sweep has taken the signal over, or will."""
    Signal.objects.update(**changed)
    loop.round(Names(signals=frozenset({claimed.pk})))
    assert taken(loop) == []


def test_signal_whose_post_takes_long_is_kept_claimed(claimed: Signal, loop: SendingLoop) -> None:
    loop.round(Names(signals=frozenset({claimed.pk})))
    assert len(taken(loop)) == 1

    loop.round(EVERYTHING)

    claimed.refresh_from_db()
    assert claimed.due > timezone.now() + timedelta(seconds=15)
    assert (claimed.sending, claimed.tries) == (True, 1)


def test_signal_that_was_transmitted_is_not_kept_claimed(
    claimed: Signal, loop: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written for it."""
    kept: list[object] = []
    monkeypatch.setattr(acknowledge, "keep_claimed", lambda _, keys: kept.extend(keys))
    loop.round(Names(signals=frozenset({claimed.pk})))
    (job,) = taken(loop)
    loop.take(Finished(job, byhand.TRANSMITTED))

    loop.round(EVERYTHING)

    claimed.refresh_from_db()
    assert (claimed.pending, claimed.sending, kept) == (0, False, [])


def test_claimed_signal_that_raises_an_error_stops_nothing_else(
    claimed: Signal, loop: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(keys: frozenset[int]) -> None:
        raise RuntimeError("what nobody has thought of")

    monkeypatch.setattr(polling, "load_claimed", refuse)
    world = make_world()
    world.submit()

    loop.round(Names(frozenset({world.there.pk}), frozenset({claimed.pk})))

    assert [job.partner_id for job in taken(loop)] == [world.there.pk]


def test_signal_without_a_place_is_named_again(claimed: Signal, loop: SendingLoop) -> None:
    loop.carrier.room = byhand.Carrying(left=0)  # type: ignore[attr-defined]
    loop.round(Names(signals=frozenset({claimed.pk})))
    assert taken(loop) == []

    loop.carrier.room = byhand.PLENTY  # type: ignore[attr-defined]
    loop._round()
    assert len(taken(loop)) == 1


# --- wake-ups between processes ------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        Names(frozenset({1, 22})),
        Names(frozenset({1}), frozenset({3, 4})),
        Names(flights=frozenset({9}), ready=frozenset({Ready(1, 2**31, 3, 4, 20.0, 85.25)})),
        EVERYTHING,
    ],
)
def test_names_survive_the_way(names: Names) -> None:
    assert Names.of_token(names.token().encode()) == names


@pytest.mark.parametrize("token", [b"1", b"lx", b"\xff", b"l1 q2", b"l", b"r1:2"])
def test_token_that_cannot_be_read_is_everything(token: bytes) -> None:
    assert Names.of_token(token).all


def test_names_wait_for_the_loop_that_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[WakeUp] = []
    monkeypatch.setattr(wake_ups, "queue_task", tasks.append)
    wake_ups._client().delete(*wake_ups.keys_of(WakeUp.TRANSMIT))

    wake_ups._messenger().publish({WakeUp.TRANSMIT: Names(signals=frozenset({7}))})
    wake_ups._messenger().publish({WakeUp.TRANSMIT: Names(links=frozenset({5}))})

    assert tasks[0] is WakeUp.TRANSMIT
    assert wake_ups.take_names(WakeUp.TRANSMIT) == Names(frozenset({5}), frozenset({7}))
    assert wake_ups.take_names(WakeUp.TRANSMIT) == NOTHING


def test_names_that_nobody_takes_become_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_ups, "queue_task", lambda kind: None)
    keys = wake_ups.keys_of(WakeUp.TRANSMIT)
    wake_ups._client().delete(*keys)

    for partner_id in range(1, 200):
        wake_ups._messenger().publish({WakeUp.TRANSMIT: Names(links=frozenset({partner_id}))})

    assert wake_ups._client().llen(keys.tokens) == 101
    assert wake_ups.take_names(WakeUp.TRANSMIT).all


def test_wake_up_of_everything_needs_no_names(named: list[dict[WakeUp, Names]]) -> None:
    wake_up(WakeUp.TRANSMIT, links=[1])
    wake_up(WakeUp.DELIVER, signals=[2])
    wake_up()
    assert named == [
        {WakeUp.TRANSMIT: EVERYTHING},
        {WakeUp.DELIVER: EVERYTHING, WakeUp.TRANSMIT: Names(signals=frozenset({2}))},
    ]
