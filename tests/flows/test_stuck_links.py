"""Which links somebody should look after, and since when: one condition at a time."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django.fixtures import Settings

from msh.flows.operations import watch
from msh.models import History, Incident, OutboundLink, OutboundMessage, Signal
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.operations.stuck_links import find_pending, find_unmoved, lock_probes
from partners.models import Partner
from tests.sessions import in_another_session

from .recovering import suspend
from .watch.watching import LONG_AGO, age_history
from .world import World, make_world

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOW = timezone.now()
LONG = NOW - LONG_AGO
BEST_EFFORT = DeliverySemantics.BEST_EFFORT

# --- silent partners ------------------------------------------------------------------------------


def silent(**of_link: Any) -> int:
    """A partner that is to be probed every day, and was suspended for its silence two days ago."""
    world = make_world()
    Partner.objects.filter(pk=world.there.pk).update(probe_interval=86_400)
    world.submit()
    world.poll()
    OutboundLink.objects.filter(partner=world.there).update(
        **{"state": "suspended", "suspended_for": "retries_spent", "suspended_since": LONG}
        | {"due": None, "unsent": False}
        | of_link
    )
    return world.there.pk


@pytest.mark.parametrize(
    ("of_link", "probed"),
    [
        ({}, True),
        ({"suspended_for": "transient_limit"}, True),
        ({"suspended_for": "operator"}, False),
        ({"suspended_for": "error_received"}, False),
        ({"in_flight": None}, False),
        ({"suspended_since": NOW - HOUR}, False),
        ({"suspended_since": NOW - DAY - HOUR}, True),
    ],
)
def test_only_a_link_that_is_silent_takes_a_place_among_probes(
    of_link: dict[str, Any], probed: bool
) -> None:
    """Others could be so many that none is left."""
    partner_id = silent(**of_link)
    assert lock_probes(50) == ([partner_id] if probed else [])
    Partner.objects.update(probe_interval=0)
    assert lock_probes(50) == []


def test_longest_silent_partner_is_probed_first() -> None:
    later, first = silent(suspended_since=LONG + HOUR), silent()
    assert lock_probes(1) == [first]
    assert lock_probes(50) == [first, later]


@pytest.mark.django_db(transaction=True)
def test_a_link_that_another_session_holds_is_probed_the_next_time() -> None:
    partner_id = silent()
    with transaction.atomic():
        OutboundLink.objects.select_for_update(no_key=True).get(partner=partner_id)
        assert in_another_session(watch.probe) == 0
    assert watch.probe() == 1


# --- links with work ------------------------------------------------------------------------------


def stuck(limit: int = 50) -> list[int]:
    return [one.partner_id for one in find_unmoved(DAY, limit)]


def queue(world: World, *ages: timedelta, **options: Any) -> list[OutboundMessage]:
    messages = [world.submit(**options) for _ in ages]
    for message, age in zip(messages, ages, strict=True):
        OutboundMessage.objects.filter(pk=message.pk).update(submitted_at=NOW - age)
    return messages


def happened(world: World, at: Any = NOW, **values: Any) -> None:
    """An operator's act on the link to the partner, if nothing else is said."""
    given = {"partner": world.there, "direction": "out", "subject": "link", "actor": "ann"}
    History.objects.create(at=at, event="Something", **(given | values))


@pytest.mark.parametrize(
    ("values", "moves"),
    [
        ({}, True),
        ({"actor": "msh", "from_state": "suspended"}, True),
        ({"actor": "msh", "from_state": "transient"}, False),
        ({"partner": "here"}, False),
        ({"direction": "in"}, False),
        ({"subject": "message"}, False),
        ({"at": LONG}, False),
    ],
)
def test_history_of_a_link_counts_as_movement(
    world: World, values: dict[str, Any], moves: bool
) -> None:
    queue(world, LONG_AGO)
    happened(world, at=LONG)
    if "partner" in values:
        values = {"partner": world.here}
    happened(world, **values)
    assert stuck() == ([] if moves else [world.there.pk])


@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_the_oldest_of_a_queue_says_since_when_it_waits(semantics: DeliverySemantics) -> None:
    world, other = make_world(), make_world()
    old, _ = queue(world, LONG_AGO, timedelta(0), semantics=semantics)
    queue(other, timedelta(0), semantics=semantics)
    assert stuck() == [world.there.pk]
    ended = "sent" if semantics is BEST_EFFORT else "cancelled"
    OutboundMessage.objects.filter(pk=old.pk).update(state=ended)
    assert stuck() == []


def test_best_effort_messages_move_while_the_oldest_is_under_way(world: World) -> None:
    first, _ = queue(world, LONG_AGO, LONG_AGO, semantics=BEST_EFFORT)
    OutboundMessage.objects.filter(pk=first.pk).update(state="in_flight", due=NOW)
    assert stuck() == []
    queue(world, LONG_AGO)
    assert stuck() == [world.there.pk], "its own queue does not"


def test_a_message_in_flight_is_work_whatever_is_queued_behind_it(world: World) -> None:
    queue(world, LONG_AGO)
    world.poll()
    queue(world, timedelta(0))
    assert stuck() == [world.there.pk]
    happened(world)
    assert stuck() == []


@pytest.mark.parametrize("about", ["the one before", "another link", "an earlier run"])
@pytest.mark.parametrize("in_flight", [True, False])
def test_the_ack_of_the_one_before_moves_a_link(world: World, about: str, in_flight: bool) -> None:
    acknowledged = world if about != "another link" else make_world()
    for one in {id(world): world, id(acknowledged): acknowledged}.values():
        queue(one, LONG_AGO)
        one.settle()
    age_history(world)
    messages = OutboundMessage.objects.all()
    messages.exclude(link__partner=acknowledged.there).update(completed_at=LONG)
    if about == "an earlier run":
        OutboundLink.objects.filter(partner=world.there).update(epoch=2)
    queue(world, LONG_AGO)
    if in_flight:
        world.poll()
    assert stuck() == ([] if about == "the one before" else [world.there.pk])


def test_a_suspended_link_is_stuck_only_if_an_operator_has_forgotten_it(world: World) -> None:
    queue(world, LONG_AGO)
    suspended = {"state": "suspended", "suspended_since": LONG, "suspended_for": "retries_spent"}
    OutboundLink.objects.filter(partner=world.there).update(**suspended)
    assert stuck() == []
    OutboundLink.objects.update(suspended_for="operator")
    assert stuck() == [world.there.pk]


def test_longest_stuck_link_is_found_first() -> None:
    worlds = [make_world() for _ in range(3)]
    for world, days in zip(worlds, (2, 4, 3), strict=True):
        queue(world, days * DAY)
    assert stuck(limit=2) == [worlds[1].there.pk, worlds[2].there.pk]


# --- rewound messages -----------------------------------------------------------------------------


def rewound(world: World) -> list[OutboundMessage]:
    """All that was sent is to be sent again."""
    messages = queue(world, LONG_AGO, LONG_AGO)
    world.settle()
    of_link = OutboundMessage.objects.filter(link=world.link)
    of_link.update(state="rewound", completed_at=None)
    return messages


def test_rewound_messages_make_a_forgotten_link_stuck(
    settings: Settings,
) -> None:
    settings.MSH_STUCK_AFTER = 3600
    world = make_world()
    rewound(world)
    suspend(world)
    assert watch.find_stuck() == 0
    age_history(world)
    assert watch.find_stuck() == 1
    assert Incident.objects.get().detail.endswith("suspended by an operator")


def test_a_rewound_message_waits_since_the_ack_of_the_one_before_it() -> None:
    world, other = make_world(), make_world()
    first, _ = rewound(world)
    queue(other, timedelta(0))
    age_history(world)
    of_first = OutboundMessage.objects.filter(pk=first.pk)
    of_first.update(state="acknowledged", completed_at=NOW)
    assert stuck() == []
    of_first.update(completed_at=LONG)
    assert stuck() == [world.there.pk]


def test_the_next_of_the_rewound_messages_is_that_of_the_lowest_number(world: World) -> None:
    first, second = rewound(world)
    age_history(world)
    for message, number in ((first, 20), (second, 10)):
        OutboundMessage.objects.filter(pk=message.pk).update(sequence_number=number)
    OutboundMessage.objects.filter(pk=first.pk).update(submitted_at=NOW)
    assert stuck() == [world.there.pk]


# --- what a partner does not take -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "is_stuck"),
    [({}, True), ({"pending": 0}, False), ({"tries": 59}, False), ({"first_at": NOW + DAY}, False)],
)
def test_a_signal_that_is_tried_for_long_is_stuck(
    world: World, values: dict[str, Any], is_stuck: bool
) -> None:
    _, job = world.start()
    world.hand_over(job)
    Signal.objects.update(**({"first_at": LONG, "tries": 60} | values))
    assert list(find_pending(HOUR, 50)) == ([world.here.pk] if is_stuck else [])
    happened(world, partner=world.here, direction="in")
    assert list(find_pending(HOUR, 50)) == []


def test_oldest_untransmitted_signal_is_reported(world: World) -> None:
    for _ in range(2):
        world.submit()
        world.settle()
    for number, signal in enumerate(Signal.objects.order_by("-pk")):
        since = LONG + number * HOUR
        Signal.objects.filter(pk=signal.pk).update(pending=1, tries=60, first_at=since)
    assert [one.since for one in find_pending(HOUR, 50).values()] == [LONG]
