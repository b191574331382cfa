"""Transactions that lock the same rows by different ways wait for each other, and never in a ring.

One is stopped after each of its statements in turn; the other runs until it has ended or waits;
then the first goes on. Whatever the moment, PostgreSQL finds no deadlock.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from msh.flows.delivery import consumer_http
from msh.flows.delivery.consumer_http import Posted
from msh.flows.errors import NotPossible
from msh.flows.operations.cancel import cancel, cancel_many
from msh.flows.operations.change_conversation import restart_conversation
from msh.flows.operations.change_delivery import decide
from msh.flows.operations.prune import prune_all
from msh.flows.sending.http_answer import ended_with
from msh.flows.sending.kinds import Ended
from msh.models import (
    Consumer,
    ConsumerKind,
    Delivery,
    InboundMessage,
    InboundPayload,
    Incident,
    OutboundMessage,
)
from msh.protocol.delivery.events import AttemptFailed
from msh.protocol.kinds import Verdict
from msh.store.delivery.deliveries import Consumers
from msh.store.history import Actor
from msh.store.sending.isolation import isolate_flight
from msh.transport.job import Job
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, receive, state_of
from tests.flows.byhand import PLENTY, Carrying
from tests.flows.feed_pages import read_page
from tests.flows.flying import SILENT, Sky, make_sky, round_of
from tests.flows.world import make_world
from tests.sql import Calls, Execute, wrap_execute
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

ANN = Actor("ann", "because")
LONG_AGO = timezone.now() - timedelta(days=800)
Act = Callable[[], object]


@dataclass
class Session(threading.Thread):
    """Runs `act` on a connection of its own; stops once after its `stop_after`-th statement."""

    act: Act
    stop_after: int = 0
    statements: int = 0
    pid: int = 0
    error: BaseException | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '30s'; SET deadlock_timeout = '50ms'")
                cursor.execute("SELECT pg_backend_pid()")
                self.pid = cursor.fetchone()[0]
            with connection.execute_wrapper(self._wrapped):
                self.act()
        except BaseException as error:  # noqa: BLE001  looked at by the test
            self.error = error
        finally:
            connection.close()

    def _wrapped(self, execute: Any, *arguments: Any) -> Any:
        result = execute(*arguments)
        self.count()
        return result

    def count(self) -> None:
        """A statement has ended."""
        self.statements += 1
        if self.statements == self.stop_after:
            self.stopped.set()
            assert self.go_on.wait(60)

    def has_come_to_rest(self) -> bool:
        """It has ended, stopped, or waits for another session."""
        return not self.is_alive() or self.stopped.is_set() or _waits(self.pid)


def _waits(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid])
        return bool(cursor.fetchone()[0])


@pytest.fixture(autouse=True)
def _statements_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(execute: Execute, calls: Calls) -> Any:
        results = execute(calls)
        thread = threading.current_thread()
        if isinstance(thread, Session):
            thread.count()
        return results

    wrap_execute(monkeypatch, counted)


def cross(one: Act, other: Act, stop_after: int) -> bool:
    """Run both so that they meet there. False if `one` has no more statements than that."""
    first, second = Session(one, stop_after), Session(other)
    first.start()
    wait_until(first.has_come_to_rest)
    second.start()
    wait_until(lambda: second.pid and second.has_come_to_rest())
    met = first.stopped.is_set()
    first.go_on.set()
    first.join()
    second.join()
    for session in (first, second):
        if session.error is not None:
            raise session.error
    return met


def cross_everywhere(prepare: Callable[[], tuple[Act, Act]]) -> int:
    """How many times they met, each with rows of its own."""
    met = 0
    while cross(*prepare(), met + 1):
        met += 1
    return met


@pytest.fixture
def orders() -> Consumer:
    return consumer(ConsumerKind.HTTP, attempts=1, on_failure="park")


def add_delivery(orders: Consumer, message: InboundMessage, state: str) -> int:
    """The row id of a delivery of this message in this state, with its incident."""
    made = Delivery.objects.create(
        consumer=orders, message=message, state=state, attempt=1, started_at=LONG_AGO
    )
    kind = {"in_doubt": "delivery_in_doubt"}.get(state, "delivery_failed")
    if not Incident.objects.filter(partner=message.link.partner, kind=kind).exists():
        Incident.objects.create(
            partner=message.link.partner,
            direction="in",
            kind=kind,
            opened_at=LONG_AGO,
            last_at=LONG_AGO,
        )
    return made.pk


def test_a_decision_and_retention(orders: Consumer) -> None:
    """A rejected message is run again while retention finds that its time is over."""

    def prepare() -> tuple[Act, Act]:
        _, message, _ = receive(make_world(), 3)
        key = add_delivery(orders, message, "rejected")
        InboundMessage.objects.filter(pk=message.pk).update(state="rejected", delivered_at=LONG_AGO)
        InboundPayload.objects.exclude(message=message).delete()
        return lambda: decide([key], "run-again", ANN), prune_all

    assert cross_everywhere(prepare) >= 4


def test_decisions_and_places_in_the_feed(orders: Consumer) -> None:
    """Several deliveries, in another order than their messages came in."""

    def prepare() -> tuple[Act, Act]:
        InboundMessage.objects.update(feed_position=F("id"))
        messages = [receive(make_world())[0] for _ in range(2)]
        keys = [add_delivery(orders, message, "blocked") for message in reversed(messages)]
        return lambda: decide(keys, "park", ANN), lambda: list(read_page(0, 10))

    assert cross_everywhere(prepare) >= 4


def test_decisions_on_the_same_two_partners(orders: Consumer) -> None:
    """Each ends the incidents of both, and met them in another order."""

    def prepare() -> tuple[Act, Act]:
        left, right = make_world(), make_world()
        acts = []
        for worlds in ((left, right), (right, left)):
            messages = [receive(world)[0] for world in worlds]
            keys = [add_delivery(orders, message, "blocked") for message in messages]
            acts.append(partial(decide, keys, "mark-completed", ANN))
        return acts[0], acts[1]

    assert cross_everywhere(prepare) >= 4


def test_decisions_and_a_late_outcome(orders: Consumer) -> None:
    """Both end incidents of two kinds."""

    def prepare() -> tuple[Act, Act]:
        doubted, failed, late = receive(make_world(), 3)
        keys = [add_delivery(orders, failed, "blocked"), add_delivery(orders, doubted, "in_doubt")]
        posted = Posted(add_delivery(orders, late, "in_doubt"), 1)
        outcome = AttemptFailed(1, "503")
        return partial(decide, keys, "mark-completed", ANN), partial(
            consumer_http.end, posted, outcome, Consumers()
        )

    assert cross_everywhere(prepare) >= 4


def test_a_copy_that_arrives_does_not_wait_for_the_consumer() -> None:
    """The row of its message is free while the consumer works: the copy is counted there."""
    consumer(ConsumerKind.IN_PROCESS)
    world = make_world()
    _, job = world.start()
    world.hand_over(job)
    message = InboundMessage.objects.get()
    counted = []

    def take(_: InboundMessage) -> None:
        copy = Session(lambda: world.hand_over(job))
        copy.start()
        wait_until(lambda: copy.pid and copy.has_come_to_rest())
        counted.append(InboundMessage.objects.get().duplicates)

    application.act = take
    Desk().settle()
    application.reset()

    assert counted == [1]
    assert state_of(message) == ("delivered", "completed")


def _flown() -> tuple[Sky, OutboundMessage, Job]:
    sky = make_sky(retries=0)
    message, job = sky.start()
    return sky, message, job


def test_a_round_of_flights_crosses_an_acknowledgment() -> None:
    def prepare() -> tuple[Act, Act]:
        sky, message, job = _flown()
        return partial(sky.end, job, SILENT), partial(sky.answer, message)

    assert cross_everywhere(prepare) > 1
    assert {one.state for one in OutboundMessage.objects.all()} == {"acknowledged"}


def test_an_acknowledgment_crosses_an_operator_who_cancels() -> None:
    def prepare() -> tuple[Act, Act]:
        sky, message, _ = _flown()
        cancels = partial(_cancel_if_possible, message)
        return partial(sky.answer, message), cancels

    assert cross_everywhere(prepare) > 1
    for message in OutboundMessage.objects.all():
        assert message.state == "acknowledged" or message.outcome in ("unknown", "received")


def _cancel_if_possible(message: OutboundMessage) -> None:
    with suppress(NotPossible):  # the Acknowledgment was first
        cancel(message, Verdict.UNKNOWN, ANN)


def test_messages_that_are_cancelled_together_cross_rounds_and_acknowledgments() -> None:
    def prepare(turn: int) -> tuple[Act, Act]:
        sky, sent, job = _in_order()
        keys = OutboundMessage.objects.filter(link=sky.link).order_by("-pk")
        together = partial(cancel_many, list(keys.values_list("pk", flat=True)), ANN)
        others = (partial(_round, sky, job), partial(sky.answer, sent))
        return partial(_at_once, together), others[turn]

    for turn in range(2):
        assert cross_everywhere(partial(prepare, turn)) > 1
    assert OutboundMessage.objects.filter(state="cancelled").exists()


def _in_order() -> tuple[Sky, OutboundMessage, Job]:
    sky = make_sky(ordered=True, retries=0)
    first = sky.submit(conversation_id="talk")
    sky.poll()
    sky.answer(first)
    sent = sky.submit(conversation_id="talk")
    sky.submit(conversation_id="talk")
    (job,) = sky.poll(Carrying(left=1))
    return sky, sent, job


def test_conversations_cross_rounds_operators_and_isolation() -> None:
    """A conversation stands behind its flights for everybody."""

    def prepare(turn: int) -> tuple[Act, Act]:
        sky, sent, job = _in_order()
        acknowledged = partial(sky.answer, sent)
        held = partial(isolate_flight, sky.partner.pk, sent.pk, sent.message_id, "an error")
        restart = partial(_restart_if_possible, sky)
        return (
            (partial(_round, sky, job), acknowledged),
            (partial(_round, sky, job), restart),
            (acknowledged, restart),
            (partial(_round, sky, job), partial(_at_once, held)),
        )[turn]

    for turn in range(4):
        assert cross_everywhere(partial(prepare, turn)) > 1


def _round(sky: Sky, job: Job) -> None:
    ended = [ended_with(Ended(job.key, SILENT))]
    with transaction.atomic():
        flights, _ = round_of(PLENTY, ended, (), everything=True)
        flights.write()


def _at_once(act: Act) -> None:
    with transaction.atomic():
        act()


def _restart_if_possible(sky: Sky) -> None:
    with suppress(NotPossible):
        restart_conversation(sky.agreement, "talk", ANN)
