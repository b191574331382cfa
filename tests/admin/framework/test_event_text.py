"""The history in plain sentences: no names of classes, each attempt once."""

import inspect
import re

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import SettingsWrapper

from msh.admin.framework import event_text
from msh.models import Direction, OutboundLink, OutboundMessage
from msh.protocol import events
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.delivery import events as of_deliveries
from msh.protocol.flight import events as of_flights
from tests.admin.conftest import url
from tests.flows.world import make_world

HUMP = re.compile(r"[a-z][A-Z]")
EXPIRED = AttemptResult(AttemptOutcome.DOUBTED, status=401, detail="401 Unauthorized")


def events_of(module: object) -> set[str]:
    return {
        name
        for name, one in inspect.getmembers(module, inspect.isclass)
        if one.__module__ == getattr(module, "__name__", "")
    }


@pytest.mark.parametrize(
    ("module", "direction"),
    [(events, Direction.OUT), (of_flights, Direction.OUT), (of_deliveries, Direction.IN)],
)
def test_every_event_of_the_tables_has_words(module: object, direction: str) -> None:
    values = {"Numbered", "AttemptEvent", "LanePolled"}  # a base class; never recorded
    without = {
        name for name in events_of(module) - values if name not in event_text.WORDS[direction]
    }
    assert without == set()


@pytest.mark.django_db
def test_the_story_of_a_message_has_each_attempt_once(administrator: Client) -> None:
    world = make_world(retries=2)
    message = world.submit()
    for _ in range(3):
        (job,) = world.poll()
        world.end(job, EXPIRED)
        OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now())
    world.poll()

    page = administrator.get(url(OutboundMessage, "change", message.pk))

    (timeline, *_) = page.context["tables"]
    told = [row[1] for row in timeline.rows]
    copies = [one for one in told if one.startswith("Copy")]
    assert copies == [f"Copy {n} sent; the answer was unexpected" for n in (1, 2, 3)]
    assert told.count("Operators were warned: retries are unlikely to help") == 1
    assert "Incident opened: No Acknowledgement after all retries" in told
    assert not [one for one in told if HUMP.search(one)]
    assert "401 Unauthorized" in str(timeline.rows)


@pytest.mark.django_db
def test_nobody_is_to_be_notified_without_a_handler(
    administrator: Client, settings: SettingsWrapper
) -> None:
    world = make_world()
    message = world.submit()
    world.settle()

    def told() -> str:
        page = administrator.get(url(OutboundMessage, "change", message.pk))
        return str([row[1] for row in page.context["tables"][0].rows])

    settings.MSH_FROM_PARTY_HANDLER = ""
    assert "application is to be notified" not in told()
    settings.MSH_FROM_PARTY_HANDLER = "some.handler"
    assert "application is to be notified" in told()
    assert "Acknowledged by the partner" in told()
