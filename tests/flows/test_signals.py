"""Acknowledgements and Errors that are pending: which, how often, which first."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from msh import wire
from msh.flows.sending.kinds import Ended
from msh.models import History, InboundMessage, Signal
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.effects import QueueError
from msh.protocol.message import Field
from msh.protocol.vocabulary import ErrorCode
from msh.store.receiving.messages import queue_error
from msh.store.sending import polling, signals
from msh.store.sending.polling import Slots
from msh.store.sending.signals import SignalCopy
from msh.transport.job import Job
from partners.models import Partner

from . import byhand
from .byhand import TRANSMITTED, Carrying
from .costs import multiply, statements_of
from .world import LOST, World, make_world

pytestmark = pytest.mark.django_db

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)


def copy_to(world: World) -> Job:
    """A copy of a new message that arrives at the other side: an Ack is pending."""
    world.submit()
    others = Partner.objects.exclude(pk=world.there.pk).values_list("pk", flat=True)
    (job,) = byhand.poll(Carrying(busy=frozenset(others)))
    world.hand_over(job)
    return job


def owe(*due_before: timedelta) -> Signal:
    """To a new partner, a signal for each time, which was due so long ago. The first of them."""
    world = make_world()
    copy_to(world)
    signal = Signal.objects.get(link__partner=world.here)
    Signal.objects.filter(pk=signal.pk).update(due=timezone.now() - due_before[0])
    for number, before in enumerate(due_before[1:]):
        due = f"statement_timestamp() - interval '{before.total_seconds()} s'"
        multiply(signal, 1, ref_to_message_id=f"'{number}-{signal.pk}'", due=due)
    return signal


def found(of_partner: int, in_all: int, *full: int) -> list[tuple[int, str]]:
    """Partner and MessageId of what a poll finds, in its order."""
    with transaction.atomic():
        rows = polling.lock_signals(Slots(of_partner, in_all, full))
    return [(row.partner_id, row.ref_to_message_id) for row in rows]


def to(signal: Signal) -> int:
    """The partner that it is pending to."""
    return signal.link.partner_id


def under_way(world: World) -> Job:
    (job,) = (job for job in byhand.poll() if job.partner_id == world.here.pk)
    return job


# --- which are pending -----------------------------------------------------------------------


def test_repeated_error_has_the_current_reason(world: World) -> None:
    job = copy_to(world)
    header = wire.parse(job.content_type, job.body).header
    for number, text in ((1, "first"), (2, "second")):
        why = QueueError(ErrorCode.TRANSIENT_ERROR, Field.MESSAGE, text, min_retry_secs=10 * number)
        queue_error(world.here.pk, why, header, number)
        signal = Signal.objects.get(code=ErrorCode.TRANSIENT_ERROR)
        if number == 1:
            long_ago, later = timezone.now() - HOUR, timezone.now() + HOUR
            Signal.objects.filter(pk=signal.pk).update(expires_at=long_ago, due=later)

    assert (signal.pending, signal.description) == (2, "second")
    assert (signal.min_retry_secs, signal.sequence_number) == (20, 2)
    assert signal.expires_at > timezone.now()
    assert signal.due <= timezone.now()


def test_ack_of_a_copy_waits_for_the_one_under_way(world: World) -> None:
    job = copy_to(world)
    ack = under_way(world)
    Signal.objects.update(expires_at=timezone.now() + HOUR)

    world.hand_over(job)

    assert byhand.poll() == []
    signal = Signal.objects.get()
    assert (signal.pending, signal.sending) == (2, True)
    assert signal.due < timezone.now() + 2 * SECOND
    world.end(ack)
    world.hand_over(under_way(world))


def test_only_the_ack_of_a_message_to_be_sent_on_has_it_sent_on() -> None:
    """The same MessageId from another partner, or another of the same partner, is not it."""
    world, other = make_world(), make_world()
    for one, message_id in ((other, "order-1"), (world, "order-0"), (world, "order-1")):
        one.submit(message_id=message_id)
        one.settle()
    Signal.objects.filter(ref_to_message_id="order-1", link__partner=world.here).update(pending=1)
    messages = InboundMessage.objects.all()
    own = messages.get(link__partner=world.here, message_id="order-1")

    def is_sent_on() -> bool:
        Signal.objects.filter(pending=1).update(due=timezone.now())
        (job,) = byhand.poll()
        assert isinstance(job.key, SignalCopy)
        return job.key.routed

    messages.exclude(pk=own.pk).update(state="routed")
    assert not is_sent_on()
    messages.filter(pk=own.pk).update(state="routed")
    assert is_sent_on()


# --- which come first -----------------------------------------------------------------------------


def test_the_link_whose_signal_is_due_longest_comes_first() -> None:
    second, first, third = owe(2 * MINUTE), owe(3 * MINUTE), owe(MINUTE)
    assert [partner for partner, _ in found(4, 2)] == [to(first), to(second)]
    assert [partner for partner, _ in found(4, 2, to(first))] == [to(second), to(third)]


def test_each_link_has_a_place_before_one_has_two() -> None:
    flooded, other = owe(HOUR, HOUR - SECOND, HOUR - 2 * SECOND), owe(MINUTE)
    assert [partner for partner, _ in found(4, 2)] == [to(flooded), to(other)]


def test_poll_finds_one_more_than_a_partner_has_slots() -> None:
    signals = [owe(*(MINUTE + n * SECOND for n in range(4))) for _ in range(3)]
    two_and_one_more = (2, 1, 0)
    oldest = [(to(one), f"{n}-{one.pk}") for n in two_and_one_more for one in signals]
    assert sorted(found(2, 100)) == sorted(oldest)
    assert len(found(2, 5)) == 5


def test_links_without_pending_signals_hide_no_other() -> None:
    transmitted, pending, also_transmitted, last = [
        owe(minutes * MINUTE) for minutes in (4, 3, 2, 1)
    ]
    Signal.objects.filter(pk__in=[transmitted.pk, also_transmitted.pk]).update(pending=0)
    assert [partner for partner, _ in found(4, 1)] == [to(pending)]
    assert [partner for partner, _ in found(4, 1, to(pending))] == [to(last)]


def test_transmitted_signals_hide_no_pending_ones() -> None:
    signal = owe(MINUTE, -HOUR, 2 * MINUTE)
    Signal.objects.filter(ref_to_message_id=f"1-{signal.pk}").update(pending=0)
    assert found(1, 100) == [(to(signal), signal.ref_to_message_id)]


def test_poll_of_a_full_carrier_claims_nothing() -> None:
    owe(MINUTE)
    assert byhand.poll(Carrying(left=0)) == []
    assert not Signal.objects.filter(sending=True).exists()


# --- how transmitting one ends -------------------------------------------------------------------


def test_each_is_transmitted_as_its_own_bytes_and_its_tries_are_counted() -> None:
    owed = [owe(MINUTE), owe(MINUTE)]
    jobs = byhand.poll()
    stored = Signal.objects.in_bulk([one.pk for one in owed])
    about = {job.key.key: wire.parse(job.content_type, job.body).header for job in jobs}  # type: ignore[attr-defined]
    assert {key: header.ref_to_message_id for key, header in about.items()} == {
        key: one.ref_to_message_id for key, one in stored.items()
    }
    assert len({header.message_id for header in about.values()}) == 2
    assert {(one.sending, one.tries) for one in stored.values()} == {(True, 1)}


def sent_again(lost: Job) -> Job:
    """Its bytes are stored, since it was lost."""
    byhand.end(lost, LOST)
    Signal.objects.filter(pk=lost.key.key).update(due=timezone.now())  # type: ignore[attr-defined]
    (job,) = byhand.poll()
    return job


def test_next_signal_is_due_and_composed_after_the_first() -> None:
    signal, other = owe(MINUTE), owe(MINUTE)
    Signal.objects.filter(pk=signal.pk).update(pending=2, tries=7)
    lost, _ = byhand.poll()
    first = sent_again(lost)

    for _ in range(2):  # an outcome that is written twice counts once
        byhand.end(first)

    signal.refresh_from_db()
    assert (signal.pending, signal.transmitted, signal.sending, signal.tries) == (1, 1, False, 0)
    assert signal.due <= timezone.now()
    assert signal.body is None
    (second,) = byhand.poll()
    assert second.key == first.key
    assert second.body != first.body
    other.refresh_from_db()
    assert (other.pending, other.sending) == (1, True)
    for _ in range(2):
        byhand.end(second)
    signal.refresh_from_db()
    assert (signal.pending, signal.transmitted, signal.sending) == (0, 2, False)


def test_those_that_are_transmitted_together_are_recorded_by_one_statement() -> None:
    """What a partner refuses beside them is recorded by itself."""
    for _ in range(3):
        owe(MINUTE)
    refused, *others = byhand.poll()
    refusal = AttemptResult(AttemptOutcome.REFUSED, status=403, detail="403 Forbidden")
    ended = [(refused, refusal), *((job, TRANSMITTED) for job in others)]

    calls = statements_of(lambda: byhand.end_all([Ended(job.key, result) for job, result in ended]))

    assert [call.statement for call in calls].count(signals.FIRST_TRANSMITTED) == 1
    for job, result in ended:
        signal = Signal.objects.get(pk=job.key.key)  # type: ignore[attr-defined]
        transmitted = int(job is not refused)
        assert (signal.pending, signal.transmitted, signal.sending) == (0, transmitted, False)
        assert (signal.last_status, signal.last_detail) == (result.status, result.detail)
        event = "AcknowledgementTransmitted" if transmitted else "AcknowledgementRefused"
        row = History.objects.get(event=event, message_id=signal.ref_to_message_id)
        assert (row.partner_id, row.direction) == (job.partner_id, "in")
        assert (row.detail, row.times) == (result.detail, 1)


@pytest.mark.parametrize(
    ("tries", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (30_000, 60)]
)
def test_one_that_failed_is_tried_again_as_it_was_after_a_wait_that_grows(
    tries: int, seconds: int
) -> None:
    signal = owe(MINUTE)
    Signal.objects.filter(pk=signal.pk).update(tries=tries - 1)
    (job,) = byhand.poll()
    began = timezone.now()

    byhand.end(job, LOST)

    signal.refresh_from_db()
    assert (signal.pending, signal.transmitted, signal.sending) == (1, 0, False)
    assert signal.due - began >= timedelta(seconds=seconds)
    assert signal.due - timezone.now() <= timedelta(seconds=seconds)
    Signal.objects.filter(pk=signal.pk).update(due=timezone.now())
    (again,) = byhand.poll()
    assert again.body == job.body


REFUSED = AttemptResult(AttemptOutcome.REFUSED, status=413, detail="413 too large")


@pytest.mark.parametrize(("result", "expired"), [(LOST, True), (REFUSED, False)])
def test_abandoned_signal_is_not_pending_and_has_no_body(
    result: AttemptResult, expired: bool
) -> None:
    signal = owe(MINUTE)
    job = sent_again(*byhand.poll())
    horizon = timezone.now() + (-SECOND if expired else HOUR)
    Signal.objects.filter(pk=signal.pk).update(pending=2, expires_at=horizon)

    byhand.end(job, result)

    signal.refresh_from_db()
    assert (signal.pending, signal.sending, signal.body) == (0, False, None)
    assert signal.last_detail == result.detail
