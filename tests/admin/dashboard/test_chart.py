"""The charts of the dashboard, and the traffic that they show."""

import pytest
from django.test import Client
from django.urls import reverse

from msh.flows.operations import change_link
from msh.statistics.admin.charts import HEIGHT, WIDTH, rates
from msh.statistics.models import Statistics, Unit
from msh.store.history import Actor
from msh.transport.job import Job
from tests.admin.conftest import client_of, waiting_world
from tests.flows.world import World
from tests.statistics.happenings import collect_all

pytestmark = pytest.mark.django_db

PAGE = reverse("admin:index")

SEES = ("view_outboundlink", "view_outboundmessage", "view_incident")


@pytest.fixture
def onlooker() -> Client:
    return client_of("olaf", *SEES)


def counted(*fields: str) -> tuple[int, ...]:
    """In all minutes: a test may cross the end of one."""
    collect_all()
    minutes = Statistics.objects.filter(unit=Unit.MINUTE, partner=None, consumer=None)
    return tuple(sum(row) for row in zip(*minutes.values_list(*fields), strict=True))


def test_traffic_is_counted_from_what_happened(world: World, onlooker: Client) -> None:
    for _ in range(3):
        world.submit()
    world.settle()

    fields = ("acknowledged", "received", "retries", "duplicates")
    assert counted(*fields) == counted(*fields) == (3, 3, 0, 0)
    context = onlooker.get(PAGE).context
    (hour, copies), (day, copies_of_day) = context["charts"], context["charts_of_day"]
    for messages in (hour, day):
        assert [line.summary for line in messages.series] == ["3 total", "3 total"]
    for repeated in (copies, copies_of_day):
        assert [line.summary for line in repeated.series] == ["0 total", "0 total"]


def test_retries_and_duplicates_are_counted(onlooker: Client) -> None:
    world = waiting_world()
    world.hand_over(job := again(world))
    world.hand_over(job)

    assert counted("retries", "duplicates") == (1, 1)


def again(world: World) -> Job:
    change_link.send_now(world.there, Actor("ann", "hurry"))
    (job,) = world.poll()
    return job


def test_a_chart_fits_its_frame() -> None:
    drawn = rates("Messages per minute", {"out": [0, 50, 100]}, 10, [(0, "a"), (3, "b")])

    (out,) = drawn.series
    middle = f"{WIDTH / 2:.1f},{HEIGHT / 2:.1f}"
    (points,) = out.lines
    assert points == f"{WIDTH / 6:.1f},{HEIGHT:.1f} {middle} {5 * WIDTH / 6:.1f},0.0"
    assert drawn.ticks == [(0, "a"), (WIDTH, "b")]
    assert drawn.description == "Messages per minute: out 150 total; at most 10."
