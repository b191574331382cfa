"""The list and the page of links to partners: what an operator called at night has to see."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from msh.admin.framework.markup import page_url
from msh.admin.links.counters import forecast
from msh.admin.links.link_view import variant_of
from msh.flows.operations import change_link
from msh.flows.operations.cancel import cancel
from msh.models import History, InboundLink, OutboundLink, OutboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.history import Actor
from msh.store.operations.operator_actions import open_links
from tests.admin.conftest import (
    client_of,
    late_world,
    page_of,
    suspended_world,
    table_of,
    waiting_world,
)
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

LIST = reverse("admin:msh_outboundlink_changelist")


def test_longest_suspended_links_come_first(viewer: Client) -> None:
    make_world()
    idle = make_world()
    open_links(idle.there)
    waiting, later, first = waiting_world(), suspended_world(), suspended_world()
    since = timezone.now() - timedelta(hours=3)
    OutboundLink.objects.filter(pk=first.link.pk).update(suspended_since=since)

    listed = viewer.get(LIST).context["cl"].result_list

    assert [link.partner for link in listed] == [
        first.there,
        later.there,
        waiting.there,
        idle.there,
    ]


@pytest.mark.parametrize("semantics", ["OnceAndOnlyOnce", "BestEffort"])
def test_page_of_an_idle_link_says_that_nothing_polls_its_queue(
    viewer: Client, semantics: str
) -> None:
    world = make_world()
    message = world.submit(semantics=semantics)
    assert "Nothing polls this link" not in page_of(viewer, world.link)
    hour_ago = timezone.now() - timedelta(hours=1)
    OutboundMessage.objects.filter(pk=message.pk).update(submitted_at=hour_ago)
    assert "Check that a worker is running" in page_of(viewer, world.link)


def test_list_shows_cause_time_and_blocking_message(viewer: Client) -> None:
    world = suspended_world(queued=2)

    page = viewer.get(LIST).content.decode()

    message = reverse("admin:msh_outboundmessage_change", args=[world.link.in_flight_id])
    assert "The partner refused the message permanently" in page
    assert "since <time" in page
    assert f'href="{message}"' in page
    assert "1 attempt, 0 of 3 retries used" in page
    assert "Message 1 blocks the queue." in page
    (row,) = viewer.get(LIST).context["cl"].result_list
    assert row.queued == 2


def test_the_last_error_is_verbatim_and_escaped(viewer: Client) -> None:
    world = suspended_world()

    for page in (viewer.get(LIST).content.decode(), page_of(viewer, world.link)):
        assert "415 Unsupported Media Type: no &lt;b&gt;thanks&lt;/b&gt;" in page
        assert "<b>thanks" not in page


def test_a_suspension_by_an_operator_shows_the_reason(viewer: Client) -> None:
    world = waiting_world()
    change_link.suspend(world.there, Actor("ann", "data centre moves until Monday"))

    page = viewer.get(LIST).content.decode()

    assert "Suspended by an operator" in page
    assert "data centre moves until Monday" in page


@pytest.mark.requirement("000-030")
def test_a_late_acknowledgement_says_that_it_is_safe_to_resume(viewer: Client) -> None:
    world, _ = late_world()
    world.settle()  # the Ack of what the peer had stored after all

    assert world.link.state == "suspended"
    sees = ("view_outboundlink", "view_outboundmessage", "view_incident")
    dashboard = client_of("dora", *sees).get(reverse("admin:index")).content.decode()
    for page in (viewer.get(LIST).content.decode(), page_of(viewer, world.link), dashboard):
        assert "Late acknowledgement received: safe to resume." in page


def test_the_page_shows_attempts_queue_and_history(viewer: Client) -> None:
    world = suspended_world(queued=1)
    (queued,) = world.link.messages.queued()

    page = page_of(viewer, world.link)

    assert "Attempts of the message in flight" in page
    assert reverse("admin:msh_outboundmessage_change", args=[queued.pk]) in page
    assert "The partner refused the message permanently" in page
    assert "waiting → suspended" in page
    assert "Recommended action:" in page


def test_the_head_of_a_queue_is_read_by_its_index() -> None:
    """Of a million messages, the first of 20,000 that are queued: not in the order of their ids."""
    world = suspended_world()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    head = OutboundMessage.objects.head_of_queue(world.link.pk, 1)
    assert "outbound_queue" in head.explain()
    first, _ = OutboundMessage.objects.queued().order_by("pk")
    assert list(head) == [first]


def test_a_link_is_found_by_its_partner(viewer: Client) -> None:
    world, _ = suspended_world(), suspended_world()

    found = viewer.get(LIST, {"q": world.there.name}).context["cl"].result_list

    assert [link.partner for link in found] == [world.there]


def test_links_are_filtered_by_state(viewer: Client) -> None:
    suspended_world()
    waiting = waiting_world()

    found = viewer.get(LIST, {"state__exact": "waiting"}).context["cl"].result_list

    assert [link.partner for link in found] == [waiting.there]


def badge_of(client: Client, world: World) -> str:
    link = OutboundLink.objects.get(partner=world.there)
    response = client.get(reverse("admin:msh_outboundlink_change", args=[link.pk]))
    words = strip_tags(response.context["badge"]).strip().partition(" at ")[0]
    words = words.partition(" until ")[0]
    return f"{words}, {variant_of(link)}"


def test_badge_says_what_is_waited_for(viewer: Client) -> None:
    world = make_world()
    world.submit()
    assert badge_of(viewer, world) == "idle, "
    (job,) = world.poll()
    assert badge_of(viewer, world) == "sending, info"
    world.end(job, AttemptResult(AttemptOutcome.FAILED, status=503, detail="503 down"))
    assert badge_of(viewer, world) == "waiting for the retry, warning"
    OutboundLink.objects.filter(partner=world.there).update(due=timezone.now())
    (job,) = world.poll()
    assert badge_of(viewer, world) == "sending, info"
    world.end(job)
    assert badge_of(viewer, world) == "waiting for the Acknowledgement, info"


def test_page_shows_growth_and_both_counters(viewer: Client) -> None:
    world = suspended_world(queued=2)
    open_links(world.there)
    InboundLink.objects.filter(partner=world.there).update(last_number=41)

    page = page_of(viewer, world.link)

    assert "+2 in 10 min: 3 added, 1 sent for the first time, 0 cancelled, 0 acknowledged" in page
    assert "out: number 1 in flight, then 2" in page

    queued = OutboundMessage.objects.filter(state="queued").first()
    assert queued is not None
    cancel(queued, None, Actor("ole", "wrong prices"))
    counted = "+1 in 10 min: 3 added, 1 sent for the first time, 1 cancelled, 0 acknowledged"
    assert counted in page_of(viewer, world.link)
    assert "in: last accepted 41, expecting 42" in page


def test_page_shows_the_settings_in_force(viewer: Client) -> None:
    world = waiting_world()
    world.there.probe_interval, world.there.accepts = 600, False
    world.there.save(update_fields=["probe_interval", "accepts"])

    page = page_of(viewer, world.link)

    assert "probed every 10 min" in page
    assert "Submissions are refused" in page
    assert "Timeout 60 s, Retries 3, RetryInterval 60 s" in page


def test_page_lists_agreements_and_offers_the_connection_test_if_permitted(
    administrator: Client, viewer: Client
) -> None:
    world = make_world(timeout=90, retries=2, retry_interval=60)
    open_links(world.there)

    (row,) = table_of(administrator, world.link, "Agreements").rows
    (shown,) = table_of(viewer, world.link, "Agreements").rows

    assert reverse("admin:partners_agreement_change", args=[world.agreement.pk]) in str(row[0])
    assert row[1:6] == ("OnceAndOnlyOnce", "90 s", 2, "60 s", "210 s")
    assert reverse("admin:partners_agreement_connection", args=[world.agreement.pk]) in str(row[6])
    assert shown == (*row[:6], "-")


def acknowledge_earlier(world: World) -> None:
    """One more message, two minutes ago."""
    History.objects.create(
        at=timezone.now() - timedelta(minutes=2),
        partner=world.there,
        direction="out",
        subject="message",
        message_id="m-0",
        event="AckReceived",
        from_state="in_flight",
        to_state="acknowledged",
    )


def test_page_of_a_queue_that_drains_says_when_it_is_empty(viewer: Client) -> None:
    world = make_world()
    world.submit()
    world.settle()
    assert "a minute: empty in about" not in page_of(viewer, world.link)
    assert 'hx-trigger="every 5s"' not in page_of(viewer, world.link)

    for _ in range(3):
        world.submit()

    page = page_of(viewer, world.link)
    assert "empty in about" not in page
    assert 'hx-trigger="every 5s"' in page
    acknowledge_earlier(world)
    assert "About 1 a minute: empty in about" in page_of(viewer, world.link)


def test_page_of_a_queue_that_waits_for_a_retry_does_not_say_when_it_is_empty(
    viewer: Client,
) -> None:
    world = make_world()
    world.submit()
    world.settle()
    for _ in range(3):
        world.submit()
    (job,) = world.poll()
    acknowledge_earlier(world)
    assert "empty in about" in page_of(viewer, world.link)
    world.end(job, AttemptResult(AttemptOutcome.FAILED, status=503, detail="503 maintenance"))
    page = page_of(viewer, world.link)
    assert "2 acknowledged" in page
    assert "empty in about" not in page
    assert "is not available: in maintenance or overloaded" in page


@pytest.mark.parametrize(
    ("queued", "acknowledged", "seconds", "words"),
    [
        (20_000, 600, 600, "About 60 a minute: empty in about 5 h 33 min, if no more are added"),
        (1, 6, 60, "About 6 a minute: empty in about 10 s, if no more are added"),
    ],
)
def test_forecast_goes_on_at_the_rate_so_far(
    queued: int, acknowledged: int, seconds: int, words: str
) -> None:
    assert forecast(queued, acknowledged, timedelta(seconds=seconds)) == words


def test_page_names_what_was_acknowledged_last(viewer: Client) -> None:
    world = make_world()
    first = world.submit()
    world.settle()
    assert "Last Acknowledgement</dt><dd>-</dd>" in page_of(viewer, waiting_world().link)

    page = page_of(viewer, world.link)

    link = f'<dd><a href="{page_url(first)}" class="text-link"><bdi>number 1</bdi></a>, <time'
    assert f"Last Acknowledgement</dt>{link}" in page
