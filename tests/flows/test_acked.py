"""An Acknowledgement whose link this process remembers: taken without reading, if the statement
that takes it finds everything as it was; else as if nothing had been remembered."""

import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from msh import wire
from msh.flows.operations import cancel, change_link
from msh.flows.receiving import receive
from msh.flows.receiving.incoming import Incoming
from msh.flows.sending import promised
from msh.models import InboundMessage, OutboundLink, OutboundMessage
from msh.store.cache import Cache
from msh.store.receiving.senders import find_sender
from msh.store.sending import acked
from msh.store.sending.acked import AckedLink
from partners.models import Agreement, Credential, OwnIdentity, Partner
from tests.flows.recovering import ANN
from tests.flows.work import Work
from tests.flows.world import World, make_world

from . import byhand
from .acking import (
    ack_in,
    acknowledge,
    found,
    queue,
    remembering_world,
    summary,
    waiting_world,
)

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_ack_within_a_queue_is_taken_in_one_statement() -> None:
    """The first one reads a few of those that are queued, the one for which none is left reads
    more of them."""
    messages = 11
    world, work = waiting_world(["x"] * messages), Work()
    statements = []
    for number in range(messages):
        ack = ack_in(world)
        with work.of(f"{number}"):
            byhand.hand_over(ack, world.there)  # type: ignore[arg-type]
        statements.append(work.phases[f"{number}"]["statements"])
    assert world.link.state == "idle"
    assert statements[1:] == [1, 1, 1, 3, 1, 1, 1, 1, 1, 3]


def test_what_is_remembered_is_what_would_be_read() -> None:
    world = waiting_world()
    queued = queue(world)
    forwarded = make_world()
    forwarded.submit()
    forwarded.settle()
    OutboundMessage.objects.filter(pk=queued[2].pk).update(
        forwards_id=InboundMessage.objects.latest("pk").pk, earlier_attempts=3
    )
    OutboundMessage.objects.filter(pk=queued[1].pk).update(size=F("size") + 1)
    for expected in (3, 2, 1):
        acknowledge(world)
        known = acked._known[world.there.pk]
        flying = world.link.in_flight
        assert flying is not None
        assert known.row.message_id == flying.message_id
        assert len(known.copies) == expected
        read = AckedLink.read(found(world), flying.message_id)
        row = read.links.locked(world.there.pk).row
        if known.copies:
            same = {"now": row.now, "terms": row.terms}
            assert replace(known.row, **same) == row
            assert known.copies == read._copies[:expected]
            remembered = AckedLink.cached(found(world), flying.message_id)
            assert remembered is not None
            assert remembered.links.lane(world.there.pk) == read.links.lane(world.there.pk)


def test_the_time_is_the_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of the last statement, and what has passed since."""
    world = remembering_world()
    before = OutboundMessage.objects.exclude(completed_at=None).latest("pk")
    ack, now = ack_in(world), time.monotonic
    monkeypatch.setattr("msh.store.sending.acked.time.monotonic", lambda: now() + 30)
    seen = uses(monkeypatch)
    byhand.hand_over(ack, world.there)  # type: ignore[arg-type]
    assert seen == [(False, True)]
    after = OutboundMessage.objects.exclude(completed_at=None).latest("pk")
    assert before.completed_at is not None
    assert after.completed_at is not None
    assert timedelta(seconds=30) <= after.completed_at - before.completed_at < timedelta(minutes=1)
    assert world.link.due == after.completed_at + timedelta(seconds=1)


def test_nothing_is_taken_by_memory_that_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the database may have been set."""
    world = remembering_world()
    ack, now = ack_in(world), time.monotonic
    monkeypatch.setattr("msh.store.sending.acked.time.monotonic", lambda: now() + 61)
    seen = uses(monkeypatch)
    byhand.hand_over(ack, world.there)  # type: ignore[arg-type]
    assert seen == [(True, True)]


def test_a_link_that_changed_after_it_was_read_is_read_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Most likely the worker has written how the POST ended."""
    world = remembering_world()
    ack, seen, read = ack_in(world), uses(monkeypatch), AckedLink.read
    acked._known.clear()

    def read_and_outrun(partner: Partner, message_id: str) -> AckedLink:
        link = read(partner, message_id)
        if not seen:
            world.link.save()
        return link

    monkeypatch.setattr(AckedLink, "read", read_and_outrun)
    assert receive.receive_fast_path(found(world), Incoming(ack.content_type, ack.body))
    assert seen == [(True, False), (True, True)]


def uses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool]]:
    """Of each write whether its link was read, and whether it was written."""
    seen: list[tuple[bool, bool]] = []
    write = AckedLink.write

    def spied(link: AckedLink) -> bool:
        seen.append((link._is_read, write(link)))
        return seen[-1][1]

    monkeypatch.setattr(AckedLink, "write", spied)
    return seen


TABLES = (OutboundLink, OutboundMessage, Agreement, Partner, Credential, OwnIdentity)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_row_that_was_read_is_proven(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes one of them: nothing is taken by what was remembered before."""
    world = remembering_world()
    partner, ack, seen = found(world), ack_in(world), uses(monkeypatch)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table._meta.db_table} SET id = id")
    before = summary(world)
    link = AckedLink.cached(partner, ack["ref_to_message_id"])
    assert link is not None
    receive._try_to_acknowledge(partner, wire.parse(ack.content_type, ack.body).header, link)
    assert seen == [(False, False)]
    assert summary(world) == before


def _head(world: World) -> Any:
    return OutboundMessage.objects.filter(pk=queue(world)[0].pk)


def _partner(world: World) -> Any:
    return Partner.objects.filter(pk=world.there.pk)


def _suspend_and_resume(world: World) -> None:
    change_link.suspend(world.there, ANN)
    change_link.resume(world.there, ANN)


CHANGES: dict[str, Callable[[World], object]] = {
    "another process has written the link": lambda world: OutboundLink.objects.update(epoch=1),
    "suspended": lambda world: change_link.suspend(world.there, ANN),
    "suspended and resumed": _suspend_and_resume,
    "the next message is cancelled": lambda world: cancel.cancel(queue(world)[0], None, ANN),
    "the same by hand": lambda world: _head(world).update(state="cancelled"),
    "the next message is another": lambda world: _head(world).update(conversation_id="other"),
    "an earlier message is sent again": lambda world: OutboundMessage.objects.filter(
        pk=OutboundMessage.objects.filter(link=world.link, state="acknowledged").first().pk  # type: ignore[union-attr]
    ).update(state="rewound", earlier_attempts=1),
    "other terms": lambda world: Agreement.objects.update(timeout=1000),
    "another TPAId": lambda world: Agreement.objects.update(tpa_id="tpa-2"),
    "another URI for errors": lambda world: OwnIdentity.objects.update(
        error_uri="http://errors.example/"
    ),
    "late Acknowledgements resume": lambda world: _partner(world).update(resume_on_late_ack=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_a_change_it_ends_as_if_nothing_had_been_remembered(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = uses(monkeypatch)

    def ended() -> list[Any]:
        world = remembering_world()
        CHANGES[change](world)
        find_sender(f"Bearer {world.there.name}")
        seen.clear()
        acknowledge(world)
        assert (False, True) not in seen
        return summary(world)

    by_memory = ended()
    monkeypatch.setattr(acked, "_known", Forgetful())
    assert by_memory == ended()


def test_nothing_is_taken_by_memory_from_who_may_not_send_any_more() -> None:
    world = remembering_world()
    partner, ack, before = found(world), ack_in(world), summary(world)
    world.there.credentials.all().delete()
    assert receive.receive_fast_path(partner, Incoming(ack.content_type, ack.body)) is None
    assert summary(world) == before


def test_messages_of_any_size_are_bounded_in_memory() -> None:
    """The first one is read whatever it has, for it is sent now."""
    large = "x" * 20_000
    for texts, expected in (([large] * 6, [0, 0]), (["x" * 9_000] * 6, [2, 1])):
        world = waiting_world(texts)
        kept = []
        for _ in expected:
            acknowledge(world)
            kept.append(len(acked._known[world.there.pk].copies))
        assert kept == expected
        assert world.link.promised


def test_nothing_is_remembered_of_a_link_that_a_worker_has_to_look_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = remembering_world()
    monkeypatch.setattr(promised, "are_resting", lambda: True)
    acknowledge(world)
    assert world.link.unsent
    assert world.there.pk not in acked._known


class Forgetful(Cache[Any, Any]):
    """Remembers nothing."""

    def remember(self, key: Any, value: Any) -> None:
        pass


@pytest.mark.parametrize("seed", [1, 3])
def test_two_processes_and_one_that_remembers_nothing_leave_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = uses(monkeypatch)

    def ended(processes: list[Any]) -> list[Any]:
        chance = random.Random(seed)
        world = waiting_world()
        for _ in range(30):
            act = chance.choice(["ack"] * 9 + ["submit"] * 6 + ["cancel", "terms", "link"])
            monkeypatch.setattr(acked, "_known", processes[chance.random() < 0.2])
            queued = queue(world)
            if act == "submit":
                world.submit()
            elif act == "cancel" and queued:
                cancel.cancel(chance.choice(queued), None, ANN)
            elif act == "terms":
                Agreement.objects.update(retries=F("retries") + 1)
            elif act == "link":
                change_link.suspend(world.there, ANN)
                change_link.resume(world.there, ANN)
            elif act == "ack" and world.link.in_flight:
                acknowledge(world)
            if world.link.state == "idle":
                byhand.poll()
        return summary(world)

    by_memory = ended([Cache(), Cache()])
    assert (False, True) in seen
    assert by_memory == ended([Forgetful(), Forgetful()])


def test_large_headers_that_are_forwarded_are_not_remembered() -> None:
    world = waiting_world(["x"] * 6)
    forwarded = make_world()
    forwarded.submit()
    forwarded.settle()
    inbound = InboundMessage.objects.latest("pk")
    InboundMessage.objects.filter(pk=inbound.pk).update(header=b"x" * 1_000_000)
    OutboundMessage.objects.filter(pk=queue(world)[2].pk).update(forwards_id=inbound.pk)
    acknowledge(world)
    assert len(acked._known[world.there.pk].copies) == 1
