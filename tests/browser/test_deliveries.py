"""What becomes of deliveries that wait for an operator, action by action."""

from collections.abc import Callable, Iterator

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from msh.flows.delivery.pull import take
from msh.models import Consumer, Delivery
from tests.browser.console import Console
from tests.browser.test_actions import page_of, use
from tests.exchange.outside import Outside, outside_system
from tests.exchange.pair import WAITS, Pair, PairFactory
from tests.waiting import wait_until

HAS_IT = "tests.browser.test_deliveries.has_it"
SHORTEST_LEASE = 2  # seconds

ConsumerFactory = Callable[..., Consumer]


def has_it(delivery: Delivery) -> str:
    """The resolver of an application that has everything it took. The worker calls it."""
    return "duplicate"


@pytest.fixture
def outside() -> Iterator[Outside]:
    with outside_system() as server:
        yield server


@pytest.fixture
def consumer() -> Iterator[ConsumerFactory]:
    """Make consumers of one partner each; they are switched off after the test."""
    made: list[Consumer] = []

    def make(partner: Pair, **terms: object) -> Consumer:
        one = Consumer(name=partner.partner.name, partner=partner.partner, attempts=1, **terms)
        one.full_clean()
        one.save()
        made.append(one)
        return one

    yield make
    Consumer.objects.filter(pk__in=[one.pk for one in made]).update(enabled=False)


def wait_for_deliveries(consumer: Consumer, *states: str) -> list[Delivery]:
    """Its deliveries, oldest first, once they are in these states."""

    def now() -> list[str]:
        return list(consumer.deliveries.order_by("pk").values_list("state", flat=True))

    wait_until(lambda: now() == list(states), seconds=WAITS, what=lambda: f"{states}, not {now()}")
    return list(consumer.deliveries.order_by("pk"))


def test_park_mark_completed_reject_and_run_again(
    console: Console, pair: PairFactory, consumer: ConsumerFactory, outside: Outside
) -> None:
    """Each decision lets the next message come, and fail in its turn."""
    outside.status = 500
    partner = pair()
    orders = consumer(partner, kind="http", url=outside.url, on_failure="block")
    for _ in range(3):
        partner.receive()

    (first,) = wait_for_deliveries(orders, "blocked")
    use(page_of(console, "Operator", first), "Park", "Park: done.")
    _, second = wait_for_deliveries(orders, "parked", "blocked")
    use(page_of(console, "Operator", second), "Mark completed", "Mark completed: done.")
    *_, third = wait_for_deliveries(orders, "parked", "completed", "blocked")
    use(page_of(console, "Operator", third), "Reject", "Reject: done.")
    wait_for_deliveries(orders, "parked", "completed", "rejected")
    assert not outside.committed

    outside.status = 201
    use(page_of(console, "Operator", first), "Run again", "Run again: done.")
    wait_for_deliveries(orders, "completed", "completed", "rejected")
    assert dict(outside.committed) == {first.message.message_id: 1}


def test_all_parked_since_are_run_again_at_once(
    console: Console, pair: PairFactory, consumer: ConsumerFactory, outside: Outside
) -> None:
    since = timezone.now()
    outside.status = 500
    partner = pair()
    orders = consumer(partner, kind="http", url=outside.url, on_failure="park")
    partner.receive()
    (parked,) = wait_for_deliveries(orders, "parked")
    outside.status = 201
    page = console.open("Supervisor", f"msh/delivery/?since={since:%Y-%m-%dT%H:%M:%S}Z")

    page.get_by_role("link", name="Run deliveries again").click()
    page.get_by_label("Reason").fill("their disk has room again")
    page.get_by_role("button", name="Run deliveries again (").click()

    wait_for_deliveries(orders, "completed")
    assert dict(outside.committed) == {parked.message.message_id: 1}


def test_ask_the_resolver(console: Console, pair: PairFactory, consumer: ConsumerFactory) -> None:
    """The consumer took a message and was not heard of again. The action is offered once there is a
    resolver to ask."""
    partner = pair()
    taker = consumer(partner, kind="pull", lease=SHORTEST_LEASE)
    partner.receive()
    wait_until(lambda: bool(take(taker, 1)), seconds=WAITS, what="a message to take")
    (doubtful,) = wait_for_deliveries(taker, "in_doubt")
    page = page_of(console, "Operator", doubtful)
    expect(page.get_by_role("link", name="Mark completed")).to_be_visible()
    expect(page.get_by_role("link", name="Ask resolver")).to_have_count(0)

    Consumer.objects.filter(pk=taker.pk).update(resolver=HAS_IT)
    page.reload()
    use(page, "Ask resolver", "Ask resolver: done.")

    wait_for_deliveries(taker, "completed")
