"""Bulk requests that conflict: nothing duplicated or lost, tried once more, then 503."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from threading import Event
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection

from msh.flows.sending import submit_many
from msh.models import History, OutboundMessage, OutboundPayload
from msh.store.sending import submissions
from tests.api.application import Answer, Application, order, results
from tests.api.conftest import Tokens
from tests.api.test_access import assert_problem
from tests.flows.world import World, make_world
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(transactional_db: None) -> World:
    """Its link is made."""
    world = make_world()
    world.submit()
    return world


@pytest.fixture
def shop(transactional_db: None, token: Tokens) -> Application:
    return token("send", "read")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def closing(act: Callable[[], Answer]) -> Answer:
    """What a thread of a test does: it leaves no connection."""
    try:
        return act()
    finally:
        connection.close()


@contextmanager
def another() -> Iterator["psycopg.Connection[Any]"]:
    """Somebody else in the database. A deadlock is never theirs to find."""
    settings = connection.settings_dict
    with psycopg.connect(
        host=settings["HOST"],
        port=settings["PORT"] or None,
        user=settings["USER"],
        password=settings["PASSWORD"],
        dbname=settings["NAME"],
    ) as other:
        other.execute("SET deadlock_timeout = '1min'")
        other.commit()
        yield other


def keep(other: "psycopg.Connection[Any]", world: World, message_id: str) -> None:
    """Somebody else keeps a message of this id, and does not commit."""
    other.execute(
        "INSERT INTO msh_outboundmessage (link_id, agreement_id, message_id, semantics, state,"
        " conversation_id, service_interface, action, ref_to_message_id, submitted_at,"
        " content_digest, size, boundary) SELECT link_id, agreement_id, %s, semantics, 'queued',"
        " conversation_id, service_interface, action, '', submitted_at, content_digest, size,"
        " boundary FROM msh_outboundmessage WHERE link_id = %s ORDER BY id LIMIT 1",
        (message_id, world.link.pk),
    )


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE wait_event = 'transactionid' AND datname = current_database()"
        )
        return bool(cursor.fetchone()[0])


def kept(world: World) -> list[str]:
    rows = OutboundMessage.objects.filter(link=world.link).order_by("pk")
    return list(rows.values_list("message_id", flat=True))[1:]


@pytest.mark.requirement("001-05", "001-20")
def test_same_lines_at_the_same_moment(
    world: World, shop: Application, threads: ThreadPoolExecutor
) -> None:
    lines = [order(world, f"m-{n}") for n in range(300)]
    answers = [threads.submit(closing, lambda: shop.bulk(lines)) for _ in range(2)]
    found = sorted(list(results(answer.result())) for answer in answers)
    assert found == [["accepted"] * 300, ["known"] * 300]
    assert kept(world) == [f"m-{n}" for n in range(300)]
    assert OutboundPayload.objects.count() == History.objects.count() == 301


def ask(threads: ThreadPoolExecutor, shop: Application, lines: list[Any]) -> "Future[Answer]":
    """Ask in a thread, until the request waits for somebody else."""
    answer = threads.submit(closing, lambda: shop.bulk(lines))
    wait_until(waits_for_a_lock, what="a request that waits")
    return answer


@pytest.mark.requirement("001-05")
def test_id_that_is_committed_meanwhile_is_known(
    world: World, shop: Application, threads: ThreadPoolExecutor
) -> None:
    with another() as other:
        keep(other, world, "m-2")
        answer = ask(threads, shop, [order(world, f"m-{n}") for n in (1, 2, 3)])
        other.commit()
        assert results(answer.result()) == ["accepted", "refused", "accepted"]
    assert sorted(kept(world)) == ["m-1", "m-2", "m-3"]


Deadlock = Callable[[Any], "Future[Answer]"]


@pytest.fixture
def deadlock(
    world: World,
    shop: Application,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> Deadlock:
    """They have m-2 and want m-1; the request has m-1 and wants m-2. The request finds it out, if
    they want m-1 before it looks: it looks once, `deadlock_timeout` after it began to wait.

    Its second try begins when they have m-1: else it could be faster than they, have m-1 once more,
    and be in a second deadlock.
    """
    theirs, tries = Event(), count(1)
    lock = submissions.lock_parents

    def lock_in_turn(agreements: Any) -> Any:
        assert next(tries) == 1 or theirs.wait(60)
        return lock(agreements)

    monkeypatch.setattr(submit_many, "lock_parents", lock_in_turn)

    def patient() -> Answer:
        with connection.cursor() as cursor:
            cursor.execute("SET deadlock_timeout = '8s'; SET lock_timeout = '1min'")
        return shop.bulk([order(world, f"m-{n}") for n in (1, 2)])

    def begin(other: Any) -> "Future[Answer]":
        keep(other, world, "m-2")
        answer = threads.submit(closing, patient)
        wait_until(waits_for_a_lock, what="a request that waits")
        keep(other, world, "m-1")
        theirs.set()
        return answer

    return begin


def test_deadlock_is_tried_once_more(world: World, deadlock: Deadlock) -> None:
    with another() as other:
        answer = deadlock(other)
        other.rollback()
        assert results(answer.result()) == ["accepted", "accepted"]
    assert kept(world) == ["m-1", "m-2"]


def test_second_time_in_the_way_is_not_now(
    world: World, shop: Application, deadlock: Deadlock
) -> None:
    with another() as other:
        answer = deadlock(other)
        wait_until(waits_for_a_lock, what="the second try")
        other.commit()
        refused = answer.result()
    assert_problem(refused, 503, "Conflict with a concurrent request; nothing was stored")
    assert int(refused.headers["Retry-After"]) >= 1
    assert sorted(kept(world)) == ["m-1", "m-2"], "those of the other only"
    assert results(shop.bulk([order(world, "m-3")])) == ["accepted"]


def test_lock_that_is_held_for_long(
    world: World, shop: Application, threads: ThreadPoolExecutor
) -> None:
    with another() as other:
        keep(other, world, "m-2")
        refused = ask(threads, shop, [order(world, f"m-{n}") for n in (1, 2)]).result()
        other.rollback()
    assert_problem(refused, 503, "Retry the same request")
    assert kept(world) == []


@pytest.mark.requirement("001-14", "001-15")
def test_failure_before_the_commit_leaves_nothing(
    world: World, shop: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise psycopg.errors.DiskFull("no space left on device")

    monkeypatch.setattr(submit_many, "reach", fail)
    lines = [order(world, f"m-{n}") for n in range(1200)]
    assert_problem(shop.bulk(lines), 503, "Retry the same request")
    assert kept(world) == []
    assert OutboundPayload.objects.count() == History.objects.count() == 1


@pytest.mark.requirement("001-14", "001-15")
@pytest.mark.parametrize("address", ["messages", "messages/bulk"])
def test_connection_that_is_lost_after_the_commit(
    world: World,
    shop: Application,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    address: str,
) -> None:
    """It was kept, so nobody may say that it was not."""

    def lost(*_: object) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    in_bulk = address == "messages/bulk"
    broken = "msh.flows.sending.submit_many.wake_up" if in_bulk else "msh.api.messages._document"
    monkeypatch.setattr(broken, lost)
    body = json.dumps(order(world, "m-1")).encode()
    content_type = "application/x-ndjson" if in_bulk else "application/json"
    answer = shop.ask("POST", address, body, content_type)
    assert_problem(answer, 503, "Retry the same request")
    assert "stored" not in answer.json["detail"]
    assert kept(world) == ["m-1"]
    assert "server closed the connection" in caplog.text
    monkeypatch.undo()
    again = shop.ask("POST", address, body, content_type)
    assert again.status == 200
    assert kept(world) == ["m-1"]


def test_submit_blocks_nobody(world: World, shop: Application, threads: ThreadPoolExecutor) -> None:
    """The lane may be locked meanwhile: a bulk request locks none."""
    with another() as other:
        other.execute("SELECT FROM msh_outboundlink FOR NO KEY UPDATE")
        assert results(shop.bulk([order(world, "m-1")])) == ["accepted"]
