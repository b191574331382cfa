"""Slots for POSTs to consumers: what has none waits, and hides nothing that has one."""

from collections.abc import Callable

import pytest

from msh.flows.delivery import delivery_loop
from msh.flows.send_budget import BYTES_AT_ONCE
from msh.models import Consumer, ConsumerKind, Delivery, InboundMessage
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store.delivery import polling as delivery_work
from msh.store.sending import polling
from msh.store.sending.message_sql import LARGE
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

HTTP = ConsumerKind.HTTP


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polling, "AT_ONCE", 5)
    monkeypatch.setattr(delivery_work, "AT_ONCE", 5)


def receive_text(world: World, text: str) -> InboundMessage:
    world.submit(text)
    world.settle()
    return InboundMessage.objects.get(link__partner=world.here)


def consumers_of(*worlds: World) -> list[Consumer]:
    """One for each partner."""
    return [
        consumer(HTTP, name=world.here.name, partner=world.here, attempts=5) for world in worlds
    ]


def posted(desk: Desk) -> list[int]:
    """The consumers of one poll's POSTs."""
    before = len(desk.transmitted.jobs)
    desk.poll()
    return [job.partner_id for job in desk.transmitted.jobs[before:]]


def fail_all_once() -> None:
    """Every delivery has failed and is due again, in the order of the messages."""
    desk = Desk()
    while posted(desk):
        for job in desk.transmitted.jobs:
            desk.finish(job.key, AttemptResult(AttemptOutcome.FAILED, 503))
        desk.transmitted.jobs.clear()
        desk.record_ended()
    for minute, delivery in enumerate(Delivery.objects.order_by("message_id")):
        delivery.due = f"2026-01-01T00:{minute:02}Z"
        delivery.save()
    assert set(Delivery.objects.values_list("state", flat=True)) == {"failed"}


STATES = pytest.mark.parametrize("prepare", [lambda: None, fail_all_once], ids=["new", "again"])


@STATES
@pytest.mark.parametrize("left", [0, 1], ids=["full", "nearly full"])
def test_large_messages_that_wait_for_bytes_hide_no_small_one(
    prepare: Callable[[], None], left: int
) -> None:
    """More of them than one poll takes, all older, each of another partner to another consumer."""
    worlds = [make_world() for _ in range(7)]
    for world in worlds[:-1]:
        receive_text(world, "x" * LARGE)
    receive_text(worlds[-1], "small")
    *_, small = consumers_of(*worlds)
    prepare()
    desk = Desk()
    desk.transmitted.held = BYTES_AT_ONCE - left

    keys = posted(desk)

    assert small.pk in keys
    assert len(keys) == 1 + left, "one large message more than fits, and none while it is full"


@STATES
def test_large_messages_go_when_there_are_bytes_again(prepare: Callable[[], None]) -> None:
    worlds = [make_world() for _ in range(6)]
    for world in worlds:
        receive_text(world, "x" * LARGE)
    expected = [one.pk for one in consumers_of(*worlds)]
    prepare()
    desk = Desk()
    desk.transmitted.held = BYTES_AT_ONCE
    assert posted(desk) == []
    served = []
    for _ in worlds:
        desk.transmitted.held = BYTES_AT_ONCE - 1
        served += posted(desk)
        desk.transmitted.jobs.clear()

    assert served == expected


@STATES
def test_a_consumer_with_a_long_queue_does_not_hide_those_of_others(
    prepare: Callable[[], None],
) -> None:
    """Each of its slots is free again at each poll, and what waits for it is older."""
    crowd, other = [make_world() for _ in range(6)], make_world()
    slow = consumer(HTTP, name="slow", attempts=5)
    for world in (*crowd, other):
        receive(world)
    (mine,) = consumers_of(other)
    prepare()
    desk = Desk()
    desk.transmitted.slots = 2

    keys = posted(desk)

    assert keys.count(mine.pk) == 1
    assert keys.count(slow.pk) == 2


def test_functions_that_wait_for_a_thread_hide_no_post() -> None:
    worlds = [make_world() for _ in range(7)]
    for world in worlds:
        receive(world)
    (http,) = consumers_of(worlds[-1])
    consumer(ConsumerKind.IN_PROCESS, attempts=5)
    Delivery.objects.bulk_create(
        Delivery(
            consumer=Consumer.objects.get(kind="in_process") if world is not worlds[-1] else http,
            message=InboundMessage.objects.get(link__partner=world.here),
            state="failed",
            attempt=1,
            failures=1,
            started_at="2026-01-01T00:00Z",
            due=f"2026-01-01T00:{n:02}Z",
        )
        for n, world in enumerate(worlds)
    )
    desk = Desk()
    desk._calls = {delivery_loop.Call(0, order=-n) for n in range(delivery_loop.THREADS)}

    assert posted(desk) == [http.pk]
