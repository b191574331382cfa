"""What an application does with the client, and docs/client.md to the letter."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.flows.operations import tokens
from msh.flows.operations.prune import prune_all
from msh.models import (
    ApiToken,
    ConsumerKind,
    Delivery,
    InboundMessage,
    OutboundMessage,
    Scope,
)
from msh_client import ApiRefused, Client, Secret, Server, content_of
from partners.models import Agreement
from tests.api.application import order
from tests.delivery.desk import consumer, receive
from tests.delivery.pruning import age
from tests.exchange.machine import ROOT
from tests.flows.world import World, make_world
from tests.web import web_process

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def port(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with web_process(tmp_path_factory.mktemp("web"), threads=2) as port:
        yield port


@pytest.fixture
def token() -> str:
    consumer(ConsumerKind.PULL, name="orders")
    scopes = [scope for scope in Scope if scope != Scope.OPERATE]
    return tokens.make("shop", scopes, consumers=["orders"])[1]


@pytest.fixture
def msh(port: int, token: str) -> Iterator[Client]:
    server = Server(f"http://127.0.0.1:{port}/api/v1", Secret(token), 30, 20)
    with Client(server) as client:
        yield client


@pytest.fixture
def world() -> World:
    return make_world()


def messages(world: World, *names: str, **fields: Any) -> list[dict[str, Any]]:
    return [order(world, name, **fields) for name in names]


def test_the_page_can_be_followed_to_the_letter(
    port: int, token: str, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    receive(world)
    Agreement.objects.filter(partner=world.there).update(tpa_id="tpa-4711")
    (text,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/client.md").read_text(), re.DOTALL)
    assert "http://127.0.0.1:8000" in text
    exec(text.replace(":8000", f":{port}"), {"token": token})
    said = capsys.readouterr().out
    assert "[b'" in said
    ids = OutboundMessage.objects.order_by("pk").values_list("message_id", flat=True)
    assert [one for one in ids if one.startswith("order-")] == [f"order-{n}" for n in range(1, 5)]
    assert Delivery.objects.get().state == "completed"


def test_a_message_is_submitted_once(msh: Client, world: World) -> None:
    content = bytes(range(256))
    (message,) = messages(world, "a/b ü", payloads=[{"content": content, "label": "x.bin"}])
    first, again = msh.submit(message), msh.submit(message)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.document["id"] == again.document["id"]
    assert msh.message("a/b ü")["state"] == "queued"
    path = "messages/a%2Fb%20%C3%BC/payloads/1"
    assert msh.get_bytes(path) == content
    with pytest.raises(ApiRefused) as refused:
        msh.submit({**message, "action": "Changed"})
    assert (refused.value.status, refused.value.code) == (409, "message_id_reused")


@pytest.mark.parametrize("many", [False, True])
def test_a_message_needs_an_id(msh: Client, world: World, many: bool) -> None:
    message = order(world)
    with pytest.raises(ValueError, match="message_id is required"):
        _ = list(msh.submit_many([message])) if many else msh.submit(message)
    assert not OutboundMessage.objects.exists()


def test_thousands_are_submitted_in_their_order(
    msh: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("msh_client.client.LINES", 7)
    names = [f"m-{n}" for n in range(20)]
    wrong = {**order(world, "wrong"), "action": ""}
    given = [*messages(world, *names[:10]), wrong, *messages(world, *names[10:])]
    answers = list(msh.submit_many(iter(given)))
    assert [message for message, _ in answers] == given
    results = {answer["message_id"]: answer["result"] for _, answer in answers}
    assert results == {**dict.fromkeys(names, "accepted"), "wrong": "refused"}
    refused = answers[10][1]
    assert (refused["code"], refused["field"]) == ("invalid", "action")
    stored = OutboundMessage.objects.order_by("pk").values_list("message_id", flat=True)
    assert list(stored) == names
    assert {answer["result"] for _, answer in msh.submit_many(given)} == {"known", "refused"}
    assert [one["message_id"] for one in msh.messages(partner=world.there.name)] == names


def test_the_feed_goes_on_where_it_ended(msh: Client, world: World) -> None:
    receive(world, 3)
    pages = list(msh.inbound(payloads=True, limit=2))
    rows = [message for page in pages for message in page.rows]
    assert [len(page.rows) for page in pages if page.rows] == [2, 1]
    assert [row["id"] for row in rows] == list(
        InboundMessage.objects.order_by("feed_position").values_list("pk", flat=True)
    )
    assert all(content_of(row["payloads"][0]) for row in rows)
    (page,) = msh.inbound(after=pages[-1].next)
    assert (page.rows, page.more) == ([], False)
    receive(world)
    (page,) = msh.inbound(after=page.next)
    assert len(page.rows) == 1
    with pytest.raises(ValueError, match="was not requested"):
        content_of(page.rows[0]["payloads"][0])


def test_events_say_what_became_of_messages(msh: Client, world: World) -> None:
    msh.submit(order(world, "m-1"))
    world.settle()
    (page,) = msh.events()
    assert [(event["message_id"], event["kind"]) for event in page.rows] == [
        ("m-1", "acknowledged")
    ]
    (page,) = msh.events(after=page.next)
    assert page.rows == []


def test_what_retention_has_removed_is_no_end(msh: Client, world: World) -> None:
    receive(world, 3)
    while taken := msh.take("orders"):
        msh.settle(taken[0], "completed")
    age()
    (page,) = msh.inbound()
    position = page.rows[0]["position"]
    prune_all()
    with pytest.raises(ApiRefused) as refused:
        list(msh.inbound(after=position))
    assert (refused.value.status, refused.value.code) == (410, "removed")
    assert [len(page.rows) for page in msh.inbound()] == [1], "the last one of a pair stays"


def test_what_is_taken_is_settled(msh: Client, world: World) -> None:
    receive(world, 2)
    (first,) = msh.take("orders")
    assert msh.take("orders") == []
    assert content_of(first["payloads"][0])
    assert msh.settle(first, "failed", reason="no room") == "failed"
    Delivery.objects.update(due=timezone.now() - timedelta(hours=1))
    (again,) = msh.take("orders")
    assert (again["id"], again["attempt"]) == (first["id"], 2)
    assert msh.settle(first, "completed") == "processing", "it is not the latest attempt any more"
    assert msh.settle(again, "completed", external_id="7") == "completed"
    with pytest.raises(ApiRefused) as refused:
        msh.take("nobody")
    assert refused.value.code == "not_found"


def test_a_token_is_asked_first(msh: Client) -> None:
    assert msh.token()["consumers"] == ["orders"]
    ApiToken.objects.all().delete()
    with pytest.raises(ApiRefused) as refused:
        msh.token()
    assert (refused.value.status, refused.value.code) == (401, "credentials")
