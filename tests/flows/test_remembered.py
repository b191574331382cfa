"""What a process remembers of a pair: it counts only if the statement that accepts a message finds
it unchanged."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model, QuerySet

from msh import wire
from msh.flows.receiving.incoming import Answer, Incoming
from msh.flows.receiving.receive import receive, receive_fast_path
from msh.flows.sending.submit import submit
from msh.models import History, InboundLink, InboundMessage, Signal
from msh.protocol.message import Payload
from msh.store import cache
from msh.store.receiving import fast_path
from msh.store.receiving.accept import Accepted
from msh.store.receiving.fast_path import accept_at_once
from msh.store.receiving.senders import find_sender
from msh.transport.job import Job
from partners.models import Agreement, Credential, OwnIdentity, Partner, Route
from tests.flows.work import Work
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world() -> World:
    """Messages have come, so that the pair is in use and remembered."""
    world = make_world()
    OwnIdentity.objects.create(msh_uri="http://own.example/")
    for _ in range(3):
        world.submit()
        world.settle()
    return world


def next_job(world: World, payloads: int = 1) -> Job:
    new = [Payload(b"x", label=f"{n}") for n in range(payloads)]
    submit(world.agreement, "Orders", "New", new)
    (job,) = world.poll()
    return job


def found(world: World) -> Partner:
    partner = find_sender(f"Bearer {world.here.name}")
    assert partner is not None
    return partner


def take(partner: Partner, job: Job) -> Answer | None:
    return receive_fast_path(partner, Incoming(job.content_type, job.body))


def is_accepted_at_once(partner: Partner, job: Job) -> bool:
    """Without the lock."""
    return isinstance(accept_at_once(partner, wire.parse(job.content_type, job.body)), Accepted)


def message_id_of(job: Job) -> str:
    return wire.parse(job.content_type, job.body).header.message_id


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (InboundMessage, Signal, History))


@pytest.mark.parametrize("payloads", [0, 1, 3])
def test_the_next_message_is_accepted_in_one_statement(world: World, payloads: int) -> None:
    partner, job, work = found(world), next_job(world, payloads), Work()

    with work.of("receive"):
        assert take(partner, job) == Answer(204)

    assert (work.total()["statements"], work.total()["transactions"]) == (1, 1)
    message = InboundMessage.objects.latest("id")
    assert message.payloads.count() == payloads
    entry, signal = History.objects.latest("id"), Signal.objects.latest("id")
    assert (entry.event, entry.message_id) == ("MessageArrived", message.message_id)
    assert entry.at == message.received_at == signal.first_at
    assert signal.due - signal.first_at == timedelta(seconds=1)
    assert signal.expires_at - signal.first_at == timedelta(seconds=60 + 3 * 60)


def test_what_another_process_accepted_costs_no_statement_that_fails(world: World) -> None:
    partner, work = found(world), Work()
    link, agreement = fast_path._links.copy(), fast_path._agreements.copy()
    assert take(partner, next_job(world))
    world.settle()
    fast_path._links.update(link)
    fast_path._agreements.update(agreement)
    job = next_job(world)

    with work.of("receive"):
        assert take(partner, job) == Answer(204)

    assert work.total()["statements"] == 2


TABLES: tuple[type[Model], ...] = (InboundLink, Agreement, Partner, Credential, OwnIdentity)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_of_what_was_read_is_proven(world: World, table: type[Model]) -> None:
    """Whatever is written of these rows, nothing is accepted by what was remembered before."""
    partner, job = found(world), next_job(world)
    message = wire.parse(job.content_type, job.body)
    link, agreement = (
        fast_path._links[partner.pk],
        fast_path._agreements[fast_path._asked(partner.pk, message)],
    )
    before = counts()
    for column in (f'"{field.column}"' for field in table._meta.concrete_fields):
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table._meta.db_table} SET {column} = {column}")
        assert fast_path._accept(partner, message, link, agreement) is None, column
    assert counts() == before


def _agreement(world: World) -> QuerySet[Agreement]:
    return Agreement.objects.filter(partner=world.here)


def _partner(world: World) -> QuerySet[Partner]:
    return Partner.objects.filter(pk=world.here.pk)


def _link(world: World) -> QuerySet[InboundLink]:
    return InboundLink.objects.filter(partner=world.here)


CHANGES: dict[str, Callable[[World], object]] = {
    "an operator has set the last number": lambda world: _link(world).update(last_number=7),
    "the agreement has another TPAId": lambda world: _agreement(world).update(tpa_id="tpa-2"),
    "the agreement has another party": lambda world: _agreement(world).update(their_party="333"),
    "the agreement has another dialect": lambda world: _agreement(world).update(dialect="ebms2"),
    "its party is behind another MSH": lambda world: Route.objects.create(
        to_party="222", partner=world.there
    ),
    "the credential is gone": lambda world: world.here.credentials.all().delete(),
    "it may not come from here": lambda world: _partner(world).update(allowed_networks="::1"),
    "we have another URI": lambda world: OwnIdentity.objects.update(msh_uri="http://b.example/"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_accepted_by_memory_after_a_change(world: World, change: str) -> None:
    job, partner = next_job(world), found(world)
    CHANGES[change](world)
    before = counts()
    assert not is_accepted_at_once(partner, job)
    assert counts() == before


def test_a_route_for_the_context_of_its_agreement_counts(world: World) -> None:
    _agreement(world).update(our_party_context="DUNS")
    Agreement.objects.filter(partner=world.there).update(
        our_party_context="", their_party_context="DUNS"
    )
    world.agreement.refresh_from_db()
    for _ in range(2):
        world.submit()
        world.settle()
    job, partner, work = next_job(world), found(world), Work()
    Route.objects.create(to_party="222", to_party_context="DUNS", partner=world.there)
    with work.of("receive"):
        assert not is_accepted_at_once(partner, job)
    assert work.total()["statements"] == 2


def test_other_parties_are_looked_up(world: World) -> None:
    partner, job = found(world), next_job(world)
    other = job.body.replace(b">111<", b">112<")
    assert other != job.body
    before = counts()
    message = wire.parse(job.content_type, other)
    assert not isinstance(accept_at_once(partner, message), Accepted)
    assert counts() == before
    assert take(partner, job)


def test_the_limits_of_the_partner_count(world: World) -> None:
    """For who was remembered with them, too."""
    _partner(world).update(rate_limit=4)
    partner = found(world)
    assert take(partner, next_job(world))
    world.settle()
    job, before = next_job(world), counts()
    assert not is_accepted_at_once(partner, job)
    assert counts() == before


def test_nothing_is_accepted_by_memory_while_the_store_is_full(world: World, settings: Any) -> None:
    partner, job, before = found(world), next_job(world), counts()
    settings.MSH_DISK_PATH, settings.MSH_DISK_WATERMARK = "/", 10**18
    assert not is_accepted_at_once(partner, job)
    assert counts() == before


CHANGED_PARTNER = {
    "the credential is gone",
    "it may not come from here",
    "we have another URI",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_second_try_does_not_look_for_the_partner_again(world: World, change: str) -> None:
    """Unless it has changed, which the statement of the first try tells."""
    job, partner = next_job(world), found(world)
    CHANGES[change](world)
    if change in CHANGED_PARTNER:
        assert take(partner, job) is None
        return
    answer = take(partner, job)
    assert answer is not None
    assert answer.status == 204
    assert Signal.objects.latest("id").ref_to_message_id == message_id_of(job)


def test_a_changed_agreement_counts_from_the_next_message_on(world: World) -> None:
    job, partner = next_job(world), found(world)
    _agreement(world).update(timeout=1000)
    assert take(partner, job)
    signal = Signal.objects.latest("id")
    assert signal.expires_at - signal.first_at == timedelta(seconds=1000 + 3 * 60)


def test_a_message_id_that_is_known_is_not_accepted_by_memory(world: World) -> None:
    """It came as BestEffort, under no number, so that the link is as it was."""
    job, partner = next_job(world), found(world)
    message_id = wire.parse(job.content_type, job.body).header.message_id
    InboundMessage.objects.filter(pk=InboundMessage.objects.latest("id").pk).update(
        message_id=message_id
    )
    before = counts()
    assert not is_accepted_at_once(partner, job)
    assert counts() == before
    receive(partner, Incoming(job.content_type, job.body))
    assert Signal.objects.latest("id").code == "MessageIdReused"


def test_a_partner_may_have_several_agreements(world: World) -> None:
    """Their messages share the numbers of the link."""
    for side, parties in ((world.there, ("111", "222")), (world.here, ("222", "111"))):
        ours, theirs = parties
        Agreement.objects.create(partner=side, tpa_id="tpa-2", our_party=ours, their_party=theirs)
    second = Agreement.objects.get(partner=world.there, tpa_id="tpa-2")
    partner = found(world)
    statements = []
    for agreement in (second, world.agreement, second):
        submit(agreement, "Orders", "New", [])
        (job,) = world.poll()
        work = Work()
        with work.of("receive"):
            assert take(partner, job)
        statements.append(work.total()["statements"])
        world.settle()
    assert statements == [2, 1, 1]


def test_nothing_is_remembered_with_a_new_session(world: World) -> None:
    """It may be one with a database that was restored."""
    assert fast_path._links
    assert fast_path._agreements
    connection.close()
    world.received()
    assert not fast_path._links
    assert not fast_path._agreements


def test_not_more_is_remembered_than_a_process_has_room_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "ENTRIES", 1)
    other = make_world()
    for one in (other, world, other):
        for _ in range(3):
            one.submit()
            one.settle()
    assert len(fast_path._links) == len(fast_path._agreements) == 1


def test_nothing_is_remembered_of_a_server_that_was_restarted(world: World) -> None:
    """Or restored, or is another one: behind a pooler the session stays, and the numbers of its
    transactions are given once more."""
    before, first, second = found(world), next_job(world), Work()
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA restarted")
        cursor.execute(
            "CREATE FUNCTION restarted.pg_postmaster_start_time() RETURNS timestamptz STABLE"
            " LANGUAGE sql AS 'SELECT ''2026-01-01''::timestamptz'"
        )
        cursor.execute("SET search_path = restarted, public, pg_catalog")
    try:
        assert take(before, first) is None, "the partner is remembered"
        partner = found(world)
        with second.of("receive"):
            assert take(partner, first) == Answer(204)
        assert second.total()["statements"] == 2, "the link is not read"
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET search_path")
            cursor.execute("DROP SCHEMA restarted CASCADE")
