"""A wake-up names what was just stored: the worker reads these rows and does not search. The rows
alone say what there is to do, and what is lost with a wake-up, the sweep finds."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from msh.flows import wake_up as wake_ups
from msh.flows.hints import EVERYTHING, NOTHING, Hints, Promise
from msh.flows.sending.sending_loop import SendingLoop
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import OutboundLink
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.sending import polling
from msh.store.sending.links import OutboundLinks
from msh.store.sending.message_sql import LARGE
from msh.transport.carrier import Finished
from tests.flows import byhand
from tests.flows.wake_ups.conftest import hints_of, in_use, taken
from tests.flows.world import make_world
from tests.sessions import in_another_session

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_exchange_by_its_wake_ups_alone(
    loop: SendingLoop, named: list[dict[WakeUp, Hints]]
) -> None:
    world = in_use()
    named.clear()
    for _ in range(2):
        world.submit()
    for number in (1, 2):
        hints = hints_of(named)
        partners = {*hints.links, *(one.partner_id for one in hints.promised)}
        assert (partners, len(hints.promised), hints.all) == ({world.there.pk}, number - 1, False)
        loop.round(hints)
        (copy,) = taken(loop)
        world.hand_over(copy)
        loop.take(Finished(copy, byhand.TRANSMITTED))
        hints = hints_of(named)
        assert (len(hints.signals), hints.all) == (1, False)
        loop.round(hints)
        (ack,) = taken(loop)
        world.hand_over(ack)
        loop.take(Finished(ack, byhand.TRANSMITTED))
        assert len(world.received()) == 2 + number

    assert hints_of(named) == NOTHING
    assert world.link.state == "idle"


def test_message_behind_others_wakes_nobody(named: list[dict[WakeUp, Hints]]) -> None:
    world = make_world()
    world.submit()
    assert hints_of(named).links == {world.there.pk}

    world.submit()
    assert hints_of(named) == NOTHING

    world.settle()
    hints_of(named)
    world.submit()
    assert hints_of(named).links == {world.there.pk}


def test_message_behind_others_in_a_longer_transaction_is_named(
    named: list[dict[WakeUp, Hints]],
) -> None:
    """They may all have been sent when it is committed."""
    world = make_world()
    world.submit()
    hints_of(named)
    with transaction.atomic():
        world.submit()
    assert hints_of(named).links == {world.there.pk}


def test_best_effort_message_is_looked_for(named: list[dict[WakeUp, Hints]]) -> None:
    make_world().submit(semantics=DeliverySemantics.BEST_EFFORT)
    assert hints_of(named) == EVERYTHING


def test_named_link_that_another_holds_is_passed_over(loop: SendingLoop) -> None:
    held, free = make_world(), make_world()
    held.submit()
    free.submit()
    with transaction.atomic():
        OutboundLinks.lock([held.there.pk])
        in_another_session(lambda: loop.round(Hints(frozenset({held.there.pk, free.there.pk}))))
    assert [job.partner_id for job in taken(loop)] == [free.there.pk]


def test_named_link_that_another_holds_is_neither_waited_for_nor_read() -> None:
    held, free = make_world(), make_world()
    held.submit()
    free.submit()

    def lock() -> set[int]:
        with transaction.atomic():
            return set(polling.lock_named((), [held.there.pk, free.there.pk]))

    with transaction.atomic():
        OutboundLinks.lock([held.there.pk])
        assert in_another_session(lock) == {free.there.pk}


def test_named_link_whose_copy_may_not_go_yet_sends_nothing(loop: SendingLoop) -> None:
    world = make_world()
    world.submit()
    byhand.poll(byhand.Carrying(busy=frozenset({world.there.pk})))  # in flight, not sent
    hints = Hints(frozenset({world.there.pk}))
    OutboundLink.objects.update(due=timezone.now() + timedelta(seconds=5))
    loop.round(hints)
    assert taken(loop) == []

    OutboundLink.objects.update(due=timezone.now())
    loop.round(hints)
    assert len(taken(loop)) == 1


@pytest.mark.parametrize("state", ["idle", "waiting"])
def test_what_is_next_is_read_with_the_link(state: str) -> None:
    world, other = make_world(), make_world()
    first, _ = world.submit(), world.submit()
    other.submit()
    if state == "waiting":
        byhand.poll(byhand.Carrying(busy=frozenset({world.there.pk})))
    with transaction.atomic():
        work = polling.lock_named((), [world.there.pk])
    assert [row.id for row in work.copies] == [first.pk]


def test_large_message_is_not_read_before_it_has_a_place() -> None:
    world = make_world()
    world.submit("x" * LARGE)
    with transaction.atomic():
        work = polling.lock_named((), [world.there.pk])
    assert (len(list(work)), work.copies) == (1, [])


@pytest.mark.parametrize(
    "hints",
    [
        Hints(frozenset({1, 22})),
        Hints(frozenset({1}), frozenset({3, 4})),
        Hints(flights=frozenset({9}), promised=frozenset({Promise(1, 2**31, 4, 20.25)})),
        EVERYTHING,
        EVERYTHING | Hints(signals=frozenset({3})),
        EVERYTHING | Hints(promised=frozenset({Promise(1, 2, 4, 20.25)})),
    ],
)
def test_names_survive_the_way(hints: Hints) -> None:
    assert Hints.of_token(hints.token().encode()) == hints


@pytest.mark.parametrize("token", [b"1", b"lx", b"\xff", b"l1 q2", b"l", b"p1:2"])
def test_token_that_cannot_be_read_is_everything(token: bytes) -> None:
    assert Hints.of_token(token).all


TOKENS = wake_ups.tokens_of(WakeUp.TRANSMIT)


@pytest.fixture
def redis() -> Any:
    client = wake_ups.shared_client()
    client.delete(TOKENS)
    return client


def waiting(client: Any) -> list[Hints]:
    """What a loop would be told next, one after the other."""
    return [Hints.of_token(token) for token in client.lrange(TOKENS, 0, -1)]


def publish(hints: Hints) -> None:
    wake_ups._messenger().publish({WakeUp.TRANSMIT: hints})


def test_names_wait_for_a_loop(redis: Any) -> None:
    publish(Hints(signals=frozenset({7})))
    publish(Hints(links=frozenset({5})))
    assert waiting(redis) == [Hints(signals=frozenset({7})), Hints(frozenset({5}))]
    assert 0 < redis.ttl(TOKENS) <= wake_ups.EXPIRE


def test_one_wake_up_for_everything_is_as_good_as_many(redis: Any) -> None:
    """Each costs a poll."""
    for _ in range(3):
        publish(EVERYTHING)
    publish(Hints(links=frozenset({5})))
    for _ in range(3):
        publish(EVERYTHING)
    assert waiting(redis) == [EVERYTHING, Hints(frozenset({5})), EVERYTHING]


def test_names_that_nobody_takes_become_everything(redis: Any) -> None:
    redis.rpush(TOKENS, *(f"l{partner_id}" for partner_id in range(wake_ups.LONGEST - 1)))

    for partner_id in range(1, 9):
        publish(Hints(links=frozenset({partner_id})))

    assert redis.llen(TOKENS) == wake_ups.LONGEST + 1
    assert waiting(redis)[-1] == EVERYTHING


def test_promises_to_many_partners_wait_for_a_busy_worker(redis: Any) -> None:
    """A dropped name keeps its copy back for a second and leaves an attempt without an end."""
    promised = [Promise(partner_id, 7, 1, 30.0) for partner_id in range(1_000)]

    for one in promised:
        publish(Hints(promised=frozenset({one})))
        if one.partner_id == 500:
            redis.pexpire(TOKENS, 60_000)
    assert redis.pttl(TOKENS) <= 5_000  # since the last one, not since the list was empty

    assert waiting(redis) == [Hints(promised=frozenset({one})) for one in promised]


def test_wake_up_of_everything_keeps_hints(named: list[dict[WakeUp, Hints]]) -> None:
    """A poll does not look for what is claimed or promised: without its name it would wait for a
    second."""
    promised = frozenset({Promise(1, 2, 4, 20.25)})
    wake_up(WakeUp.TRANSMIT, promised=promised)
    wake_up(WakeUp.DELIVER, signals=[2])
    wake_up()
    assert named == [
        {WakeUp.TRANSMIT: EVERYTHING | Hints(promised=promised)},
        {WakeUp.DELIVER: EVERYTHING, WakeUp.TRANSMIT: Hints(signals=frozenset({2}))},
    ]


def test_a_round_takes_no_more_links_than_a_poll_and_the_next_ones_the_rest(
    loop: SendingLoop, named: list[dict[WakeUp, Hints]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hints that waited for a worker may be thousands, each with a copy to be read and a step."""
    monkeypatch.setattr(polling, "AT_ONCE", 3)
    worlds = [make_world() for _ in range(7)]
    for world in worlds:
        world.submit()
    sent = []
    loop._hints, loop._polled_at = hints_of(named), time.monotonic()
    for most in (3, 3, 1):
        assert loop.patience() == 0.0
        hints, loop._hints = loop._hints, NOTHING
        loop.round(hints)
        jobs = taken(loop)
        assert len(jobs) == most
        sent += [job.partner_id for job in jobs]
    assert sorted(sent) == [world.there.pk for world in worlds]
    assert loop._hints == NOTHING
    assert loop.patience() > 0


def test_a_named_link_without_a_place_is_left_to_the_poll_that_finds_one(
    loop: SendingLoop, named: list[dict[WakeUp, Hints]]
) -> None:
    world, other = make_world(), make_world()
    world.submit()
    other.submit()
    carrier: Any = loop.carrier
    carrier.room = byhand.Carrying(busy=frozenset({world.there.pk}))

    loop.round(hints_of(named))
    (job,) = taken(loop)
    assert job.partner_id == other.there.pk
    assert world.link.state == "idle"

    carrier.room = byhand.PLENTY
    assert loop.take(Finished(job, byhand.TRANSMITTED)), "a reason to poll"
    loop.round(EVERYTHING)
    assert [job.partner_id for job in taken(loop)] == [world.there.pk]


@pytest.mark.parametrize(
    "token",
    [
        "p1:2:3:nan",
        "p1:2:3:inf",
        "p1:2:3:-inf",
        "p1:2:3:1e9",
        "p1:2:3:0",
        "p1:2:3:-1.0",
        "p1:2:99999999999:5.0",
        f"p{2**63}:2:3:5.0",
        f"p1:{2**63}:3:5.0",
        "p-1:2:3:5.0",
        f"l{2**63}",
        "s-5",
        "f99999999999999999999",
    ],
)
def test_what_no_worker_of_ours_writes_is_no_name(token: str) -> None:
    """Who can write to Redis may not have a POST without a deadline, or statements that fail."""
    hints = Hints.of_token(token.encode())
    assert hints == Hints(all=True)
