"""What one poll for deliveries costs: by the messages that wait, not by the links there are."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from msh.models import Consumer, ConsumerKind, Delivery, InboundConversation, InboundMessage
from msh.store.delivery import polling as delivery_work
from msh.store.delivery.polling_sql import FIND_NEW_OF_LINK
from msh.store.delivery.unclaimed import alarm_unclaimed, first_unclaimed
from msh.store.operations.stuck_links import find_undelivered
from msh.store.sending.polling import Slots
from partners.models import Partner
from tests.delivery.desk import Desk, consumer, receive
from tests.flows.costs import add_idle_partners, cost_of, multiply, statements_of
from tests.flows.world import make_world
from tests.sql import analyze, reindex

pytestmark = pytest.mark.django_db

KINDS = list(ConsumerKind)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def some_work() -> Consumer:
    """New heads for each kind of consumer, heads that none takes, a delivery to run again."""
    worlds = [make_world() for _ in range(10)]
    for world in worlds:
        receive(world, 3)
    for kind, world in zip(KINDS, worlds, strict=False):
        consumer(kind, name=kind.value.replace("_", "-"), partner=world.here)
    failed = Desk()
    failed.poll()
    failed.answer(503)
    Delivery.objects.update(due="2026-01-01T00:00Z")
    alarm_unclaimed()
    analyze()
    return Consumer.objects.get(kind=ConsumerKind.PULL)


def poll(pull: Consumer) -> None:
    """All that workers and pull consumers search for."""
    slots = Slots(8, 256)
    delivery_work.find_new_to_post((), slots)
    delivery_work.find_new_to_call((), (), 50)
    delivery_work.find_due((), (), slots)
    delivery_work.find_takeable(pull, 50)
    alarm_unclaimed()
    find_undelivered(timedelta(), 50)


def cost_of_a_poll(pull: Consumer) -> int:
    found = statements_of(lambda: poll(pull))
    return sum(cost_of(call, by_index=False) for call in found)


def add_consumers_of_idle_partners() -> None:
    idle = Partner.objects.filter(name__startswith="idle-")
    Consumer.objects.bulk_create(
        Consumer(name=one.name, partner=one, kind=ConsumerKind.PULL) for one in idle
    )
    analyze("msh_consumer")


GROWTH = 400
"""Some ten heads and eight statements: for each, indexes get a level more. A statement that reads
every link or every consumer once costs more than that."""


def test_partners_from_which_nothing_waits_do_not_slow_a_poll(some_work: Consumer) -> None:
    before = cost_of_a_poll(some_work)
    add_idle_partners(800)
    add_consumers_of_idle_partners()
    assert cost_of_a_poll(some_work) < before + GROWTH


@pytest.mark.parametrize("in_order", [False, True])
def test_a_missing_consumer_is_found_at_the_head_of_a_long_queue(in_order: bool) -> None:
    world = make_world()
    (message,) = receive(world)
    if in_order:
        message.ordered_in = InboundConversation.objects.create(
            link=message.link,
            agreement=message.agreement,
            conversation_id="talk",
            last_at=message.received_at,
        )
        message.save(update_fields=["ordered_in"])

    def cost_of_search() -> int:
        (call,) = statements_of(lambda: first_unclaimed([world.here.pk]))
        return cost_of(call, by_index=False)

    before = cost_of_search()
    multiply(message, 3000, message_id="'copy-' || n", sequence_number="NULL", epoch="NULL")
    assert cost_of_search() < before + 40
    assert first_unclaimed([world.here.pk])[world.here.pk].action == message.action


@pytest.fixture
def run_again() -> Callable[[Consumer, int], None]:
    """Have so many deliveries of one pair to a consumer be due, as after an outage."""
    world = make_world()
    (message,) = receive(world)

    def add(taker: Consumer, count: int) -> None:
        last = InboundMessage.objects.order_by("-pk")[0].pk
        copies = {"message_id": f"'{taker.pk}-{last}-' || n", "sequence_number": "NULL"}
        multiply(message, count, **copies, epoch="NULL", state="'parked'")
        new = InboundMessage.objects.filter(pk__gt=last)
        Delivery.objects.bulk_create(
            Delivery(
                message=one,
                consumer=taker,
                state="failed",
                attempt=1,
                started_at=LONG_AGO,
                due=LONG_AGO,
            )
            for one in new
        )
        analyze()

    reindex("msh_delivery", "msh_inboundmessage")
    return add


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_to_be_run_again_does_not_slow_a_poll(
    run_again: Callable[[Consumer, int], None], kind: ConsumerKind
) -> None:
    """Nor if none of it may be: the partner is held, the consumer is off, its order is busy."""
    taker = consumer(kind)
    run_again(taker, 300)
    link = InboundMessage.objects.all()[0].link

    def cost_of_search(why: str) -> int:
        Partner.objects.filter(pk=link.partner_id).update(delivers=why != "held")
        Consumer.objects.filter(pk=taker.pk).update(enabled=why != "off")

        def search() -> None:
            orders = [link.pk] if why == "busy" else []
            delivery_work.find_due((), (), Slots(8, 256), orders)
            delivery_work.find_takeable(taker, 50)

        return sum(cost_of(call) for call in statements_of(search))

    before = {why: cost_of_search(why) for why in ("due", "held", "off", "busy")}
    run_again(taker, 3000)
    assert [why for why in before if cost_of_search(why) >= before[why] + GROWTH] == []


def test_messages_that_were_delivered_do_not_hide_the_head_of_a_link() -> None:
    """A scan by the primary key meets all of them before it."""
    world = make_world()
    (message,) = receive(world)
    copies = {"sequence_number": "NULL", "epoch": "NULL"}
    multiply(message, 3_000, message_id="'gone-' || n", **copies, state="'delivered'")
    multiply(message, 3_000, message_id="'copy-' || n", **copies)
    InboundMessage.objects.filter(pk=message.pk).update(state="delivered")
    analyze()
    (unclaimed,) = statements_of(lambda: first_unclaimed([world.here.pk]))
    of_link = FIND_NEW_OF_LINK(key=message.link_id)
    costs = [cost_of(call, by_index=False) for call in (unclaimed, of_link)]
    assert max(costs) < GROWTH, costs
