"""What a night of pruning costs: by the rows there are, once for each, one run at a time."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone
from pytest_django import Settings

from msh.flows.operations import prune
from msh.models import InboundLink, InboundMessage, OutboundLink, PruneRun, SubmittedId
from msh.protocol import sequence
from msh.store.engine import USE_INDEX_ORDER, Call
from msh.store.operations import retention_sql
from tests.delivery.desk import Desk, receive
from tests.delivery.pruning import age, numbers, old_world
from tests.flows.world import World, make_world
from tests.sessions import in_another_session

YEAR = timedelta(days=365)


def many_of_an_earlier_run(count: int) -> None:
    """So many messages, delivered years ago, before their partner began again at 1."""
    old_world(2)
    first = InboundMessage.objects.order_by("pk")[0]
    columns = [str(field.column) for field in InboundMessage._meta.fields if field.name != "id"]
    new = {
        "message_id": "'old-' || n",
        "conversation_id": "n",
        "sequence_number": "n",
        "feed_position": "NULL",
    }
    values = ", ".join(new.get(column, column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO msh_inboundmessage ({', '.join(columns)}) SELECT {values}"
            f" FROM msh_inboundmessage, generate_series(100, %s) n WHERE id = %s",
            (99 + count, first.pk),
        )
    InboundLink.objects.filter(pk=first.link_id).update(
        epoch=2, last_number=10, highest_number=99 + count
    )


def rows_visited(call: Call[Any]) -> int:
    """By all nodes of the plan as it was run, with the settings that a batch runs with."""
    with connection.cursor() as cursor:
        cursor.execute(USE_INDEX_ORDER.sql)
        explain = f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {call.statement.sql}"
        cursor.execute(explain, call.values)
        plan = cursor.fetchone()[0]
    return visited((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])


def visited(node: Any) -> int:
    rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
    return int(rows * node["Actual Loops"]) + sum(map(visited, node.get("Plans", ())))


@pytest.mark.django_db
def test_messages_of_an_earlier_run_are_looked_at_once() -> None:
    many_of_an_earlier_run(300)
    removal = retention_sql.kinds(heard=False)["inbound messages"]
    assert rows_visited(retention_sql.count(removal)(age=YEAR)) < 300 * 20


@pytest.mark.django_db
def test_batch_looks_at_no_more_than_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever may not go, and whatever plan it gets."""
    many_of_an_earlier_run(300)
    receive(make_world(), 20)
    Desk().settle()
    age()
    removal = retention_sql.kinds(heard=False)["inbound messages"]
    keys = list(InboundMessage.objects.order_by("pk").values_list("pk", flat=True))
    for first in (0, 150, 290, len(keys) - 11):
        find = retention_sql.find(removal)
        window = {"after": keys[first], "last": keys[first + 10]}
        assert rows_visited(find(age=YEAR, limit=1, **window)) < 10 * 20
    monkeypatch.setattr(prune, "BATCH", 1)
    assert prune.prune_all()["inbound messages"] == 18


@pytest.mark.django_db
def test_ids_of_submitted_messages_cost_by_those_that_go(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """Years of them stay: a night looks at none of those."""
    settings.MSH_KEEP_IDS = 1826
    kept = timezone.now() - timedelta(days=1827)
    link = make_world().submit().link_id
    ends = [
        *(kept + timedelta(minutes=1 + n) for n in range(300)),
        *(kept - timedelta(minutes=1 + n // 2) for n in range(5)),
    ]
    SubmittedId.objects.bulk_create(
        SubmittedId(
            link_id=link,
            message_id=f"m-{n}",
            content_digest=bytes(32),
            key=n,
            state="acknowledged",
            submitted_at=end,
            ended_at=end,
        )
        for n, end in enumerate(ends)
    )
    monkeypatch.setattr(prune, "BATCH", 2)
    counts: list[int] = []
    prune.prune_all(
        lambda kind, count: counts.append(count) if kind == "ids of submitted messages" else None
    )
    assert counts == [2, 4, 5]
    assert set(SubmittedId.objects.values_list("key", flat=True)) == {*range(300)}


@pytest.mark.django_db(transaction=True)
def test_one_run_at_a_time() -> None:
    old_world()

    def meanwhile() -> None:
        with pytest.raises(prune.PruningAlready):
            prune.prune_all()
        with pytest.raises(CommandError, match="in progress"):
            call_command("prune")

    with prune.alone():
        in_another_session(meanwhile)
        assert len(numbers()[1]) == 4
    assert prune.prune_all()["inbound messages"] == 2


@pytest.mark.django_db(transaction=True)
def test_one_run_at_a_time_whatever_connection_a_pooler_gives() -> None:
    old_world()
    with prune.alone():
        with pytest.raises(prune.PruningAlready):  # on the connection that the first run had
            prune.prune_all()
        connection.close()  # and the first run gets another one
        with pytest.raises(prune.PruningAlready):
            prune.prune_all()
    assert prune.prune_all()["inbound messages"] == 2


@pytest.mark.django_db
def test_run_that_was_killed_lets_the_next_one_in_after_its_lease() -> None:
    old_world()
    for passed in (timedelta(seconds=1), -2 * prune.LEASE):  # the second: the clock was set back
        with prune.alone() as renew:
            renew()
            PruneRun.objects.update(leased_until=Now() - passed)
            prune.prune_all()
            with pytest.raises(prune.PruningAlready, match="has begun"):
                renew()


@pytest.mark.django_db
def test_run_that_fails_lets_the_next_one_in(monkeypatch: pytest.MonkeyPatch) -> None:
    old_world()
    monkeypatch.setattr(prune, "_kinds", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        prune.prune_all()
    monkeypatch.undo()
    assert prune.prune_all()["inbound messages"] == 2


# --- runs of numbers ------------------------------------------------------------------------------
def restarted_world(sent_before: int, sent_after: int, last: int | None = None) -> World:
    """A partner that sent some, began again at 1 after number `last`, and sent some more."""
    world = old_world(sent_before)
    link = InboundLink.objects.get(last_number=sent_before)
    if last:
        InboundLink.objects.filter(pk=link.pk).update(last_number=last)
    OutboundLink.objects.filter(next_number=sent_before + 1).update(
        next_number=1, epoch=F("epoch") + 1
    )
    for _ in range(sent_after):
        world.submit()
    world.settle()
    Desk().settle()
    age()
    return world


@pytest.mark.django_db
def test_ids_of_an_earlier_run_stay_until_its_last_number_has_passed() -> None:
    restarted_world(4, 4)
    prune.prune_all()
    assert numbers()[1] == [1, 2, 3, 4, 1, 4]
    assert InboundLink.objects.get(epoch=2).highest_number == 4


@pytest.mark.django_db
def test_ids_of_an_earlier_run_go_when_its_last_number_has_passed() -> None:
    restarted_world(4, 5)
    prune.prune_all()
    assert numbers()[1] == [1, 1, 5]


@pytest.mark.django_db
def test_ids_before_a_wrap_go_when_their_number_has_passed() -> None:
    """No number is higher than 999,999,999, so none passes it."""
    restarted_world(5, 4, last=sequence.LAST)
    prune.prune_all()
    assert numbers()[1] == [1, 4, 5, 1, 4]


# --- batches --------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_night_of_small_batches_removes_all_that_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    old_world(5)
    counts = prune.prunable()
    monkeypatch.setattr(prune, "BATCH", 1)
    batches: list[int] = []

    def note(kind: str, count: int) -> None:
        batches.append(count)
        assert len(batches) < 1000, "the same batch again and again"

    removed = prune.prune_all(note)
    assert removed == counts
    assert max(batches) == 5
    assert numbers() == ([5], [1, 5])


@pytest.mark.django_db
def test_a_batch_removes_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    old_world(5)
    monkeypatch.setattr(prune, "BATCH", 2)
    counts: list[int] = []
    prune.prune_all(
        lambda kind, count: counts.append(count) if kind == "inbound messages" else None
    )
    assert counts[:2] == [2, 3]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["NO KEY UPDATE", "KEY SHARE"], ids=["changed", "referred to"])
def test_locked_rows_are_left_to_the_next_run(how: str) -> None:
    old_world()

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SELECT FROM msh_inboundmessage WHERE sequence_number = 2 FOR {how}")
        in_another_session(prune.prune_all)
        assert numbers()[1] == [1, 2, 4]
    prune.prune_all()
    assert numbers()[1] == [1, 4]
