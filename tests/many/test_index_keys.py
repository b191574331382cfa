"""Business keys of messages: what is indexed when, and what does not stop it."""

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries

from msh import tasks
from msh.business_keys import store as business_keys
from msh.business_keys.flows import index_keys as job
from msh.business_keys.flows.index_keys import index_keys
from msh.business_keys.models import BusinessKey, KeyProgress, KeyRule
from msh.flows.operations import sweeps
from msh.models import InboundMessage, OutboundMessage
from msh.wire.business_keys import document_of
from tests.flows.costs import statements_of
from tests.flows.world import World, make_world
from tests.waiting import wait_until


def rule(name: str = "order", path: str = "/order/id", **values: object) -> KeyRule:
    return KeyRule.objects.create(name=name, path=path, **values)


def order(number: int | str) -> str:
    return f"<order><id>{number}</id></order>"


def index() -> None:
    while index_keys():
        pass


def found(value: int | str) -> tuple[list[str], list[str]]:
    """MessageIds of what was sent and received with this value."""
    keys = BusinessKey.objects
    sent = OutboundMessage.objects.filter(pk__in=keys.messages(str(value), "outbound"))
    received = InboundMessage.objects.filter(pk__in=keys.messages(str(value), "inbound"))
    return (
        list(sent.values_list("message_id", flat=True)),
        list(received.values_list("message_id", flat=True)),
    )


def settled() -> bool:
    """Once all transactions have ended, other tests' too: one server has all."""
    index()
    return all(progress.gaps == [] for progress in KeyProgress.objects.all())


@pytest.fixture
def world(db: None) -> World:
    return make_world()


def test_messages_are_found_in_both_directions(world: World) -> None:
    rule()
    sent = world.submit(order(7))
    world.settle()
    index()
    assert found(7) == ([sent.message_id], [sent.message_id])
    assert found(8) == ([], [])


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each look of a sweep has found; none has looked yet."""
    found: list[int] = []
    looks = [lambda: found.append(index_keys())]
    monkeypatch.setattr(sweeps, "for_business_keys", looks)
    return found


def test_a_sweep_indexes_them(world: World, looks: list[int]) -> None:
    rule()
    for number in (7, 8):
        world.submit(order(number))
        tasks.sweep()
    assert looks == [1, 1]


def test_a_sweep_without_rules_looks_for_nothing(world: World, looks: list[int]) -> None:
    world.submit(order(7))
    tasks.sweep()
    assert looks == []


def test_a_rule_is_for_its_documents_only(world: World) -> None:
    other = make_world()
    rule(agreement=world.agreement)
    rule("action", service_interface="Orders", action="Other")
    for one in (world, other):
        one.submit(order(7))
    index()
    (key,) = BusinessKey.objects.all()
    assert key.outbound
    assert (key.rule.name, key.outbound.link.partner) == ("order", world.there)


def test_what_was_stored_before_is_indexed_in_batches_that_resume(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = [world.submit(order(number)) for number in range(7)]
    monkeypatch.setattr(job, "BATCH", 3)
    monkeypatch.setattr(business_keys, "FIRST_GAP", 0)
    rule()
    keep = business_keys.Indexing.keep
    kept: list[object] = []

    def dying(self: business_keys.Indexing, values: object) -> None:
        keep(self, values)  # type: ignore[arg-type]
        kept.append(values)
        if len(kept) == 4:  # two of inbound messages have found nothing
            raise KeyboardInterrupt

    monkeypatch.setattr(business_keys.Indexing, "keep", dying)
    with pytest.raises(KeyboardInterrupt):
        index()
    monkeypatch.setattr(business_keys.Indexing, "keep", keep)
    there = BusinessKey.objects.count()
    assert 0 < there < 7
    index()
    assert [found(number)[0] for number in range(7)] == [[one.message_id] for one in sent]
    assert BusinessKey.objects.count() == 7
    assert KeyRule.objects.get().is_indexed


def test_a_payload_that_cannot_be_read_stops_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule()
    for text in ("<order>", "<!DOCTYPE order><order/>", "no XML", order("raises")):
        world.submit(text)
    last = world.submit(order(7))

    def raising(content: bytes) -> object:
        if b"raises" in content:
            raise RuntimeError("what nobody has thought of")
        return document_of(content)

    monkeypatch.setattr(job, "document_of", raising)
    index()
    assert found(7) == ([last.message_id], [])


def test_without_rules_the_job_is_one_statement(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    world.submit(order(7))
    assert statements_of(index_keys) == []
    with django_assert_num_queries(1):
        index_keys()
    assert not KeyProgress.objects.exists()


def test_a_rule_that_is_off_finds_nothing_and_its_values_go(world: World) -> None:
    rule()
    world.submit(order(7))
    index()
    KeyRule.objects.update(enabled=False)
    assert found(7) == ([], [])
    index()
    assert not BusinessKey.objects.exists()
    assert not KeyProgress.objects.exists()
    KeyRule.objects.update(enabled=True)
    index()
    assert len(found(7)[0]) == 1


@pytest.mark.django_db(transaction=True)
def test_a_message_that_commits_late_is_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its id is lower than the last one that was seen."""
    monkeypatch.setattr(business_keys, "REST", 3600)
    world = make_world()
    world.submit(order(0))
    rule()
    index()
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval('msh_outboundmessage_id_seq')")
        (early,) = cursor.fetchone()
    world.submit(order(8))
    index()
    late = world.submit(order(7))
    with connection.cursor() as cursor:
        for table, column in (("message", "id"), ("payload", "message_id")):
            cursor.execute(
                f"UPDATE msh_outbound{table} SET {column} = %s WHERE {column} = %s",
                [early, late.pk],
            )
    index()
    assert found(7) == ([], [])
    monkeypatch.setattr(business_keys, "REST", 0)
    wait_until(settled)
    assert found(7) == ([late.message_id], [])


@pytest.mark.django_db(transaction=True)
def test_a_gap_is_kept_while_a_transaction_of_then_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(business_keys, "REST", 0)
    monkeypatch.setattr(business_keys, "FIRST_GAP", 0)
    world = make_world()
    rule()
    index()
    other = connection.copy()
    other.set_autocommit(False)
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id(), nextval('msh_outboundmessage_id_seq')")
            _, missing = cursor.fetchone()
        world.submit(order(8))
        index()
        index()
        gaps = KeyProgress.objects.get(pk="outbound").gaps  # and others, of other tests' sessions
        assert any(first <= missing <= last for first, last, _, _ in gaps)
    finally:
        other.rollback()
        other.close()
    wait_until(settled)


def test_a_gap_of_the_database_that_was_restored_is_settled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pg_restore` makes a database whose transactions are counted anew."""
    monkeypatch.setattr(business_keys, "REST", 0)
    rule()
    sent = world.submit(order(7))
    gap = [sent.pk, sent.pk, 2**40, 0.0]
    for direction in ("inbound", "outbound"):
        KeyProgress.objects.create(direction=direction, seen=sent.pk, gaps=[gap])
    KeyRule.objects.update(inbound_before=0, outbound_before=0)
    index()
    assert found(7)[0] == [sent.message_id]
    assert [one.gaps for one in KeyProgress.objects.all()] == [[], []]


def test_a_rule_that_is_made_during_a_run_misses_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a run looks at after the new rule has begun is looked at for it too."""
    rule()
    world.submit(order(7))
    index()
    monkeypatch.setattr(job, "BATCH", 1)
    world.submit(order(8))
    sent: list[OutboundMessage] = []
    lock = business_keys.lock_progress

    def locking(direction: str) -> business_keys.Indexing | None:
        if not sent:  # the run has begun; another worker sees the new rule first
            monkeypatch.setattr(job, "lock_progress", lock)
            rule("number", "//id")
            index()
            sent.append(world.submit(order(9)))
        return lock(direction)

    monkeypatch.setattr(job, "lock_progress", locking)
    index()
    found = BusinessKey.objects.filter(value="9").values_list("rule__name", flat=True)
    assert sorted(found) == ["number", "order"]


def test_a_run_that_saw_no_rule_forgets_nothing_that_another_has_begun(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(enabled=False)
    KeyProgress.objects.create(direction="inbound", seen=0, gaps=[])
    remove = business_keys.remove_keys

    def removing(rows: list[KeyRule], limit: int) -> int:
        monkeypatch.setattr(job, "remove_keys", remove)
        KeyRule.objects.update(enabled=True)
        index()
        return 0

    monkeypatch.setattr(job, "remove_keys", removing)
    index_keys()
    assert KeyProgress.objects.count() == 2
