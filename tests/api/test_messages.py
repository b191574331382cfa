"""`messages`: found by filters, page by page; told with history and payloads."""

import itertools
import json
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone

from msh.api import messages
from msh.api.messages import MomentDocument
from msh.flows.operations.prune import prune_all
from msh.models import History, OutboundMessage
from tests.api.application import Answer, Application, order, results
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.delivery.test_prune_cost import visited
from tests.flows.world import World, make_world
from tests.sql import analyze, execute

pytestmark = pytest.mark.django_db


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.content
    return [message["message_id"] for message in answer.json["results"]]


def pages(shop: Application, path: str, **query: Any) -> list[list[Any]]:
    """Every page, until there is none."""
    found = []
    after: dict[str, int] = {}
    while True:
        answer = shop.get(path, **query, **after).json
        found.append(answer["results"])
        if answer["next"] is None:
            return found
        after = {"after": answer["next"]}


def test_message_from_submit_to_its_end(world: World, shop: Application) -> None:
    before = timezone.now()
    shop.post("messages", order(world, "m-1"))
    queued = shop.get("messages/m-1").json
    assert (queued["state"], queued["sequence_number"], queued["attempts"]) == ("queued", None, 0)
    assert queued["submitted_at"] >= before.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert queued["ended_at"] is None
    assert queued["explanation"].startswith("The link is idle and nothing is in flight")
    (payload,) = order(world, "m-1")["payloads"]
    assert queued["size"] == len(payload["content"].encode())
    world.settle()
    ended = shop.get("messages/m-1").json
    assert (ended["state"], ended["sequence_number"], ended["attempts"]) == ("acknowledged", 1, 1)
    assert ended["ended_at"] > queued["submitted_at"]
    assert ended["explanation"].startswith("Acknowledged at ")
    history = shop.get("messages/m-1/history").json["results"]
    events = [one["event"] for one in history]
    assert events[0] == "MessageSubmitted"
    assert {"AckReceived", "Attempt 1"} <= set(events)
    assert list(history[0]) == list(MomentDocument().fields), "all are documented"


def test_message_whose_id_ends_as_the_address_of_an_action_does(
    world: World, shop: Application
) -> None:
    shop.post("messages", order(world, "order/cancel"))
    found = shop.get("messages/order/cancel").json
    assert (found["message_id"], found["state"]) == ("order/cancel", "queued")
    assert_problem(shop.get("messages/m-1/cancel"), 404, "m-1/cancel")


def test_history_comes_in_pages_of_which_none_repeats_or_skips(
    world: World, shop: Application
) -> None:
    shop.post("messages", order(world, "m-1"))
    world.settle()
    whole = shop.get("messages/m-1/history").json
    assert whole["next"] is None
    paged = [one for page in pages(shop, "messages/m-1/history", limit=1) for one in page]
    assert len(paged) == len(whole["results"])
    assert sorted(map(str, paged)) == sorted(map(str, whole["results"]))


def test_history_of_many_rows_is_answered_in_pages(world: World, shop: Application) -> None:
    shop.post("messages", order(world, "m-1"))
    known = History.objects.count()
    events = (f"Event{number}" for number in range(250))
    History.objects.bulk_create(
        History(partner=world.there, direction="out", subject="message", message_id="m-1", event=e)
        for e in events
    )
    first, second, third = pages(shop, "messages/m-1/history")
    assert (len(first), len(second)) == (100, 100)
    assert len({one["event"] for one in (*first, *second, *third)}) == 250 + known


@pytest.mark.parametrize(("order_", "names"), [("id", "abcde"), ("-id", "edcba")])
def test_pages_go_on_where_the_last_one_ended(
    world: World, shop: Application, order_: str, names: str
) -> None:
    shop.bulk(order(world, name) for name in "abcde")
    found = pages(shop, "messages", limit=2, order=order_)
    assert [[m["message_id"] for m in page] for page in found] == [
        list(names[:2]),
        list(names[2:4]),
        list(names[4:]),
    ]


def test_pages_are_stable_while_others_write(world: World, shop: Application) -> None:
    shop.bulk(order(world, name) for name in "abc")
    first = shop.get("messages", limit=2, order="-id").json
    shop.bulk([order(world, "d")])
    OutboundMessage.objects.filter(message_id="b").update(conversation_id="changed")
    second = shop.get("messages", limit=2, order="-id", after=first["next"])
    assert [message["message_id"] for message in first["results"]] == ["c", "b"]
    assert ids(second) == ["a"]


def test_filters(world: World, shop: Application) -> None:
    other = make_world()
    shop.bulk([order(world, "a", conversation_id="c-1"), order(world, "b")])
    world.settle()
    shop.bulk([order(world, "c", conversation_id="c-1"), order(other, "a")])
    ours = world.there.name
    assert ids(shop.get("messages", partner=ours)) == ["a", "b", "c"]
    assert ids(shop.get("messages", partner=other.there.name)) == ["a"]
    assert ids(shop.get("messages", partner="nobody")) == []
    assert ids(shop.get("messages", state="queued")) == ["c", "a"]
    assert ids(shop.get("messages", conversation_id="c-1")) == ["a", "c"]
    assert ids(shop.get("messages", conversation_id="c-1", state="acknowledged")) == ["a"]
    assert ids(shop.get("messages", message_id="a")) == ["a", "a"]
    assert ids(shop.get("messages", sequence_number=2)) == ["b"]
    assert ids(shop.get("messages", tpa_id="tpa-1")) == ["a", "b", "c", "a"]
    assert ids(shop.get("messages", tpa_id="tpa-2")) == []


def test_filter_by_time(world: World, shop: Application) -> None:
    shop.bulk(order(world, name) for name in "ab")
    now = timezone.now()
    old = now - timedelta(hours=1)
    OutboundMessage.objects.filter(message_id="a").update(submitted_at=old)
    between = (old - timedelta(minutes=1), old + timedelta(minutes=1))
    assert ids(shop.get("messages", since=between[1].isoformat())) == ["b"]
    assert ids(shop.get("messages", until=between[1].isoformat())) == ["a"]
    assert ids(shop.get("messages", since=old.isoformat(), until=old.isoformat())) == ["a"]
    assert ids(shop.get("messages", since=between[0].isoformat())) == ["a", "b"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"limit": "ten"}, "limit"),
        ({"after": -1}, "after"),
        ({"after": 2**63}, "after"),
        ({"state": "lost"}, "state"),
        ({"stat": "queued"}, "stat"),
        ({"since": "yesterday"}, "since"),
        ({"since": "0001-01-01T00:00:00Z"}, "since"),
        ({"until": "9999-12-31T23:59:59Z"}, "until"),
        ({"order": "state"}, "order"),
        ({"state": ["queued", "sent"]}, "state"),
        ({"partner": "a\0b"}, "partner"),
        ({"sequence_number": 10**9}, None),
        ({"sequence_number": "1" * 30}, "sequence_number"),
    ],
)
def test_parameter_that_is_wrong(
    world: World, shop: Application, query: dict[str, Any], field: str | None
) -> None:
    answer = shop.get("messages", **query)
    if field is None:
        assert ids(answer) == []
    else:
        assert_problem(answer, 400, field)
        assert answer.json["field"] == field


@pytest.mark.parametrize("rows", [1, 3])
def test_page_is_one_query(
    world: World, shop: Application, django_assert_num_queries: Any, rows: int
) -> None:
    shop.bulk(order(world, f"m-{n}") for n in range(rows))
    with django_assert_num_queries(1):  # that for the token is not one of the ORM
        assert len(ids(shop.get("messages"))) == rows


@pytest.mark.parametrize("message_id", ["a/b", "urn:x:1@y#z", "ä b", "history"])
def test_message_id_may_hold_anything(world: World, shop: Application, message_id: str) -> None:
    shop.post("messages", order(world, message_id))
    path = message_id.replace("#", "%23")
    assert shop.get(f"messages/{path}").json["message_id"] == message_id
    assert shop.get(f"messages/{path}/history").status == 200
    assert shop.get(f"messages/{path}/payloads/1").content == b"<order/>"


ODD = [
    *("x", "x/history", "x/payloads/1", "x/cancel", "x/history/history", "/x", "x/", "//", "bulk"),
    *("bulk/history", "a/b?c#d%20e_%25", "x%2Fhistory", "a/../b", "%", "_", "0", "None"),
    *("id;rm", "ä/ö", "a" * 255),
]


def test_each_message_has_an_address_of_its_own(
    world: World, token: Tokens, shop: Application
) -> None:
    """Whatever other MessageIds there are: `x/history` is not the history of `x`."""
    operator = token("operate", "read", may=("view_outboundmessage", "cancel_outboundlink"))
    for message_id in ODD:
        assert shop.post("messages", order(world, message_id)).status == 201
    for message_id in ODD:
        path = f"messages/{quote(message_id, safe='')}"
        found = shop.get(path)
        assert (found.status, found.json["message_id"]) == (200, message_id)
        assert shop.get(f"{path}/history").json["results"][0]["event"]
        assert shop.get(f"{path}/payloads/1").content == b"<order/>"
    cancelled = OutboundMessage.objects.filter(state="cancelled")
    for number, message_id in enumerate(ODD, 1):
        path = f"messages/{quote(message_id, safe='')}/cancel"
        assert operator.post(path, {"reason": "odd"}).status == 200
        assert {each.message_id for each in cancelled.all()} == {*ODD[:number]}


@pytest.mark.parametrize(
    "path", ["m-9", "m-9/history", "m-9/payloads/1", "m%001", "m-1/payloads/2", "m-1%00history"]
)
def test_message_that_is_not_there(world: World, shop: Application, path: str) -> None:
    shop.post("messages", order(world, "m-1"))
    assert_problem(shop.get(f"messages/{path}"), 404)


def test_message_id_of_two_partners(world: World, shop: Application) -> None:
    other = make_world()
    shop.bulk([order(world, "m"), order(other, "m")])
    for path in ("messages/m", "messages/m/payloads/1"):
        assert_problem(shop.get(path), 400, "partner")
        assert shop.get(path, partner=other.there.name).status == 200
    assert len(shop.get("messages/m/history").json["results"]) == 2
    (moment,) = shop.get("messages/m/history", partner=other.there.name).json["results"]
    assert moment["partner"] == other.there.name


def test_payloads_are_the_bytes_that_were_submitted(world: World, shop: Application) -> None:
    contents = [b"", b"\r\n--\r\n", b"a\r\n\r\nb\r\n", bytes(range(256))]
    payloads = [{"content_base64": b64encode(one).decode(), "label": "a b.xml"} for one in contents]
    shop.post("messages", order(world, "m", payloads=payloads))
    answers = [shop.get(f"messages/m/payloads/{n}") for n in (1, 2, 3, 4)]
    assert [answer.content for answer in answers] == contents
    headers = answers[0].headers
    assert headers["Content-Type"] == "application/xml"
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''a%20b.xml"
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("submitted", ["alone", "in bulk"])
def test_payloads_are_told_after_they_were_removed(
    world: World, shop: Application, submitted: str
) -> None:
    contents = [b"", b"\r\n--\r\n", bytes(range(256))]
    payloads = [{"content_base64": b64encode(one).decode(), "label": "a b.xml"} for one in contents]
    for name, parts in (("many", payloads), ("one", payloads[1:2]), ("none", [])):
        message = order(world, name, payloads=parts)
        if submitted == "alone":
            assert shop.post("messages", message).status == 201
        else:
            assert results(shop.bulk([message])) == ["accepted"]
    world.settle()
    ended = timezone.now() - timedelta(days=120)
    assert OutboundMessage.objects.filter(completed_at__isnull=False).update(completed_at=ended)

    def told(removed: bool) -> list[Any]:
        facts = [(len(one), sha256(one).hexdigest(), removed) for one in contents]
        return [facts, facts[1:2], []]

    for removed in (False, True):
        for listed in (
            shop.get("messages", payloads="true").json["results"],
            [shop.get(f"messages/{name}").json for name in ("many", "one", "none")],
        ):
            found = [message["payloads"] for message in listed]
            facts = [[(p["size"], p["sha256"], p["removed"]) for p in one] for one in found]
            assert facts == told(removed)
            assert [p["number"] for p in found[0]] == [1, 2, 3]
            assert [message["size"] for message in listed] == [262, 6, 0]
        assert shop.get("messages/many/payloads/2").status == (410 if removed else 200)
        assert_problem(shop.get("messages/many/payloads/4"), 404)
        prune_all()
    assert_problem(shop.get("messages/many/payloads/2"), 410, "removed by retention")
    assert "payloads" not in shop.get("messages").json["results"][0]


def test_stretches_of_messages(world: World, shop: Application) -> None:
    for n in range(10):
        shop.post("messages", order(world, f"m-{n}", action="New" if n % 2 else "Old"))
    keys = list(OutboundMessage.objects.order_by("pk").values_list("pk", flat=True))
    plan = shop.get("message-marks", every=4).json
    ends = [keys[3], keys[7], keys[9]]
    assert plan == {"marks": ends, "count": 10, "last": keys[9], "more": False}
    read = [
        ids(shop.get("messages", after=after, up_to=last, limit=1000))
        for after, last in itertools.pairwise([0, *ends])
    ]
    assert [len(stretch) for stretch in read] == [4, 4, 2]
    assert list(itertools.chain(*read)) == [f"m-{n}" for n in range(10)]
    odd = shop.get("message-marks", every=2, action="New", most=3, after=keys[0]).json
    assert odd == {"marks": [keys[3], keys[5]], "count": 3, "last": keys[5], "more": True}
    rest = shop.get("message-marks", action="New", after=keys[5], up_to=keys[8]).json
    assert rest == {"marks": [keys[7]], "count": 1, "last": keys[8], "more": False}
    none = shop.get("message-marks", action="none", after=keys[9] + 7).json
    assert none == {"marks": [], "count": 0, "last": keys[9] + 7, "more": False}
    assert ids(shop.get("messages", after=keys[1], up_to=keys[4], action="New")) == ["m-3"]
    assert ids(shop.get("messages", service_interface="Returns")) == []
    OutboundMessage.objects.filter(message_id="m-3").update(service_type="string")
    assert ids(shop.get("messages", service_type="string")) == ["m-3"]
    assert shop.get("message-marks", service_type="string").json["count"] == 1


def test_marks_cover_so_many_ids_at_a_time(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MOST", 3)
    for n in range(7):
        world.submit(message_id=f"m-{n}")
    keys = list(OutboundMessage.objects.order_by("pk").values_list("pk", flat=True))
    found, after, more = [], 0, True
    while more:
        answer = shop.get("message-marks", after=after, message_id="m-6").json
        found.append(answer["marks"])
        after, more = answer["last"], answer["more"]
    assert (found, after) == ([[], [], [keys[6]]], keys[6])


def test_messages_by_the_time_of_their_end(world: World, shop: Application) -> None:
    for n in range(4):
        world.submit(message_id=f"m-{n}")
    world.settle()
    now = timezone.now()
    for n in range(3):
        of_day = OutboundMessage.objects.filter(message_id=f"m-{n}")
        of_day.update(completed_at=now - n * timedelta(days=1))
    OutboundMessage.objects.filter(message_id="m-3").update(completed_at=None)
    yesterday = (now - timedelta(days=1)).isoformat()
    assert ids(shop.get("messages", ended_since=yesterday)) == ["m-0", "m-1"]
    assert ids(shop.get("messages", ended_until=yesterday)) == ["m-1", "m-2"]
    between = {"ended_since": yesterday, "ended_until": yesterday}
    assert ids(shop.get("messages", **between)) == ["m-1"]
    assert shop.get("message-marks", **between).json["count"] == 1
    assert_problem(shop.get("messages", ended_since="2026-11-27T10:00:00"), 400, "offset")


def test_messages_of_a_day_are_found_without_all_others(world: World) -> None:
    """They end about in the order in which they are submitted: an index by blocks is enough, and
    costs a message nothing when it ends."""
    one = world.submit()
    columns = [str(each.column) for each in OutboundMessage._meta.fields if each.name != "id"]
    now, many = timezone.now(), 20_000
    new = {"message_id": "'m-' || n", "completed_at": "%s::timestamptz - n * interval '1 minute'"}
    values = ", ".join(new.get(column, column) for column in columns)
    execute(
        f"INSERT INTO msh_outboundmessage ({', '.join(columns)}) SELECT {values}"
        " FROM msh_outboundmessage, generate_series(%s, 1, -1) n WHERE id = %s",
        now,
        many,
        one.pk,
    )
    execute("SELECT brin_summarize_new_values('outbound_completed_at')")
    analyze("msh_outboundmessage")
    asked = {"ended_since": now - timedelta(days=4), "ended_until": now - timedelta(days=3)}
    rows = OutboundMessage.objects.order_by("pk")
    for name, value in asked.items():
        rows = messages._FILTERS[name](rows, value)
    plan = json.loads(rows[:1000].explain(format="json", analyze=True, timing=False))
    assert visited(plan[0]["Plan"]) < many / 2


def test_message_that_was_only_received(world: World, token: Tokens) -> None:
    world.submit(message_id="m-1")
    world.settle()
    shop = token("read")
    directions = {m["direction"] for m in shop.get("messages/m-1/history").json["results"]}
    assert directions == {"in", "out"}
