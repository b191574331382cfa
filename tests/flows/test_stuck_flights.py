"""A backlog without numbers that makes no way: one condition at a time."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone
from pytest_django.fixtures import Settings

from msh.flows.operations import watch
from msh.models import Attempt, Flight, History, Incident, OutboundLink, OutboundMessage
from msh.statistics.models import Statistics, StatisticsProgress
from msh.statistics.store.collect import collect
from msh.store.operations.stuck_flights import find_unmoved_flights
from tests.sql import without_triggers

from .costs import cost_of, multiply, statements_of
from .flying import REFUSED, Sky, make_sky
from .watch.watching import LONG_AGO

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def stuck(limit: int = 50) -> list[int]:
    return [one.partner_id for one in find_unmoved_flights(HOUR, limit)]


def age(sky: Sky, by: timedelta = LONG_AGO) -> None:
    """All of it was submitted, and sent for the first time, so long ago."""
    of_link = OutboundMessage.objects.filter(link=sky.link)
    of_link.update(submitted_at=F("submitted_at") - by)
    of_link.exclude(completed_at=None).update(completed_at=F("completed_at") - by)
    Attempt.objects.filter(message__link=sky.link).update(claimed_at=F("claimed_at") - by)
    with without_triggers("msh_history"):
        History.objects.filter(partner=sky.partner).update(at=F("at") - by)


def queue(number: int = 1, **settings: Any) -> Sky:
    sky = make_sky(**settings)
    for _ in range(number):
        sky.submit()
    age(sky)
    return sky


def test_a_queue_of_which_nothing_is_sent_is_stuck() -> None:
    sky = queue()
    young = make_sky()
    young.submit()
    assert stuck() == [sky.partner.pk]
    sky.poll()
    assert stuck() == [], "it was sent a moment ago"


def test_messages_under_way_without_answer_are_stuck() -> None:
    sky = queue()
    sky.poll()
    age(sky)
    (found,) = find_unmoved_flights(HOUR, 50)
    assert (found.partner_id, found.under_way) == (sky.partner.pk, 1)


def test_a_link_moves_while_any_of_its_messages_starts() -> None:
    """However long others are tried, and wait."""
    sky = queue(3, window=2)
    sky.poll()
    age(sky)
    assert stuck() == [sky.partner.pk]
    first = OutboundMessage.objects.filter(link=sky.link).earliest("pk")
    sky.poll()
    assert stuck() == [sky.partner.pk], "nothing else has started: all places are taken"
    sky.answer(first)
    assert stuck() == [], "one was acknowledged a moment ago"
    age(sky)
    assert stuck() == [sky.partner.pk]
    sky.poll()
    assert stuck() == [], "the next was sent a moment ago"


def test_a_link_moves_while_one_message_is_tried_and_others_are_acknowledged() -> None:
    """At a moment at which nothing else is under way, and nothing waits."""
    sky = queue(window=2)
    sky.poll()
    age(sky)
    other = sky.submit()
    sky.poll()
    sky.answer(OutboundMessage.objects.get(pk=other.pk))
    assert stuck() == []
    age(sky)
    assert stuck() == [sky.partner.pk]


def test_a_long_queue_of_which_nothing_is_under_way_at_this_moment_moves() -> None:
    sky = queue(2, window=1)
    sky.poll()
    first = OutboundMessage.objects.filter(link=sky.link).earliest("pk")
    sky.answer(first)
    assert stuck() == []
    age(sky)
    assert stuck() == [sky.partner.pk]
    acknowledged = {"direction": "out", "subject": "message", "to_state": "acknowledged"}
    History.objects.create(partner=make_sky().partner, event="AckReceived", **acknowledged)
    assert stuck() == [sky.partner.pk], "what another partner acknowledges moves nothing here"


@pytest.mark.parametrize(("minutes", "is_stuck"), [(30, False), (75, True)])
def test_what_is_counted_is_not_read_again(minutes: int, is_stuck: bool) -> None:
    sky, other = queue(), make_sky()
    last = note_acknowledgment(sky, minutes)
    assert stuck() == ([sky.partner.pk] if is_stuck else [])

    progress = {"next_history_id": last.pk, "next_at": timezone.now(), "fence": 0}
    StatisticsProgress.objects.create(pk=1, **progress)
    collect()
    assert StatisticsProgress.objects.get().history_id == last.pk
    assert stuck() == ([sky.partner.pk] if is_stuck else [])
    Statistics.objects.update(last_acknowledged_at=None)
    assert stuck() == [sky.partner.pk]

    note_acknowledgment(other, 1)
    assert stuck() == [sky.partner.pk]
    note_acknowledgment(sky, 1)
    assert stuck() == []


def test_what_is_counted_of_another_partner_hides_nothing() -> None:
    """The whole MSH has a row too."""
    sky, other = queue(), make_sky()
    last = note_acknowledgment(other, 1)
    progress = {"next_history_id": last.pk, "next_at": timezone.now(), "fence": 0}
    StatisticsProgress.objects.create(pk=1, **progress)
    collect()
    assert Statistics.objects.filter(partner=None).exists()
    assert stuck() == [sky.partner.pk]


def test_the_last_acknowledgment_is_counted_in_its_day() -> None:
    sky = queue()
    days = Statistics.objects.filter(partner=sky.partner, unit="day")
    for minutes in (40, 20, 30):
        row = note_acknowledgment(sky, minutes)
        bounds = {"next_history_id": row.pk, "next_at": timezone.now(), "fence": 0}
        StatisticsProgress.objects.update_or_create(pk=1, defaults=bounds)
        collect()
    newest = History.objects.filter(partner=sky.partner, to_state="acknowledged").latest("at")
    assert days.latest("begins").last_acknowledged_at == newest.at


def note_acknowledgment(sky: Sky, minutes: int) -> History:
    at = timezone.now() - timedelta(minutes=minutes)
    what = {"direction": "out", "subject": "message", "to_state": "acknowledged"}
    return History.objects.create(partner=sky.partner, event="AckReceived", at=at, **what)


def test_a_long_history_that_is_counted_is_not_read() -> None:
    sky = queue()
    row = note_acknowledgment(make_sky(), 30)

    def cost_of_search() -> int:
        (call,) = statements_of(lambda: find_unmoved_flights(HOUR, 50))
        return cost_of(call)

    before = cost_of_search()
    multiply(row, 3_000)
    last = History.objects.latest("pk")
    StatisticsProgress.objects.create(pk=1, history_id=last.pk, up_to=timezone.now())
    assert stuck() == [sky.partner.pk]
    assert cost_of_search() < before + 100


@pytest.mark.parametrize("counts", [True, False])
def test_history_before_the_limit_is_not_read_if_nothing_counts_it(counts: bool) -> None:
    sky = queue()
    row = note_acknowledgment(make_sky(), 60 * 24 * 10)
    multiply(row, 20_000)
    if counts:
        StatisticsProgress.objects.create(pk=1, history_id=0, up_to=row.at)
    with connection.cursor() as cursor:
        cursor.execute("SELECT brin_summarize_new_values('history_at')")
    assert stuck() == [sky.partner.pk]
    (call,) = statements_of(lambda: find_unmoved_flights(HOUR, 50))
    assert cost_of(call) < 20_000  # 40,000 if all is read
    note_acknowledgment(sky, 30)
    assert stuck() == []


def test_held_messages_and_no_message_are_no_work() -> None:
    queue()
    held = {"state": "held", "due": None, "under_way": False, "held_for": "operator"}
    Flight.objects.update(**held)
    make_sky()
    assert stuck() == []


@pytest.mark.parametrize("found", [False, True])
def test_the_next_of_a_conversation_in_order_is_work(found: bool) -> None:
    """Also before a worker has found its conversation."""
    sky = make_sky(ordered=True)
    if found:
        first = sky.submit(conversation_id="talk")
        sky.poll()
        sky.answer(first)
    sky.submit(conversation_id="talk")
    age(sky)
    assert stuck() == [sky.partner.pk]


def test_a_conversation_that_stands_still_has_its_incident() -> None:
    sky = make_sky(ordered=True)
    sky.submit(conversation_id="talk")
    _, job = sky.start(conversation_id="talk")
    sky.end(job, REFUSED)
    age(sky)
    assert "conversation_stopped" in sky.incidents()
    assert stuck() == []


@pytest.mark.parametrize(("why", "is_stuck"), [("partner_unreachable", False), ("operator", True)])
def test_a_suspended_link_is_stuck_only_if_an_operator_has_forgotten_it(
    why: str, is_stuck: bool
) -> None:
    sky = queue()
    suspended = {"state": "suspended", "suspended_for": why, "suspended_since": timezone.now()}
    OutboundLink.objects.filter(partner=sky.partner).update(**suspended)
    assert stuck() == ([sky.partner.pk] if is_stuck else [])


def test_what_an_operator_does_to_the_link_moves_it() -> None:
    sky = queue()
    event = {"partner": sky.partner, "direction": "out", "subject": "link", "actor": "ann"}
    History.objects.create(at=timezone.now(), event="Something", **event)
    assert stuck() == []


def test_longest_stuck_link_is_found_first() -> None:
    skies = [queue() for _ in range(3)]
    age(skies[1])
    assert stuck(limit=2)[0] == skies[1].partner.pk
    assert len(stuck(limit=2)) == 2


def test_operators_are_called_for_it(settings: Settings) -> None:
    settings.MSH_STUCK_AFTER = 3600
    flies = queue(2)
    flies.poll()
    age(flies)
    waits = queue()
    assert watch.find_stuck() == 2
    details = dict(Incident.objects.filter(kind="stuck").values_list("partner", "detail"))
    assert details[waits.partner.pk].endswith(": messages are queued, but none is in flight")
    assert details[flies.partner.pk].endswith(": 2 messages are under way and not acknowledged")
    assert watch.find_stuck() == 2
    assert Incident.objects.count() == 2
