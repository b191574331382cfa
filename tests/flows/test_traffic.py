"""What is counted of each minute."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from msh.models import Attempt, History, Traffic
from msh.store.operations.traffic import count_traffic

from .costs import statements_of
from .world import World, make_world

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 5, 20, 12, 0, 0, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
SENT = {"direction": "out", "event": "AckReceived", "to_state": "acknowledged"}
ARRIVED = {"direction": "in", "event": "MessageArrived", "to_state": "accepted"}
COPY = {"direction": "in", "event": "DuplicateArrived", "to_state": ""}


@pytest.fixture
def world() -> World:
    return make_world()


def happened(world: World, at: datetime, what: dict[str, str], **values: Any) -> None:
    given = {"subject": "message", "message_id": "m-1"} | what | values
    History.objects.create(at=at, partner=world.there, **given)


def minutes() -> list[tuple[int, ...]]:
    """Sent, received, retries, duplicates of each minute that is counted."""
    rows = Traffic.objects.order_by("minute")
    return list(rows.values_list("sent", "received", "retries", "duplicates"))


@pytest.mark.parametrize(
    ("what", "counts"),
    [
        (SENT, (1, 0, 0, 0)),
        (ARRIVED, (0, 1, 0, 0)),
        (COPY, (0, 0, 0, 1)),
        (COPY | {"times": 7}, (0, 0, 0, 7)),
        (SENT | {"direction": "in"}, (0, 0, 0, 0)),
        (SENT | {"to_state": "cancelled"}, (0, 0, 0, 0)),
        (ARRIVED | {"to_state": ""}, (0, 0, 0, 0)),
        (ARRIVED | {"event": "Note"}, (0, 0, 0, 0)),
        (ARRIVED | {"direction": "out"}, (0, 0, 0, 0)),
        (COPY | {"subject": "link"}, None),
    ],
)
def test_one_thing_counts_as_what_it_is(
    world: World, what: dict[str, Any], counts: tuple[int, ...] | None
) -> None:
    happened(world, NOON, what)
    count_traffic(NOON + SECOND)
    assert minutes() == ([] if counts is None else [counts])


def test_copies_after_the_first_are_retries(world: World) -> None:
    message = world.submit()
    for number in (1, 2, 3):
        Attempt.objects.create(message=message, number=number, claimed_at=NOON)
    count_traffic(NOON + SECOND)
    assert minutes() == [(0, 0, 2, 0)]


def test_minute_is_recounted_until_the_next_one_ends(world: World) -> None:
    """Rows of a transaction that committed late are taken in, and nothing is counted twice."""
    for what in (SENT, ARRIVED, COPY):
        happened(world, NOON, what)
    happened(world, NOON + MINUTE, SENT)
    count_traffic(NOON + MINUTE + SECOND)
    assert minutes() == [(1, 1, 0, 1), (1, 0, 0, 0)]

    for what in (SENT, ARRIVED, COPY):
        happened(world, NOON + SECOND, what)
    for _ in range(2):
        count_traffic(NOON + MINUTE + 2 * SECOND)

    assert minutes() == [(2, 2, 0, 2), (1, 0, 0, 0)]


def test_missed_minutes_are_counted_hour_by_hour(world: World) -> None:
    for hours in (1, 2, 3):
        happened(world, NOON + timedelta(hours=hours, minutes=30), SENT)
    happened(world, NOON + timedelta(hours=1), ARRIVED)
    happened(world, NOON, SENT)
    count_traffic(NOON + SECOND)
    count_traffic(NOON + timedelta(hours=4))
    assert minutes() == [(1, 0, 0, 0), (0, 1, 0, 0), *[(1, 0, 0, 0)] * 3]


def test_minutes_are_kept_for_eight_days(world: World) -> None:
    for days in (0, 2, 9):
        happened(world, NOON + timedelta(days=days), SENT)
        count_traffic(NOON + timedelta(days=days, seconds=1))
    kept = Traffic.objects.order_by("minute").values_list("minute", flat=True)
    assert list(kept) == [NOON + timedelta(days=days) for days in (2, 9)]


def test_days_without_messages_are_not_counted_hour_by_hour(world: World) -> None:
    happened(world, NOON, SENT)
    count_traffic(NOON + SECOND)
    assert len(statements_of(lambda: count_traffic(NOON + timedelta(days=5)))) < 5
    assert minutes() == [(1, 0, 0, 0)]
