"""The charts of the dashboard, and the traffic that they show."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from msh import tasks
from msh.admin.statistics.charts import HEIGHT, WIDTH, rates
from msh.flows.operations import change_link
from msh.models import Traffic
from msh.store.history import Actor
from msh.store.operations.traffic import count_traffic
from msh.transport.job import Job
from tests.admin.conftest import client_of, waiting_world
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

PAGE = reverse("admin:index")

SEES = ("view_outboundlink", "view_outboundmessage", "view_incident")


@pytest.fixture
def onlooker() -> Client:
    return client_of("olaf", *SEES)


def counted(*fields: str) -> tuple[int, ...]:
    """In all minutes: a test may cross the end of one."""
    return tuple(sum(row) for row in zip(*Traffic.objects.values_list(*fields), strict=True))


def test_traffic_is_counted_from_what_happened(onlooker: Client) -> None:
    world = make_world()
    for _ in range(3):
        world.submit()
    world.settle()

    count_traffic(timezone.now())
    count_traffic(timezone.now())  # counted once, however often

    assert counted("sent", "received", "retries", "duplicates") == (3, 3, 0, 0)
    messages, copies = onlooker.get(PAGE).context["charts"]
    assert [line.summary for line in messages.series] == ["3 total", "3 total"]
    assert [line.summary for line in copies.series] == ["0 total", "0 total"]


def test_retries_and_duplicates_are_counted(onlooker: Client) -> None:
    world = waiting_world()
    world.hand_over(job := again(world))
    world.hand_over(job)

    count_traffic(timezone.now())

    assert counted("retries", "duplicates") == (1, 1)


def again(world: World) -> Job:
    change_link.send_now(world.there, Actor("ann", "hurry"))
    (job,) = world.poll()
    return job


def test_old_traffic_is_removed() -> None:
    old = timezone.now() - timedelta(days=9)
    Traffic.objects.create(minute=old, sent=1)

    count_traffic(timezone.now())

    assert not Traffic.objects.filter(minute=old).exists()


def test_a_chart_fits_its_frame() -> None:
    drawn = rates("Messages per minute", {"out": [0, 50, 100]}, 10, [(0, "a"), (3, "b")])

    (out,) = drawn.series
    middle = f"{WIDTH / 2:.1f},{HEIGHT / 2:.1f}"
    (points,) = out.lines
    assert points == f"{WIDTH / 6:.1f},{HEIGHT:.1f} {middle} {5 * WIDTH / 6:.1f},0.0"
    assert drawn.ticks == [(0, "a"), (WIDTH, "b")]
    assert drawn.description == "Messages per minute: out 150 total; at most 10."


def test_traffic_is_counted_by_the_clock_of_the_database() -> None:
    """A worker whose clock is ahead would remove what was counted, as too old."""
    an_hour_ago = timezone.now().replace(second=0, microsecond=0) - timedelta(hours=1)
    Traffic.objects.create(minute=an_hour_ago, sent=1)
    with time_machine.travel(timezone.now() + timedelta(days=30)):
        tasks.count_traffic()
    assert Traffic.objects.filter(minute=an_hour_ago).exists()
