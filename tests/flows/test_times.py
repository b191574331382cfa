"""Every row is dated by the database's clock."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from msh.flows.sending.prepare import prepare_heading, prepare_message
from msh.flows.sending.submit_many import submit_all
from msh.models import History, OutboundLink, OutboundMessage
from msh.protocol.message import Payload
from msh.store.engine import run
from msh.store.operations.clock_repair import make_far_work_due
from msh.store.sending import link_sql

from . import byhand
from .world import World, make_world

pytestmark = pytest.mark.django_db


def test_history_is_dated_now(world: World) -> None:
    began = timezone.now() - timedelta(minutes=1)
    world.submit()
    world.settle()

    times = list(History.objects.order_by("pk").values_list("at", flat=True))

    assert len(times) == 5
    assert all(began < at < timezone.now() + timedelta(minutes=1) for at in times)


@pytest.mark.parametrize("days", [1, -1])
@pytest.mark.parametrize("together", [False, True])
def test_message_is_submitted_at_the_time_of_the_database(
    world: World, days: int, together: bool
) -> None:
    """Whatever the clock of the host says that submits it."""
    now = timezone.now()
    with time_machine.travel(now + timedelta(days=days)):
        if together:
            heading = prepare_heading(world.agreement, "service", "act", None, {})
            submit_all([[prepare_message(heading, [Payload(b"<a/>")])]])
        else:
            submitted = world.submit()
    stored = OutboundMessage.objects.get()
    assert abs(stored.submitted_at - now) < timedelta(minutes=5)
    assert History.objects.get(event="MessageSubmitted").at == stored.submitted_at
    assert together or submitted.submitted_at == stored.submitted_at


def test_queue_keeps_submit_order_when_the_clock_is_set_back(world: World) -> None:
    messages = [world.submit() for _ in range(3)]
    for hours, message in enumerate(messages):
        before = timezone.now() - timedelta(hours=hours)
        OutboundMessage.objects.filter(pk=message.pk).update(submitted_at=before)

    world.settle()

    assert world.received() == [message.message_id for message in messages]


@pytest.mark.parametrize(
    ("hours", "timeout", "sent"), [(-1, 60, 1), (1, 60, 0), (3, 60, 1), (3, 24 * 3600, 0)]
)
@pytest.mark.parametrize("state", ["waiting", "transient"])
def test_a_deadline_farther_away_than_any_wait_has_passed(
    hours: int, timeout: int, sent: int, state: str
) -> None:
    """The clock was set forward and back (D13)."""
    world = make_world(timeout=timeout)
    wait(world, hours, state)

    make_far_work_due()

    assert len(world.poll()) == sent


def wait(world: World, hours: int, state: str = "waiting") -> None:
    """Its copy was transmitted, and its lane is due in so many hours."""
    _, job = world.start()
    world.end(job)
    due = timezone.now() + timedelta(hours=hours)
    OutboundLink.objects.filter(pk=world.link.pk).update(due=due, state=state)


def test_only_the_lane_that_waits_too_long_is_brought_back() -> None:
    patient, other = make_world(timeout=24 * 3600), make_world()
    for world in (patient, other):
        wait(world, 3)

    make_far_work_due()

    assert [job.partner_id for job in byhand.poll()] == [other.there.pk]


def test_a_lane_that_has_moved_meanwhile_is_not_brought_back(world: World) -> None:
    wait(world, 1)
    run(link_sql.MAKE_DUE(partner_ids=[world.there.pk]))
    assert world.poll() == []


@pytest.mark.parametrize(("days", "waits"), [(6, True), (8, False)])
def test_a_wait_that_outlives_its_message_is_served_out(
    world: World, days: int, waits: bool
) -> None:
    """D28. As long as an agreement may grant; what is farther away the clock has left behind."""
    world.submit()
    world.settle()
    until = timezone.now() + timedelta(days=days)
    OutboundLink.objects.update(state="transient", due=until)
    world.submit("the next")

    make_far_work_due()

    assert (world.link.due == until) is waits
    assert (byhand.poll() == []) is waits
