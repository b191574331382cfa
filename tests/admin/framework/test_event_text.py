"""The history in plain sentences: no names of classes, each attempt once."""

import re
from typing import Any, get_args

import pytest
from django.test import Client
from django.utils import timezone

from msh.admin.framework import event_text
from msh.flows.operations.inspection.trace import IN_PROGRESS, NOT_RECORDED, Moment
from msh.models import Direction, OutboundLink, OutboundMessage
from msh.protocol import events
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.delivery import events as of_deliveries
from msh.protocol.flight import events as of_flights
from tests.admin.conftest import url
from tests.flows.world import World, make_world

HUMP = re.compile(r"[a-z][A-Z]")
ANSWERS = ("401 Unauthorized", "403 Forbidden", "404 Not Found")


@pytest.mark.parametrize(
    ("union", "direction"),
    [
        (events.SenderEvent, Direction.OUT),
        (of_flights.FlightEvent, Direction.OUT),
        (of_deliveries.DeliveryEvent, Direction.IN),
    ],
)
def test_every_event_of_the_tables_has_words(union: Any, direction: str) -> None:
    never_recorded = {"LanePolled"}
    names = {event.__name__ for event in get_args(union)}
    assert len(names) > 5
    assert names - never_recorded - set(event_text.WORDS[direction]) == set()


@pytest.mark.django_db
def test_the_story_is_told_while_a_copy_is_being_sent(world: World, administrator: Client) -> None:
    message = world.submit()
    world.poll()

    page = administrator.get(url(OutboundMessage, "change", message.pk))

    (timeline, *_) = page.context["tables"]
    assert "Copy 1 being sent" in [row[1] for row in timeline.rows]


def test_every_outcome_of_an_attempt_has_words() -> None:
    assert {IN_PROGRESS, NOT_RECORDED, *AttemptOutcome} <= set(event_text.ATTEMPTS)


@pytest.mark.django_db
def test_the_story_of_a_message_has_each_attempt_once(administrator: Client) -> None:
    world = make_world(retries=2)
    message = world.submit()
    for answer in ANSWERS:
        world.post(AttemptResult(AttemptOutcome.DOUBTED, status=int(answer[:3]), detail=answer))
        OutboundLink.objects.filter(pk=world.link.pk).update(due=timezone.now())
    world.poll()

    page = administrator.get(url(OutboundMessage, "change", message.pk))

    (timeline, *_) = page.context["tables"]
    told = [row[1] for row in timeline.rows]
    assert [row[2] for row in timeline.rows].count("unexpected response") == 3
    copies = [one for one in told if one.startswith("Copy")]
    assert copies == [f"Copy {n} sent; the answer was unexpected" for n in (1, 2, 3)]
    assert told.count("Operators were warned: retries are unlikely to help") == 1
    assert "Incident opened: No Acknowledgement after all retries" in told
    assert not [one for one in told if HUMP.search(one)]
    assert [str(timeline.rows).count(answer) for answer in ANSWERS] == [1, 1, 1]


@pytest.mark.django_db
def test_nobody_is_to_be_notified_without_a_handler(
    world: World, administrator: Client, settings: Any
) -> None:
    message = world.submit()
    world.settle()

    def told() -> str:
        page = administrator.get(url(OutboundMessage, "change", message.pk))
        return str([row[1] for row in page.context["tables"][0].rows])

    settings.MSH_FROM_PARTY_HANDLER = ""
    assert "application has not been notified yet" not in told()
    settings.MSH_FROM_PARTY_HANDLER = "some.handler"
    assert "application has not been notified yet" in told()
    assert "Acknowledged by the partner" in told()


def test_a_delivery_in_doubt_was_not_started_by_a_worker() -> None:
    at, who = timezone.now(), (Direction.IN, "acme", "DeliveryPolled")
    failed = Moment(at, *who, to_state="failed", detail="ledger: the lease of attempt 1 ended")
    again = Moment(at, *who, code="duplicate", detail="completed by attempt 1, not run")
    lost = Moment(at, *who, to_state="in_doubt", detail="ledger: the lease of attempt 2 ended")

    told = [sentence for _, sentence, _ in event_text.story_of([failed, again, lost])]

    assert told == [
        "The lease of a delivery attempt ended",
        "A duplicate was not delivered again",
        "An attempt did not end: whether the application has it is unknown",
    ]
