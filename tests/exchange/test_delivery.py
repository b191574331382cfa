"""MSH → application, with real processes that are killed: nothing is lost, nothing is duplicated in
silence. The one window that cannot be closed is shown as IN_DOUBT."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from msh.faults import CrashPoint
from msh.models import Consumer, Delivery, InboundMessage
from msh.protocol.message import Header, Party, Payload, Route
from msh.protocol.received import ReceivedMessage
from msh.protocol.vocabulary import DeliverySemantics, MessageType
from msh.store.receiving.messages import receive_message
from tests.exchange.machine import Machine
from tests.exchange.outside import Outside, outside_system
from tests.exchange.pair import OUR_PARTY, THEIR_PARTY, WAITS, Pair, PairFactory
from tests.exchange.test_crash_points import insist
from tests.peer import Draft, normal
from tests.waiting import wait_until

LEASE = 3  # seconds
RESOLVER = "tests.exchange.application.resolve"
CAMPAIGN = int(os.environ.get("DELIVERY_MESSAGES", "200"))
"""Messages of the campaign: make test DELIVERY_MESSAGES=10000 ARGS="-k campaign"."""

ConsumerFactory = Callable[..., Consumer]


@pytest.fixture
def outside() -> Iterator[Outside]:
    with outside_system() as server:
        yield server


@pytest.fixture
def consumer(msh: Machine) -> Iterator[ConsumerFactory]:
    """Consumers of one partner each, switched off after the test."""
    made: list[Consumer] = []

    def make(pair: Pair, **values: object) -> Consumer:
        kind = "http" if "url" in values else "in_process"
        terms = {"lease": LEASE, "retry_interval": 0, **values}
        one = Consumer(name=pair.partner.name, partner=pair.partner, kind=kind, **terms)
        one.full_clean()
        one.save()
        made.append(one)
        return one

    yield make
    msh.crash_file.unlink(missing_ok=True)
    Consumer.objects.filter(pk__in=[one.pk for one in made]).update(enabled=False)


def receive(pair: Pair) -> Draft:
    """A reliable message comes from the peer, and is acknowledged."""
    pair._received += 1
    draft = normal(sequence_number=pair._received)
    insist(pair, draft)
    return draft


def state_of(draft: Draft) -> str:
    delivery = Delivery.objects.filter(message__message_id=draft.message_id).first()
    return delivery.state if delivery else ""


def wait_for_delivery(draft: Draft, state: str) -> Delivery:
    wait_until(
        lambda: state_of(draft) == state,
        seconds=WAITS,
        what=lambda: f"a delivery {state}, it is {state_of(draft)!r}",
    )
    return Delivery.objects.select_related("message").get(message__message_id=draft.message_id)


def die_at(msh: Machine, point: CrashPoint, pair: Pair) -> Draft:
    before = msh.pids()["worker"]
    msh.crash_file.write_text(point)
    draft = receive(pair)
    wait_until(lambda: not msh.crash_file.exists(), seconds=WAITS, what=f"a death at {point}")
    wait_until(lambda: msh.pids().get("worker", before) != before, seconds=WAITS)
    return draft


# Where the worker dies, whether there is a resolver, what becomes of the delivery, and how often
# the outside system may have committed the message: the table of docs/delivery.md.
MATRIX = [
    (CrashPoint.DELIVER_AFTER_CLAIM, False, "in_doubt", {0}),
    (CrashPoint.DELIVER_AFTER_CLAIM, True, "completed", {1}),
    (CrashPoint.CONSUMER_BEFORE_WRITE, False, "in_doubt", {0}),
    (CrashPoint.CONSUMER_BEFORE_WRITE, True, "completed", {1}),
    (CrashPoint.CONSUMER_AFTER_WRITE, False, "in_doubt", {0, 1}),
    (CrashPoint.CONSUMER_AFTER_WRITE, True, "completed", {1}),
    (CrashPoint.CONSUMER_BEFORE_HISTORY, False, "in_doubt", {1}),
    (CrashPoint.CONSUMER_BEFORE_HISTORY, True, "completed", {1}),
    (CrashPoint.CONSUMER_AFTER_HISTORY, False, "completed", {1}),
    (CrashPoint.CONSUMER_AFTER_HISTORY, True, "completed", {1}),
]


@pytest.mark.requirement(
    *("001-16", "002-04", "002-08", "002-09", "003-04", "004-01", "004-02", "004-08", "004-10")
)
@pytest.mark.parametrize(("point", "resolves", "state", "committed"), MATRIX)
def test_crash_matrix_of_an_outside_system(
    point: CrashPoint,
    resolves: bool,
    state: str,
    committed: set[int],
    pair: PairFactory,
    consumer: ConsumerFactory,
    outside: Outside,
    msh: Machine,
) -> None:
    partner = pair(acknowledges=True)
    consumer(partner, url=outside.url, resolver=RESOLVER if resolves else "")

    draft = die_at(msh, point, partner)
    kept = wait_for_delivery(draft, state)

    assert outside.committed[draft.message_id] in committed
    in_doubt = state == "in_doubt"
    assert partner.incidents() == (["delivery_in_doubt"] if in_doubt else [])
    if not in_doubt:
        wait_until(lambda: Delivery.objects.get(pk=kept.pk).due is None, seconds=WAITS)
        assert InboundMessage.objects.get(pk=kept.message_id).state == "delivered"
        behind = receive(partner)
        wait_for_delivery(behind, "completed")
        assert outside.committed[draft.message_id] == 1


@pytest.mark.requirement("001-06", "001-08", "001-11", "001-12", "003-02", "003-03", "003-04")
@pytest.mark.parametrize(
    "point",
    [
        CrashPoint.DELIVER_AFTER_CLAIM,
        CrashPoint.DELIVER_BEFORE_COMMIT,
        CrashPoint.DELIVER_AFTER_COMMIT,
        None,
    ],
)
def test_crash_matrix_of_an_in_process_consumer(
    point: CrashPoint | None, pair: PairFactory, consumer: ConsumerFactory, msh: Machine
) -> None:
    """Before, in (None), after the consumer: exactly one effect."""
    partner = pair(acknowledges=True)
    name = "die" if point is None else "consume"
    consumer(partner, path=f"tests.exchange.application.{name}", history=True)

    draft = receive(partner) if point is None else die_at(msh, point, partner)
    behind = receive(partner)

    for one in (draft, behind):
        wait_for_delivery(one, "completed")
        assert msh.taken(one.message_id) == 1
    assert partner.incidents() == []


@pytest.mark.requirement("001-14", "002-12", "002-13")
def test_without_its_store_nothing_is_taken_and_all_resumes(
    pair: PairFactory, consumer: ConsumerFactory, outside: Outside, msh: Machine
) -> None:
    partner = pair(acknowledges=True)
    consumer(partner, url=outside.url)
    wait_for_delivery(receive(partner), "completed")
    acks = len(partner.peer.received)
    partner._received += 1
    draft = normal(sequence_number=partner._received)

    msh.cut_database()
    try:
        response = partner.peer.send(draft)
    finally:
        msh.unlock_database()

    assert response.status == 503
    assert len(partner.peer.received) == acks
    assert draft.message_id not in outside.committed
    insist(partner, draft)
    wait_for_delivery(draft, "completed")
    assert outside.committed[draft.message_id] == 1


@pytest.mark.parametrize(
    ("status", "size", "state"), [(302, 0, "blocked"), (200, 10_000_000, "completed")]
)
def test_strange_answers_of_a_consumer(
    status: int,
    size: int,
    state: str,
    pair: PairFactory,
    consumer: ConsumerFactory,
    outside: Outside,
) -> None:
    partner = pair(acknowledges=True)
    consumer(partner, url=outside.url, attempts=2)
    outside.status, outside.answer = status, b"x" * size
    kept = wait_for_delivery(receive(partner), state)
    assert kept.attempt == (2 if state == "blocked" else 1)
    if state == "blocked":
        assert "redirects are not followed" in kept.detail
        assert partner.incidents() == ["delivery_failed"]


@pytest.mark.requirement("000-002", "001-20", "001-24", "003-09")
def test_campaign(pair: PairFactory, consumer: ConsumerFactory, msh: Machine) -> None:
    """Many messages into in-process consumers with tables of their own, workers killed at random:
    each takes effect exactly once, in the order of its pair."""
    partners = [pair(acknowledges=True) for _ in range(4)]
    for number, partner in enumerate(partners):
        path = "tests.exchange.application.consume_slowly"
        consumer(partner, path=path, history=number % 2 == 0, attempts=1000)
    count = CAMPAIGN // len(partners)
    dice = random.Random(3)
    deaths = set(dice.sample(range(1, count), max(3, CAMPAIGN // 1000)))
    victims = set()
    for number in range(1, count + 1):
        for partner in partners:
            store(partner, number)
        if number in deaths:
            victims.add(kill_worker(partners, msh))
    wait_until(lambda: not _undelivered(partners), seconds=WAITS + CAMPAIGN / 5)
    assert len(victims) == len(deaths)
    assert msh.calls(_names(partners)) > count * len(partners), "a call died and is made again"
    for partner in partners:
        expected = [_id(partner, n) for n in range(1, count + 1)]
        assert _taken(partner) == expected


def kill_worker(partners: list[Pair], msh: Machine) -> int:
    """SIGKILL while it delivers; its process id. The supervisor starts another one."""
    called = msh.calls(_names(partners))
    wait_until(
        lambda: msh.calls(_names(partners)) > called or not _undelivered(partners), seconds=WAITS
    )
    pid = msh.pids()["worker"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: msh.pids().get("worker", pid) != pid, seconds=WAITS)
    return pid


def store(partner: Pair, number: int) -> None:
    """The message is accepted; on a machine so busy that the database gives up on us, again."""
    last = time.monotonic() + WAITS
    while True:
        try:
            receive_message(partner.partner, _received(partner, number))
        except DatabaseError:
            connection.close()
            if time.monotonic() > last:
                raise
        else:
            return


def _id(partner: Pair, number: int) -> str:
    return f"{partner.partner.name}-{number}"


def _received(partner: Pair, number: int) -> ReceivedMessage:
    now = timezone.now()
    route = Route(partner.partner.uri, partner.msh.uri, partner.partner.uri, now, number)
    header = Header(
        message_type=MessageType.NORMAL,
        from_party=Party(THEIR_PARTY, "DUNS"),
        to_party=Party(OUR_PARTY, "DUNS"),
        tpa_id=partner.agreement.tpa_id,
        conversation_id="campaign",
        service_interface="Orders",
        action="New",
        message_id=_id(partner, number),
        timestamp=now,
        semantics=DeliverySemantics.ONCE_AND_ONLY_ONCE,
        routing=(route,),
    )
    return ReceivedMessage(header, (Payload(b"<Order/>"),), b"d" * 32, b"<header/>")


def _undelivered(partners: list[Pair]) -> int:
    keys = [partner.partner.pk for partner in partners]
    return InboundMessage.objects.filter(link__partner__in=keys, state="accepted").count()


def _names(partners: list[Pair]) -> tuple[str, ...]:
    """How the MessageIds of each begin."""
    return tuple(f"{partner.partner.name}-" for partner in partners)


def _taken(partner: Pair) -> list[str]:
    """What its consumer's own table holds, in the order of its transactions."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT message_id FROM exchange_taken WHERE message_id LIKE %s ORDER BY serial",
            [f"{partner.partner.name}-%"],
        )
        return [row[0] for row in cursor.fetchall()]
