"""An Acknowledgement that the fast path has claimed is sent by its wake-up."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from msh.flows.hints import EVERYTHING, Hints
from msh.flows.sending import signals
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import Signal
from msh.store.sending import polling
from msh.transport.carrier import Finished
from tests.flows import byhand
from tests.flows.wake_ups.conftest import in_use, taken
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db(transaction=True)


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
        return [row.id for row in polling.lock_signals(polling.Slots(4, 100))]


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
    loop.round(Hints(signals=frozenset({claimed.pk})))
    assert taken(loop) == []


def test_what_the_sweep_takes_over_in_a_moment_is_left_to_it(
    claimed: Signal, loop: SendingLoop
) -> None:
    """A worker that stood still for a second would send it, and so would the sweep."""
    Signal.objects.update(due=timezone.now() + timedelta(seconds=0.09))
    loop.round(Hints(signals=frozenset({claimed.pk})))
    assert taken(loop) == []


def test_claimed_signal_is_sent_if_others_ask_for_everything(
    claimed: Signal, loop: SendingLoop
) -> None:
    """Wake-ups of one moment are joined. A poll would pass over it for a second."""
    joined = Hints(signals=frozenset({claimed.pk})) | EVERYTHING
    loop.round(Hints.of_token(joined.token().encode()))
    assert len(taken(loop)) == 1


def test_signal_whose_post_takes_long_is_kept_claimed(claimed: Signal, loop: SendingLoop) -> None:
    loop.round(Hints(signals=frozenset({claimed.pk})))
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
    monkeypatch.setattr(signals, "KEEP_CLAIMED", lambda **values: kept.append(values))
    loop.round(Hints(signals=frozenset({claimed.pk})))
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

    loop.round(Hints(frozenset({world.there.pk}), frozenset({claimed.pk})))

    assert [job.partner_id for job in taken(loop)] == [world.there.pk]


def test_signal_without_a_place_is_named_again(claimed: Signal, loop: SendingLoop) -> None:
    loop.carrier.room = byhand.Carrying(left=0)  # type: ignore[attr-defined]
    loop.round(Hints(signals=frozenset({claimed.pk})))
    assert taken(loop) == []

    loop.carrier.room = byhand.PLENTY  # type: ignore[attr-defined]
    loop._round()
    assert len(taken(loop)) == 1
