"""Every row is dated by the database's clock."""

from datetime import timedelta

import pytest
from django.utils import timezone

from msh.flows import advance
from msh.models import History, OutboundLink, OutboundMessage

from .world import make_world

pytestmark = pytest.mark.django_db


def test_history_is_dated_now() -> None:
    world = make_world()
    began = timezone.now() - timedelta(minutes=1)
    world.submit()
    world.settle()

    times = list(History.objects.order_by("pk").values_list("at", flat=True))

    assert len(times) == 5
    assert all(began < at < timezone.now() + timedelta(minutes=1) for at in times)


def test_the_queue_is_in_the_order_of_submits_though_the_clock_was_set_back() -> None:
    world = make_world()
    messages = [world.submit() for _ in range(3)]
    for hours, message in enumerate(messages):
        before = timezone.now() - timedelta(hours=hours)
        OutboundMessage.objects.filter(pk=message.pk).update(submitted_at=before)

    world.settle()

    assert world.received() == [message.message_id for message in messages]


@pytest.mark.parametrize(
    ("hours", "timeout", "sent"), [(-1, 60, 1), (1, 60, 0), (3, 60, 1), (3, 24 * 3600, 0)]
)
def test_a_deadline_farther_away_than_any_wait_has_passed(
    hours: int, timeout: int, sent: int
) -> None:
    """The clock was set forward and back (D13)."""
    world = make_world(timeout=timeout)
    world.submit()
    (job,) = world.look()
    world.end(job)
    due = timezone.now() + timedelta(hours=hours)
    OutboundLink.objects.filter(pk=world.link.pk).update(due=due)

    advance.bring_back_due()

    assert len(world.look()) == sent
