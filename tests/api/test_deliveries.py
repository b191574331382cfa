"""`deliveries`: a pull consumer behind the API takes, works and settles."""

import base64
from datetime import datetime, timedelta
from typing import Any

import pytest

from msh.api import inbound
from msh.models import Consumer, ConsumerKind, Delivery
from tests.api.application import Answer, Application
from tests.api.test_access import assert_problem
from tests.delivery.desk import consumer, delivery_of, receive, state_of
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(db: None) -> Consumer:
    return consumer(ConsumerKind.PULL, name="orders", retry_interval=0)


def take(shop: Application, **more: Any) -> list[Any]:
    answer = shop.post("deliveries/take", {"consumer": "orders", **more})
    assert answer.status == 200, answer.content
    found: list[Any] = answer.json["results"]
    return found


def settle(shop: Application, taken: Any, outcome: str, **more: Any) -> Answer:
    body = {"attempt": taken["attempt"], "outcome": outcome, **more}
    return shop.post(f"deliveries/{taken['delivery']}/settle", body)


@pytest.mark.requirement("001-08", "001-11", "001-24")
def test_pair_gives_its_head_and_then_the_next(orders: Consumer, shop: Application) -> None:
    first, second = receive(make_world(), 2)
    (taken,) = take(shop)
    assert (taken["id"], taken["message_id"], taken["attempt"]) == (first.pk, first.message_id, 1)
    assert taken["lease_seconds"] == orders.lease
    content = base64.b64decode(taken["payloads"][0]["content_base64"])
    assert content == bytes(first.payloads.get().content)
    assert take(shop) == []
    settled = settle(shop, taken, "completed", external_id="ext-1")
    assert settled.json == {"delivery": taken["delivery"], "attempt": 1, "state": "completed"}
    assert delivery_of(first).external_id == "ext-1"
    assert state_of(first) == ("delivered", "completed")
    assert [one["id"] for one in take(shop)] == [second.pk]


@pytest.mark.requirement("001-09", "001-10")
def test_failed_is_taken_again_and_rejected_is_not(orders: Consumer, shop: Application) -> None:
    (message,) = receive(make_world())
    (one,) = take(shop)
    assert settle(shop, one, "failed", reason="disk full").json["state"] == "failed"
    (again,) = take(shop)
    assert (again["delivery"], again["attempt"]) == (one["delivery"], 2)
    assert settle(shop, one, "completed").json["state"] == "processing", "attempt 1 is over"
    assert settle(shop, again, "rejected", reason="not ours").json["state"] == "rejected"
    assert state_of(message) == ("rejected", "rejected")
    assert take(shop) == []
    assert "not ours" in delivery_of(message).detail


def test_fetching_is_noted_once_a_minute(orders: Consumer, shop: Application) -> None:
    def fetched() -> datetime:
        orders.refresh_from_db()
        assert orders.fetched_at is not None
        return orders.fetched_at

    assert orders.fetched_at is None
    take(shop)
    first = fetched()
    Consumer.objects.update(fetched_at=first - timedelta(seconds=50))
    take(shop)
    assert fetched() == first - timedelta(seconds=50)
    Consumer.objects.update(fetched_at=first - timedelta(seconds=61))
    take(shop)
    assert fetched() >= first


def test_settled_twice_is_settled_once(orders: Consumer, shop: Application) -> None:
    receive(make_world())
    (one,) = take(shop)
    assert [settle(shop, one, "completed").json["state"] for _ in range(2)] == ["completed"] * 2


def test_limit(orders: Consumer, shop: Application) -> None:
    for _ in range(3):
        receive(make_world())
    assert [len(take(shop, limit=2)) for _ in range(3)] == [2, 1, 0]


def test_much_content_is_fetched_apart(
    orders: Consumer, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        receive(make_world())
    monkeypatch.setattr(inbound, "CONTENT_LIMIT", 1)
    first, second = take(shop)
    assert "content_base64" in first["payloads"][0]
    assert "content_base64" not in second["payloads"][0]
    assert shop.get(f"inbound/{second['id']}/payloads/1").status == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "attempt"),
        ({"attempt": 1}, "outcome"),
        ({"attempt": 1, "outcome": "lost"}, "outcome"),
        ({"attempt": 0, "outcome": "completed"}, "attempt"),
        ({"attempt": 2**40, "outcome": "completed"}, "attempt"),
        ({"attempt": 1, "outcome": "failed", "reason": "a\0"}, "reason"),
        ({"attempt": 1, "outcome": "failed", "why": "x"}, "why"),
    ],
)
def test_settling_that_is_wrong(orders: Consumer, shop: Application, body: Any, field: str) -> None:
    receive(make_world())
    (one,) = take(shop)
    answer = shop.post(f"deliveries/{one['delivery']}/settle", body)
    assert_problem(answer, 422)
    assert answer.json.get("field", "") == field
    assert Delivery.objects.get().state == "processing"


def test_delivery_or_consumer_that_is_not_there(orders: Consumer, shop: Application) -> None:
    for number in (1, 2**70):
        answer = shop.post(f"deliveries/{number}/settle", {"attempt": 1, "outcome": "completed"})
        assert_problem(answer, 404, str(number))
    assert_problem(shop.post("deliveries/take", {"consumer": "nobody"}), 404, "nobody")
    assert_problem(shop.post("deliveries/take", {"consumer": "orders", "limit": 101}), 422)


def test_consumer_of_another_kind(orders: Consumer, shop: Application) -> None:
    Consumer.objects.update(kind=ConsumerKind.HTTP, url="http://127.0.0.1:9/")
    assert_problem(shop.post("deliveries/take", {"consumer": "orders"}), 409, "not a pull consumer")


@pytest.mark.parametrize("body", [b"{", b"[]", b"[" * 60_000, b"\xff"])
def test_body_that_cannot_be_read(shop: Application, body: bytes) -> None:
    assert_problem(shop.post("deliveries/take", body), 400)
    assert_problem(shop.post("deliveries/take", b" " * 70_000), 413)
