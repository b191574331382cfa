"""`events`: what became of submitted messages, in a feed that neither skips nor repeats."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from msh.flows.operations.cancel import cancel
from msh.flows.operations.prune import prune_all
from msh.models import OutboundMessage, PartyEvent
from msh.protocol.reason import Refusal
from msh.store.history import Actor
from tests.admin.conftest import suspended_world
from tests.api.application import Answer, Application
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.delivery.pruning import age
from tests.flows.world import World, make_world


def told(answer: Answer) -> list[tuple[str, str]]:
    assert answer.status == 200, answer.content
    return [(one["message_id"], one["kind"]) for one in answer.json["results"]]


def acknowledged(world: World, *message_ids: str) -> None:
    for message_id in message_ids:
        world.submit(message_id=message_id)
        world.settle()


@pytest.mark.django_db
def test_event_in_the_feed(world: World, shop: Application) -> None:
    world.submit("<order/>", message_id="m-1", conversation_id="c")
    world.settle()
    (event,) = shop.get("events").json["results"]
    row = PartyEvent.objects.get()
    assert (event["position"], event["event_id"]) == (row.feed_position, str(row.event_id))
    about = {"kind": "acknowledged", "code": "", "detail": "", "message_id": "m-1"}
    about |= {"conversation_id": "c", "partner": world.there.name, "tpa_id": "tpa-1"}
    assert about.items() <= event.items()


@pytest.mark.django_db
def test_pages_of_events(world: World, shop: Application) -> None:
    acknowledged(world, *"abcde")
    found, after, more = [], 0, True
    while more:
        page = shop.get("events", limit=2, after=after)
        found += [message_id for message_id, _ in told(page)]
        after, more = page.json["next"], page.json["more"]
    assert found == list("abcde")
    acknowledged(world, "f")
    assert told(shop.get("events", after=after)) == [("f", "acknowledged")]
    assert told(shop.get("events", up_to=after, after=0))[-1] == ("e", "acknowledged")


@pytest.mark.django_db
def test_events_by_kind_partner_and_agreement(world: World, shop: Application) -> None:
    acknowledged(world, "m-1")
    other = suspended_world()
    (late,) = OutboundMessage.objects.filter(link=other.link).exclude(state="queued")
    queued = OutboundMessage.objects.filter(link=other.link, state="queued").first()
    assert queued is not None
    cancel(queued, None, Actor("ann", "wrong prices"))
    events = shop.get("events", partner=other.there.name).json["results"]
    assert [(one["kind"], one["code"]) for one in events] == [
        ("suspended", "refused_by_peer"),
        ("cancelled", "not_received"),
    ]
    assert told(shop.get("events", kind="suspended")) == [(late.message_id, "suspended")]
    assert len(told(shop.get("events", tpa_id="tpa-1"))) == 3
    assert told(shop.get("events", tpa_id="tpa-2")) == []
    assert_problem(shop.get("events", kind="married"), 400, "kind")


@pytest.mark.django_db
def test_stretches_of_events(world: World, shop: Application) -> None:
    acknowledged(world, *"abcdefg")
    positions = [one["position"] for one in shop.get("events").json["results"]]
    plan = shop.get("events/marks", every=3).json
    assert plan == {
        "marks": [positions[2], positions[5], positions[6]],
        "count": 7,
        "last": positions[6],
        "more": False,
        "removed": 0,
    }
    part = shop.get("events", after=plan["marks"][0], up_to=plan["marks"][1])
    assert [message_id for message_id, _ in told(part)] == list("def")
    named = {"service_interface": "Orders", "action": "New", "message_id": "d"}
    assert told(shop.get("events", **named)) == [("d", "acknowledged")]
    assert shop.get("events/marks", **named).json["marks"] == [positions[3]]
    assert shop.get("events/marks", **named | {"action": "Old"}).json["count"] == 0
    assert shop.get("events/marks", service_type="string").json["count"] == 0
    OutboundMessage.objects.filter(message_id="d").update(service_type="string")
    found = shop.get("events", service_type="string")
    assert told(found) == [("d", "acknowledged")]
    assert found.json["results"][0]["service_type"] == "string"


@pytest.mark.django_db
def test_positions_of_events_to_begin_at(world: World, shop: Application) -> None:
    none = {"first": None, "last": 0, "removed": 0, "before": None}
    assert shop.get("events/positions").json == none
    acknowledged(world, "a", "b", "c")
    now, hour = timezone.now(), timedelta(hours=1)
    for n, event in enumerate(PartyEvent.objects.order_by("pk")):
        PartyEvent.objects.filter(pk=event.pk).update(at=now + n * hour)
    found = shop.get("events/positions", since=(now + hour).isoformat()).json
    positions = [one["position"] for one in shop.get("events").json["results"]]
    assert (found["first"], found["last"]) == (positions[0], positions[2])
    assert told(shop.get("events", after=found["before"])) == [
        ("b", "acknowledged"),
        ("c", "acknowledged"),
    ]
    late = shop.get("events/positions", since=(now + 9 * hour).isoformat()).json
    assert late["before"] == positions[2]


@pytest.mark.django_db
def test_filter_that_few_events_pass_goes_on_by_pages(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msh.api.events.LOOKED_AT", 2)
    acknowledged(world, *"abcd")
    PartyEvent.objects.filter(message__message_id="d").update(kind="failed")
    pages, after, more = [], 0, True
    while more:
        page = shop.get("events", kind="failed", after=after)
        pages.append(told(page))
        after, more = page.json["next"], page.json["more"]
    assert [page for page in pages if page] == [[("d", "failed")]]
    assert len(pages) > 1


@pytest.mark.django_db
def test_reader_is_told_which_events_it_has_missed(world: World, shop: Application) -> None:
    """And no BestEffort message, which has no event, stops retention."""
    acknowledged(world, "a", "b")
    first = shop.get("events", limit=1).json["next"]
    world.submit(message_id="c", semantics="BestEffort")
    world.settle()
    acknowledged(world, "unread", "last")
    age()
    OutboundMessage.objects.filter(message_id="last").update(completed_at="2999-01-01T00:00Z")
    assert prune_all()["outbound messages"] == 4
    gone = shop.get("events", after=first)
    assert_problem(gone, 410)
    assert told(shop.get("events", after=gone.json["removed"])) == [("last", "acknowledged")]
    assert told(shop.get("events")) == [("last", "acknowledged")]
    assert_problem(shop.get("events", after=2**60), 409, code=Refusal.FEED_RESTORED)


@pytest.mark.django_db(transaction=True)
def test_first_event_that_commits_last_is_not_skipped(token: Tokens) -> None:
    slow_world, fast_world, shop = make_world(), make_world(), token("read")
    has_its_id, may_commit = threading.Event(), threading.Event()
    queued = slow_world.submit(message_id="slow")

    def slow() -> None:
        try:
            with transaction.atomic():
                cancel(queued, None, Actor("ann", "wrong prices"))
                has_its_id.set()
                assert may_commit.wait(20)
        finally:
            connection.close()

    thread = threading.Thread(target=slow)
    thread.start()
    assert has_its_id.wait(20)
    cancel(fast_world.submit(message_id="fast"), None, Actor("ann", "wrong prices"))
    page = shop.get("events")
    assert told(page) == [("fast", "cancelled")]
    may_commit.set()
    thread.join()
    ids = list(PartyEvent.objects.order_by("pk").values_list("message__message_id", flat=True))
    assert ids == ["slow", "fast"]
    assert told(shop.get("events", after=page.json["next"])) == [("slow", "cancelled")]


@pytest.mark.django_db(transaction=True)
def test_event_that_its_handler_holds_is_neither_waited_for_nor_overtaken(token: Tokens) -> None:
    """A handler may take as long as its lease: the feed goes on, but not with what follows it."""
    world, shop = make_world(), token("read")
    acknowledged(world, "held")
    (held,) = PartyEvent.objects.all()
    PartyEvent.objects.filter(pk=held.pk).update(kind="delayed")
    PartyEvent.objects.create(message=held.message, kind="acknowledged", at=held.at, due=held.due)
    acknowledged(world, "other")

    def read(**query: Any) -> Any:
        try:
            return shop.get("events", **query)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            PartyEvent.objects.select_for_update().get(pk=held.pk)
            page = threads.submit(read).result(timeout=30)
        assert told(page) == [("other", "acknowledged")]
        rest = threads.submit(read, after=page.json["next"]).result(timeout=30)
    assert told(rest) == [("held", "delayed"), ("held", "acknowledged")]
