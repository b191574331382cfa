"""What is done again one by one is locked anew, and looked at anew: another worker may have it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from msh.models import History, OutboundMessage, PartyEvent, Signal
from msh.protocol.attempt import AttemptResult
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending import polling
from msh.store.sending.best_effort_sql import BestEffortCopy
from msh.store.sending.isolation import isolate_best_effort
from tests.sessions import in_another_session, meet

from .byhand import end_lost_leases
from .costs import multiply
from .world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)

BEST_EFFORT = DeliverySemantics.BEST_EFFORT
Find = Callable[[], list[Any]]


def pending_signal(world: World) -> Find:
    _, job = world.start()
    world.hand_over(job)
    world.end(job)
    key = Signal.objects.get().pk
    return lambda: polling.work_of_signal(key).signals


def queued_best_effort(world: World) -> Find:
    key = world.submit(semantics=BEST_EFFORT).pk
    return lambda: polling.work_of_best_effort(key).best_effort


@pytest.mark.parametrize("prepare", [pending_signal, queued_best_effort])
def test_row_locked_by_another_worker_is_skipped(prepare: Callable[[World], Find]) -> None:
    find = prepare(make_world())
    with transaction.atomic():
        assert len(find()) == 1
        assert in_another_session(find) == []
    with transaction.atomic():
        assert len(find()) == 1


@pytest.mark.parametrize("change", [{"pending": 0}, {"due": timezone.now() + timedelta(days=1)}])
def test_signal_of_another_worker_is_skipped(
    change: dict[str, Any],
) -> None:
    find = pending_signal(make_world())
    Signal.objects.update(**change)
    assert find() == []


def test_only_the_signal_that_is_asked_for_is_found() -> None:
    find = pending_signal(make_world())
    multiply(Signal.objects.get(), 1, ref_to_message_id="'another'")
    assert len(find()) == 1


def test_a_best_effort_message_that_another_has_sent_is_left_alone() -> None:
    find = queued_best_effort(make_world())
    OutboundMessage.objects.update(state="in_flight")
    assert find() == []


# --- BestEffort messages that end -----------------------------------------------------------------


def isolate(message: OutboundMessage, result: AttemptResult | None = None) -> None:
    partner_id = message.agreement.partner_id
    copy = BestEffortCopy(message.pk, message.message_id, partner_id)
    with transaction.atomic():
        isolate_best_effort(copy, result, "cannot be composed")


@pytest.mark.parametrize(
    ("semantics", "state", "after"),
    [
        (BEST_EFFORT, "queued", "failed"),
        (BEST_EFFORT, "in_flight", "failed"),
        (BEST_EFFORT, "sent", "sent"),
        (DeliverySemantics.ONCE_AND_ONLY_ONCE, "queued", "queued"),
    ],
)
def test_only_an_open_best_effort_message_is_given_up(
    semantics: DeliverySemantics, state: str, after: str
) -> None:
    message = make_world().submit(semantics=semantics)
    OutboundMessage.objects.update(state=state)
    isolate(message)
    message.refresh_from_db()
    assert message.state == after
    assert PartyEvent.objects.count() == (state != after)


def test_a_message_that_is_ended_meanwhile_is_not_given_up(world: World) -> None:
    message, job = world.start(semantics=BEST_EFFORT)

    meet(lambda: world.end(job), lambda: isolate(message))

    message.refresh_from_db()
    assert message.state == "sent"
    assert not PartyEvent.objects.exists()


def test_an_outcome_that_comes_while_the_lease_is_ended_changes_nothing(world: World) -> None:
    """The From-Party was told that the outcome is unknown, and is told nothing else."""
    message, job = world.start(semantics=BEST_EFFORT)
    OutboundMessage.objects.update(due=message.submitted_at)

    meet(end_lost_leases, lambda: world.end(job))

    message.refresh_from_db()
    assert message.state == "failed"
    assert History.objects.filter(event="AttemptEnded").count() == 1
