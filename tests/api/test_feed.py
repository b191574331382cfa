"""`inbound`: a feed that neither skips nor repeats, whatever order its messages commit in."""

import base64
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from msh.api import deliveries, inbound
from msh.flows.delivery import feed
from msh.flows.operations.prune import prune_all
from msh.models import (
    ConsumerKind,
    InboundLink,
    InboundMessage,
    InboundPayload,
    RemovedInboundPayload,
)
from msh.protocol.reason import Refusal
from msh.store.delivery.feed import INBOUND, LOCK_SPACE
from tests.api.application import Answer, Application
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.delivery.desk import consumer
from tests.flows.feed_pages import read_page
from tests.flows.world import World, make_world
from tests.waiting import wait_until

HOUR, DAY, WEEK, YEARS = (timedelta(hours=h) for h in (1, 24, 7 * 24, 3 * 365 * 24))
PAYLOADS_KEPT = timedelta(days=120)
FIELDS = InboundMessage._meta.fields


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
        "sha256": sha256(b"<order/>").hexdigest(),
        "removed": False,
    }
    assert shop.get(f"inbound/{row.pk}/payloads/1").content == b"<order/>"
    assert_problem(shop.get(f"inbound/{row.pk}/payloads/2"), 404, "has no payload 2")
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
    more = True
    while more:
        answer = shop.get("inbound", payloads="true", after=after)
        found.append(ids(answer))
        after, more = answer.json["next"], answer.json["more"]
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
    with django_assert_num_queries(4):  # savepoints, page, content of payloads
        assert len(ids(shop.get("inbound", payloads="true"))) == rows


@pytest.mark.django_db
def test_clock_that_went_back(world: World) -> None:
    """After a restore, or on a machine whose clock was wrong, the order is kept."""
    accept(world, "a")
    ahead = 2**60
    read_page(0, 10)
    InboundMessage.objects.update(feed_position=ahead)
    accept(world, "b")
    assert [m.feed_position for m in read_page(0, 10)] == [ahead, ahead + 1]


@pytest.mark.django_db
def test_feed_behind_a_position_that_was_read_is_said(world: World, shop: Application) -> None:
    """Case 45: restored, on a machine whose clock was set back. Whoever waits behind the position
    would miss what comes until the clock has passed it."""
    accept(world, "before")
    read = shop.get("inbound").json["next"]
    assert shop.get("inbound", after=read).json == {"results": [], "next": read, "more": False}
    ahead = read + 3_600_000_000  # an hour of the clock

    answer = shop.get("inbound", after=ahead)

    assert_problem(answer, 409, f"behind position {ahead}", code=Refusal.FEED_RESTORED)
    accept(world, "after")
    assert ids(shop.get("inbound", after=read)) == ["after"]


@pytest.mark.django_db
def test_last_position_that_was_read_is_lost_by_a_restore(world: World, shop: Application) -> None:
    """On a host whose clock is right: what comes has higher positions than what is lost, but some
    of it came before the reader asked again."""
    accept(world, "before")
    kept = shop.get("inbound").json["next"]
    lost = accept(world, "lost")
    read = shop.get("inbound", after=kept, seen=kept).json["next"]
    assert shop.get("inbound", after=read, seen=read).json["results"] == []
    InboundMessage.objects.filter(pk=lost.pk).delete()
    accept(world, "after")

    assert ids(shop.get("inbound", after=kept, seen=kept)) == ["after"]
    for path in ("inbound", "inbound/marks"):
        answer = shop.get(path, after=read, seen=read)
        assert_problem(answer, 409, f"position {read}", code=Refusal.FEED_RESTORED)


# --- a part of it ---------------------------------------------------------------------------------
@pytest.mark.django_db
def test_stretch_ends_where_it_is_asked_to(world: World, shop: Application) -> None:
    for name in "abcd":
        accept(world, name)
    positions = [one["position"] for one in shop.get("inbound").json["results"]]
    accept(world, "later")
    answer = shop.get("inbound", after=positions[0], up_to=positions[2])
    assert ids(answer) == ["b", "c"]
    assert (answer.json["next"], answer.json["more"]) == (positions[2], False)
    assert InboundMessage.objects.get(message_id="later").feed_position is None, "nothing is listed"
    answer = shop.get("inbound", after=positions[0], up_to=positions[2], limit=1)
    assert (answer.json["next"], answer.json["more"]) == (positions[1], True)
    assert ids(shop.get("inbound", up_to=2**63 - 1)) == [*"abcd", "later"]


_FILTERS = {
    "partner": "",
    "tpa_id": "tpa-1",
    "service_interface": "Returns",
    "service_type": "string",
    "action": "Cancel",
    "message_id": "wanted",
    "state": "parked",
}


@pytest.mark.django_db
@pytest.mark.parametrize("name", [*_FILTERS, "since", "until"])
def test_filter_of_the_feed(
    world: World, shop: Application, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page looks at so many messages at most, and says how far it has come."""
    other = make_world()
    now = timezone.now()
    wanted = {**_FILTERS, "partner": other.here.name, "since": now, "until": now - WEEK}[name]
    of = other if name in {"partner", "tpa_id"} else world
    if name == "tpa_id":
        other.here.agreements.update(tpa_id="tpa-1")
        world.here.agreements.update(tpa_id="tpa-2")
    columns = {"since": {"received_at": now}, "until": {"received_at": now - WEEK}}
    column = columns.get(name, {name: wanted} if name in {f.name for f in FIELDS} else {})
    before, after = 0 if name == "until" else 7, 0 if name == "since" else 2
    for n in range(before):
        accept(world, f"before-{n}")
    chosen = accept(of, "chosen")
    for n in range(after):
        accept(world, f"after-{n}")
    InboundMessage.objects.update(received_at=now - DAY)
    InboundMessage.objects.filter(pk=chosen.pk).update(**column)
    count = InboundMessage.objects.count()
    expected = [str(column.get("message_id", "chosen"))]
    last = shop.get("inbound/positions").json["last"]

    assert ids(shop.get("inbound", **{name: wanted})) == expected
    marked = shop.get("inbound/marks", **{name: wanted}).json
    assert (marked["count"], marked["more"], marked["last"]) == (1, False, last)
    assert ids(shop.get("inbound", up_to=marked["marks"][0], **{name: wanted})) == expected

    monkeypatch.setattr(inbound, "LOOKED_AT", 3)
    found, asked, after, more = [], 0, 0, True
    while more:
        answer = shop.get("inbound", after=after, seen=after, **{name: wanted})
        found += ids(answer)
        after, more, asked = answer.json["next"], answer.json["more"], asked + 1
    assert (found, after, asked) == (expected, last, count // 3 + 1)


@pytest.mark.django_db
def test_stretches_of_the_feed(world: World, shop: Application) -> None:
    for n in range(10):
        accept(world, f"m-{n}")
    plan = shop.get("inbound/marks", every=4).json
    positions = [one["position"] for one in shop.get("inbound").json["results"]]
    assert plan == {
        "marks": [positions[3], positions[7], positions[9]],
        "count": 10,
        "last": positions[9],
        "more": False,
        "removed": 0,
    }
    accept(world, "later")
    ends = itertools.pairwise([0, *plan["marks"]])
    read = [ids(shop.get("inbound", after=after, up_to=up_to)) for after, up_to in ends]
    assert [len(stretch) for stretch in read] == [4, 4, 2]
    assert list(itertools.chain(*read)) == [f"m-{n}" for n in range(10)]

    part = shop.get("inbound/marks", after=positions[1], every=4, most=5).json
    assert part["marks"] == [positions[5], positions[6]]
    assert (part["count"], part["last"], part["more"]) == (5, positions[6], True)
    rest = shop.get("inbound/marks", after=positions[6], up_to=positions[9], every=4).json
    assert (rest["marks"], rest["more"]) == ([positions[9]], False)
    end = shop.get("inbound/positions").json["last"]
    none = shop.get("inbound/marks", after=end).json
    assert none == {"marks": [], "count": 0, "last": end, "more": False, "removed": 0}


@pytest.mark.django_db
def test_what_was_never_read_is_listed_in_pieces(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "LIST_AT_ONCE", 3)
    for n in range(8):
        accept(world, f"m-{n}")
    first = shop.get("inbound/marks", most=5).json
    assert (first["count"], first["more"]) == (5, True)
    assert InboundMessage.objects.filter(feed_position=None).count() == 3
    monkeypatch.setattr(feed, "LIST_FOR", 0.0)
    some = shop.get("inbound/marks").json
    assert (some["count"], some["more"]) == (5, True), "not all of what has been committed"
    monkeypatch.setattr(feed, "LIST_FOR", 600.0)
    every = shop.get("inbound/marks").json
    assert (every["count"], every["more"]) == (8, False)


@pytest.mark.django_db
def test_positions_to_begin_at(world: World, shop: Application) -> None:
    none = {"first": None, "last": 0, "removed": 0, "before": None}
    assert shop.get("inbound/positions").json == none
    now = timezone.now()
    for n in range(3):
        accept(world, f"m-{n}")
        InboundMessage.objects.filter(message_id=f"m-{n}").update(received_at=now + n * HOUR)
    found = shop.get("inbound/positions", since=(now + HOUR).isoformat()).json
    assert ids(shop.get("inbound", after=found["before"])) == ["m-1", "m-2"]
    assert ids(shop.get("inbound", after=found["last"])) == []
    assert ids(shop.get("inbound", after=found["first"])) == ["m-1", "m-2"]
    late = shop.get("inbound/positions", since=(now + DAY).isoformat()).json
    assert late["before"] == late["last"] == found["last"]
    for path in ("inbound", "inbound/marks", "inbound/positions"):
        assert_problem(shop.get(path, since="2026-11-27T10:00:00"), 400, "offset")


# --- what retention removes -----------------------------------------------------------------------
def end(*message_ids: str) -> None:
    """They ended so long ago that retention removes them."""
    ended = timezone.now() - YEARS
    found = InboundMessage.objects.filter(message_id__in=message_ids)
    assert found.update(state="delivered", delivered_at=ended) == len(message_ids)


@pytest.mark.django_db
def test_reader_is_told_what_it_has_missed(world: World, shop: Application) -> None:
    for name in "abcdef":
        accept(world, name)
    a, _, c, d, e, f = (one["position"] for one in shop.get("inbound").json["results"])
    end("a", "c", "d")
    prune_all()
    assert ids(shop.get("inbound", after=d)) == ["e", "f"]
    for path in ("inbound", "inbound/marks"):
        for after in (0, a, c - 1):
            answer = shop.get(path, after=after)
            assert_problem(answer, 410, f"up to position {d}")
            assert (answer.json["removed"], answer.json["first_position"]) == (d, e)
    answer = shop.get("inbound", after=a, removed=d)
    assert ids(answer) == ["b", "e", "f"], "what is left, to who knows that there are holes"
    assert ids(shop.get("inbound")) == ["e", "f"], "behind what was removed"
    assert shop.get("inbound/positions").json == {
        "first": e,
        "last": f,
        "removed": d,
        "before": None,
    }
    planned = shop.get("inbound/marks", after=0, removed=2**63 - 1).json
    assert (planned["count"], planned["removed"]) == (3, d)
    end("e", "f")
    prune_all()
    answer = shop.get("inbound", after=d, removed=d)
    assert_problem(answer, 410)
    assert (answer.json["removed"], answer.json["first_position"]) == (f, None)
    assert shop.get("inbound", after=f, seen=f).json == {"results": [], "next": f, "more": False}
    assert shop.get("inbound/positions").json["last"] == f
    accept(world, "g")
    assert ids(shop.get("inbound", after=f, seen=f)) == ["g"]


@pytest.mark.django_db
def test_what_was_removed_before_anybody_read_it_is_missed_too(
    world: World, shop: Application
) -> None:
    accept(world, "read")
    read = shop.get("inbound").json["next"]
    accept(world, "missed")
    end("missed")
    prune_all()
    assert_problem(shop.get("inbound", after=read, seen=read), 410)
    accept(world, "later")
    assert_problem(shop.get("inbound", after=read), 410)
    assert ids(shop.get("inbound")) == ["later"]


@pytest.mark.django_db
def test_payloads_that_retention_has_removed_are_still_told(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = b"one", b"twice"
    accept(world, "removed", one, two, b"")
    accept(world, "whole", one)
    shop.get("inbound")
    InboundMessage.objects.filter(message_id="removed").update(
        state="delivered", delivered_at=timezone.now() - PAYLOADS_KEPT
    )
    prune_all()
    gone, whole = shop.get("inbound", payloads="true").json["results"]
    told = [(p["number"], p["size"], p["sha256"], p["removed"]) for p in gone["payloads"]]
    contents = enumerate((one, two, b""), start=1)
    assert told == [(n, len(c), sha256(c).hexdigest(), True) for n, c in contents]
    assert gone["size"] == len(one + two)
    assert not any("content_base64" in payload for payload in gone["payloads"])
    (payload,) = whole["payloads"]
    assert (payload["removed"], payload["content_base64"]) == (
        False,
        base64.b64encode(one).decode(),
    )
    assert_problem(shop.get(f"inbound/{gone['id']}/payloads/2"), 410, "removed by retention")
    assert_problem(shop.get(f"inbound/{gone['id']}/payloads/4"), 404)
    monkeypatch.setattr(inbound, "CONTENT_LIMIT", 3)
    assert len(ids(shop.get("inbound", payloads="true"))) == 2, "what is removed takes no room"
    end("removed", "whole")
    prune_all()
    assert not RemovedInboundPayload.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["inbound", "deliveries/take"])
def test_payloads_removed_while_they_are_read(
    token: Tokens, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is of one moment: never a payload without its content."""
    world = make_world()
    consumer(ConsumerKind.PULL, name="erp", service_interface="Orders")
    shop = token("read", "read_payload", "consume")
    accept(world, "a", b"one")
    ended = []

    def meanwhile(messages: Any) -> Any:
        in_thread(InboundPayload.objects.all().delete).join()
        ended.append(True)
        return messages

    monkeypatch.setattr(inbound, "fitting", meanwhile)
    monkeypatch.setattr(deliveries, "fitting", meanwhile)
    answer = (
        shop.get("inbound", payloads="true")
        if path == "inbound"
        else shop.post(path, {"consumer": "erp"})
    )
    (message,) = answer.json["results"]
    (payload,) = message["payloads"]
    assert ended
    assert (payload["size"], base64.b64decode(payload["content_base64"])) == (3, b"one")


@pytest.mark.django_db
def test_filter_by_time_needs_nothing_of_what_is_older(world: World, shop: Application) -> None:
    accept(world, "old")
    shop.get("inbound")
    end("old")
    long_ago = int((timezone.now() - YEARS).timestamp() * 1_000_000)
    InboundMessage.objects.filter(message_id="old").update(feed_position=long_ago)
    prune_all()
    since = (timezone.now() - DAY).isoformat()
    accept(world, "new")
    assert_problem(shop.get("inbound", after=1), 410)
    assert ids(shop.get("inbound", after=1, since=since)) == ["new"]
    ahead = (timezone.now() + DAY).isoformat()
    nothing = shop.get("inbound", after=1, since=ahead).json
    assert (nothing["results"], nothing["more"]) == ([], False)
    assert shop.get("inbound", after=nothing["next"], seen=nothing["next"]).status == 200


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


def wait_for_locks() -> None:
    """Longer than the two seconds of an MSH: on a busy machine others may need them."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '60s'")


@pytest.mark.django_db(transaction=True)
def test_readers_and_writers_all_at_once() -> None:
    """Two readers follow while four pairs accept: each reads everything once, pairs in order."""
    worlds = [make_world() for _ in range(4)]
    for world in worlds:
        InboundLink.objects.create(partner=world.here)
    ended = threading.Event()

    def write(world: World) -> None:
        wait_for_locks()
        for n in range(25):
            with transaction.atomic():
                InboundLink.objects.select_for_update(no_key=True).get(partner=world.here)
                accept(world, f"{n:03}")
        connection.close()

    def read(_: int) -> list[tuple[int, str]]:
        wait_for_locks()
        found: list[tuple[int, str]] = []
        after = 0
        while True:
            last = ended.is_set()
            page = list(read_page(after, 7))
            found += [(message.link_id, message.message_id) for message in page]
            if page:
                after = page[-1].feed_position or 0
            elif last:
                connection.close()
                return found

    with ThreadPoolExecutor(6) as threads:
        readers = [threads.submit(read, n) for n in range(2)]
        try:
            for writer in [threads.submit(write, world) for world in worlds]:
                writer.result()
        finally:
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
            return [message.message_id for message in read_page(0, 10)]
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
            INBOUND.list(10)
        assert page.result() == ["a"]
