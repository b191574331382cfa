"""`inbound`: a feed that neither skips nor repeats, whatever order its messages commit in."""

import base64
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from msh.api import inbound
from msh.flows.delivery import feed
from msh.models import InboundLink, InboundMessage, InboundPayload
from msh.store.delivery.feed import LOCK_SPACE, list_in_feed
from tests.api.application import Answer, Application
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.flows.world import World, make_world
from tests.waiting import wait_until


def accept(world: World, message_id: str, *contents: bytes) -> InboundMessage:
    """A message as the Receiver keeps it."""
    link, _ = InboundLink.objects.get_or_create(partner=world.here)
    now = timezone.now()
    message = InboundMessage.objects.create(
        link=link,
        agreement=world.here.agreements.get(),
        message_id=message_id,
        semantics="BestEffort",
        conversation_id=message_id,
        service_interface="Orders",
        action="New",
        sent_at=now,
        received_at=now,
        content_digest=b"",
        header=b"",
    )
    for position, content in enumerate(contents, start=1):
        InboundPayload.objects.create(
            message=message,
            position=position,
            content_type="application/xml",
            content_id=f"{position}@x",
            label="order.xml",
            content=content,
        )
    return message


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.content
    return [message["message_id"] for message in answer.json["results"]]


# --- what it tells ------------------------------------------------------------------------------
@pytest.mark.django_db
def test_message_in_the_feed(world: World, shop: Application) -> None:
    world.submit("<order/>", message_id="m-1", conversation_id="c")
    world.settle()
    (message,) = shop.get("inbound").json["results"]
    row = InboundMessage.objects.get()
    assert message["position"] == row.feed_position
    assert (message["id"], message["message_id"], message["state"]) == (row.pk, "m-1", "accepted")
    assert (message["partner"], message["tpa_id"]) == (world.here.name, "tpa-1")
    assert (message["sequence_number"], message["epoch"], message["size"]) == (1, 1, 8)
    (payload,) = message["payloads"]
    assert payload == {
        "number": 1,
        "content_type": "application/xml",
        "label": "order.xml",
        "description": "",
        "size": 8,
    }
    assert shop.get(f"inbound/{row.pk}/payloads/1").content == b"<order/>"
    assert_problem(shop.get(f"inbound/{row.pk}/payloads/2"), 404)
    assert_problem(shop.get(f"inbound/{2**70}/payloads/{2**70}"), 404)


@pytest.mark.django_db
def test_pages_of_the_feed(world: World, shop: Application) -> None:
    for name in "abcde":
        accept(world, name)
    first = shop.get("inbound", limit=2)
    second = shop.get("inbound", limit=2, after=first.json["next"])
    third = shop.get("inbound", limit=2, after=second.json["next"])
    end = shop.get("inbound", limit=2, after=third.json["next"])
    assert [ids(page) for page in (first, second, third, end)] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
        [],
    ]
    assert end.json["next"] == third.json["next"]
    accept(world, "f")
    assert ids(shop.get("inbound", after=end.json["next"])) == ["f"]
    assert ids(shop.get("inbound")) == list("abcdef"), "from the beginning, the same order"


@pytest.mark.django_db
def test_content_comes_where_it_is_asked_for(world: World, shop: Application) -> None:
    accept(world, "a", b"\xff1", b"2")
    accept(world, "b")
    first, second = shop.get("inbound", payloads="true").json["results"]
    contents = [base64.b64decode(one["content_base64"]) for one in first["payloads"]]
    assert contents == [b"\xff1", b"2"]
    assert second["payloads"] == []


@pytest.mark.django_db
def test_content_needs_its_scope(world: World, token: Tokens) -> None:
    assert_problem(token("read").get("inbound", payloads="true"), 403, "read_payload")


@pytest.mark.django_db
def test_page_with_much_content_ends_early(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound, "CONTENT_LIMIT", 10)
    for name, size in (("a", 4), ("b", 6), ("c", 1), ("d", 99), ("e", 1)):
        accept(world, name, b"x" * size)
    found, after = [], 0
    while True:
        answer = shop.get("inbound", payloads="true", after=after)
        if not ids(answer):
            break
        found.append(ids(answer))
        after = answer.json["next"]
    assert found == [["a", "b"], ["c"], ["d"], ["e"]]
    assert ids(shop.get("inbound")) == list("abcde")


@pytest.mark.django_db
@pytest.mark.parametrize("query", [{"after": "x"}, {"payloads": "maybe"}, {"from": 1}])
def test_parameter_that_is_wrong(shop: Application, query: dict[str, Any]) -> None:
    assert_problem(shop.get("inbound", **query), 400, next(iter(query)))


@pytest.mark.django_db
@pytest.mark.parametrize("rows", [1, 3])
def test_page_takes_so_many_queries(
    world: World, shop: Application, django_assert_num_queries: Any, rows: int
) -> None:
    for n in range(rows):
        accept(world, f"m-{n}", b"x")
    shop.get("inbound")
    with django_assert_num_queries(5):  # savepoints, page, payloads, their content
        assert len(ids(shop.get("inbound", payloads="true"))) == rows


@pytest.mark.django_db
def test_clock_that_went_back(world: World) -> None:
    """After a restore, or on a machine whose clock was wrong, the order is kept."""
    accept(world, "a")
    ahead = 2**60
    feed.page(0, 10)
    InboundMessage.objects.update(feed_position=ahead)
    accept(world, "b")
    assert [m.feed_position for m in feed.page(0, 10)] == [ahead, ahead + 1]


@pytest.mark.django_db
def test_feed_behind_a_position_that_was_read_is_said(world: World, shop: Application) -> None:
    """Case 45: restored, on a machine whose clock was set back. Whoever waits behind the position
    would miss what comes until the clock has passed it."""
    accept(world, "before")
    read = shop.get("inbound").json["next"]
    assert shop.get("inbound", after=read).json == {"results": [], "next": read}
    ahead = read + 3_600_000_000  # an hour of the clock

    answer = shop.get("inbound", after=ahead)

    assert answer.status == 409
    assert f"behind position {ahead}" in answer.json["detail"]
    accept(world, "after")
    assert ids(shop.get("inbound", after=read)) == ["after"]


# --- under concurrent commits -------------------------------------------------------------------
def in_thread(act: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        try:
            act()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.requirement("001-11")
@pytest.mark.django_db(transaction=True)
def test_first_id_that_commits_last_is_not_skipped(token: Tokens) -> None:
    world, shop = make_world(), token("read")
    accept(world, "a")
    has_its_id, may_commit = threading.Event(), threading.Event()

    def slow() -> None:
        with transaction.atomic():
            accept(world, "slow")
            has_its_id.set()
            assert may_commit.wait(20)

    thread = in_thread(slow)
    assert has_its_id.wait(20)
    accept(world, "fast")
    page = shop.get("inbound")
    assert ids(page) == ["a", "fast"]
    may_commit.set()
    thread.join()
    slow_id, fast_id = (InboundMessage.objects.get(message_id=n).pk for n in ("slow", "fast"))
    assert slow_id < fast_id
    assert ids(shop.get("inbound", after=page.json["next"])) == ["slow"]


@pytest.mark.django_db(transaction=True)
def test_readers_and_writers_all_at_once() -> None:
    """Two readers follow while four pairs accept: each reads everything once, pairs in order."""
    worlds = [make_world() for _ in range(4)]
    for world in worlds:
        InboundLink.objects.create(partner=world.here)
    ended = threading.Event()

    def write(world: World) -> None:
        for n in range(25):
            with transaction.atomic():
                InboundLink.objects.select_for_update(no_key=True).get(partner=world.here)
                accept(world, f"{n:03}")
        connection.close()

    def read(_: int) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        after = 0
        while True:
            last = ended.is_set()
            page = list(feed.page(after, 7))
            found += [(message.link_id, message.message_id) for message in page]
            if page:
                after = page[-1].feed_position or 0
            elif last:
                connection.close()
                return found

    with ThreadPoolExecutor(6) as threads:
        readers = [threads.submit(read, n) for n in range(2)]
        for writer in [threads.submit(write, world) for world in worlds]:
            writer.result()
        ended.set()
        found = [reader.result() for reader in readers]
    assert found[0] == found[1]
    names = [f"{n:03}" for n in range(25)]
    by_pair = itertools.groupby(sorted(found[0], key=lambda one: one[0]), key=lambda one: one[0])
    assert [[name for _, name in pair] for _, pair in by_pair] == [names] * 4


@pytest.mark.django_db(transaction=True)
def test_reader_sees_what_another_was_just_listing() -> None:
    """An empty page says that there was nothing: not that somebody else was at it."""
    world = make_world()
    accept(world, "a")

    def read() -> list[str]:
        try:
            return [message.message_id for message in feed.page(0, 10)]
        finally:
            connection.close()

    def somebody_waits() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            return bool(cursor.fetchone()[0])

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [LOCK_SPACE])
            page = threads.submit(read)
            wait_until(somebody_waits, what="a reader that waits")
            assert not page.done()
            list_in_feed(10)
        assert page.result() == ["a"]
