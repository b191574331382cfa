"""What is found to be delivered: the head of each pair, for the consumer that takes it."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.models import (
    Consumer,
    ConsumerKind,
    Delivery,
    InboundConversation,
    InboundLink,
    InboundMessage,
)
from msh.store.delivery import deliveries
from msh.store.delivery import polling as work
from msh.store.delivery.unclaimed import alarm_unclaimed
from msh.store.sending.message_sql import LARGE
from msh.store.sending.polling import Slots
from partners.models import Partner
from tests.delivery.desk import consumer, receive
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

CALL, HTTP, PULL = ConsumerKind.IN_PROCESS, ConsumerKind.HTTP, ConsumerKind.PULL
PAST, FUTURE = timezone.now() - timedelta(days=1), timezone.now() + timedelta(days=1)
ALL = 100


def slots(in_all: int = ALL, of_partner: int = ALL, full: Collection[int] = ()) -> Slots:
    return Slots(of_partner, in_all, full)


def new(busy: Collection[int] = (), full: Collection[int] = ()) -> dict[str, list[int]]:
    """Row ids of the messages that are new to a consumer, by what is to be done with them."""
    called = work.find_new_to_call(busy, full, ALL)
    posted = work.find_new_to_post(busy, slots(full=full))
    return {
        "call": [row.message_key for row in called],
        "post": [row.message_key for row in posted],
    }


def due(busy: Collection[int] = (), full: Collection[int] = ()) -> dict[str, list[int]]:
    """Row ids of the deliveries that are due."""
    called, posted = work.find_due(busy, full, slots(full=full))
    return {"call": [row.id for row in called], "post": [row.id for row in posted]}


def begun(message: InboundMessage, taker: Consumer, state: str, **values: Any) -> Delivery:
    given = {"attempt": 1, "started_at": PAST, "due": PAST} | values
    return Delivery.objects.create(message=message, consumer=taker, state=state, **given)


def one_of_each_link() -> list[InboundMessage]:
    """Three messages, oldest first; their links were made in another order."""
    worlds = [make_world() for _ in range(3)]
    for world in worlds:
        InboundLink.objects.create(partner=world.here)
    return [receive(world)[0] for world in (worlds[1], worlds[0], worlds[2])]


def change(about: str, world: World, taker: Consumer) -> None:
    match about:
        case "held":
            Partner.objects.filter(pk=world.here.pk).update(delivers=False)
        case "off":
            Consumer.objects.filter(pk=taker.pk).update(enabled=False)


# --- which consumer -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        ({}, True),
        ({"service_interface": "Orders"}, True),
        ({"service_interface": "Invoices"}, False),
        ({"action": "New"}, True),
        ({"action": "Cancel"}, False),
        ({"partner": "here"}, True),
        ({"partner": "there"}, False),
    ],
)
def test_a_consumer_is_given_what_it_wants(
    world: World, wanted: dict[str, Any], takes: bool
) -> None:
    (message,) = receive(world)
    if name := wanted.get("partner"):
        wanted = {"partner": getattr(world, name)}
    taker = consumer(CALL, **wanted)
    assert new()["call"] == ([message.pk] if takes else [])
    assert alarm_unclaimed() == (not takes)
    assert [row.consumer_id for row in work.find_new_to_call((), (), ALL)] == [taker.pk] * takes


@pytest.mark.parametrize(
    "more", [{"partner": "here"}, {"service_interface": "Orders"}, {"action": "New"}]
)
@pytest.mark.parametrize("first", [True, False])
def test_the_consumer_that_says_more_is_given_it(
    world: World, more: dict[str, Any], first: bool
) -> None:
    receive(world)
    if "partner" in more:
        more = {"partner": world.here}
    said = [more, {}] if first else [{}, more]
    takers = [consumer(CALL, name=f"taker-{n}", **one) for n, one in enumerate(said)]
    (row,) = work.find_new_to_call((), (), ALL)
    assert row.consumer_id == takers[0 if first else 1].pk


# --- new ones -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "how"), [(CALL, "call"), (HTTP, "post"), (PULL, "")])
@pytest.mark.parametrize("about", ["", "held", "off", "begun", "busy", "full"])
def test_a_head_is_new_for_one_kind_of_work(kind: ConsumerKind, how: str, about: str) -> None:
    """And for none while something stands in its way; what comes after it waits."""
    world, other = make_world(), make_world()
    taker = consumer(kind, partner=world.here)
    message, _ = receive(world, 2)
    (beside,) = receive(other)
    begun(beside, taker, "completed")
    change(about, world, taker)
    if about == "begun":
        begun(message, taker, "failed")
    busy = [message.link_id] if about == "busy" else []
    full = [taker.pk] if about == "full" else []

    found = new(busy, full)

    here = message.pk
    assert found == {one: [here] if one == how and not about else [] for one in ("call", "post")}
    of_link = work.find_next(message.link_id)
    if about in ("held", "off", "begun"):
        assert of_link is None
    else:
        assert of_link is not None
        assert (of_link.message_key, of_link.consumer_id) == (here, taker.pk)


@pytest.mark.parametrize("held", [0, 1])
def test_of_two_partners_only_the_one_that_delivers_has_a_new_message(held: int) -> None:
    consumer(CALL)
    worlds = [make_world(), make_world()]
    heads = [receive(world)[0].pk for world in worlds]
    Partner.objects.filter(pk=worlds[held].here.pk).update(delivers=False)

    assert new()["call"] == [heads[1 - held]]


def test_the_head_of_a_pair_is_its_oldest_message_that_was_not_delivered() -> None:
    consumer(CALL)
    worlds = [make_world() for _ in range(3)]
    messages = [receive(world, 3) for world in worlds]
    for first, *_ in messages:
        InboundMessage.objects.filter(pk=first.pk).update(state="delivered")
    heads = [second.pk for _, second, _ in messages]

    assert new()["call"] == heads
    for _, second, _ in messages:
        of_link = work.find_next(second.link_id)
        assert of_link is not None
        assert of_link.message_key == second.pk


@pytest.mark.parametrize("kind", [CALL, HTTP])
def test_the_heads_that_wait_longest_are_found_first(kind: ConsumerKind) -> None:
    for_both = consumer(kind)
    waiting = [message.pk for message in one_of_each_link()]

    if kind is CALL:
        rows = work.find_new_to_call((), (), 2)
    else:
        rows = [*work.find_new_to_post((), slots(in_all=2))]
        assert len(work.find_new_to_post((), slots(of_partner=1))) == 1

    assert [row.message_key for row in rows] == waiting[:2]
    assert {row.consumer_id for row in rows} == {for_both.pk}


@pytest.mark.parametrize("again", [False, True])
def test_large_messages_have_a_window_of_their_own(again: bool) -> None:
    """Of each consumer the first before the second of any; so many of one, so many of all."""
    busy, other = (consumer(HTTP, name=name, action=name) for name in ("busy", "other"))
    found = [
        found_to_post(taker, text, again)
        for taker, text in [(busy, "x" * LARGE)] * 3 + [(busy, "small"), (other, "y" * LARGE)]
    ]
    first, second, _, small, of_other = found

    def taken(in_all: int, of_consumer: int, *, large: bool = True) -> list[int]:
        room = Slots(of_consumer, in_all, (), large)
        rows = work.find_due((), (), room)[1] if again else work.find_new_to_post((), room)
        return [row.message_key for row in rows]

    assert taken(10, 2) == [first, small, of_other, second]
    assert taken(10, 1) == [first, small, of_other]
    assert taken(2, 2) == [first, small, of_other]
    assert taken(10, 1, large=False) == [small]


def found_to_post(taker: Consumer, text: str, again: bool) -> int:
    """A message for this consumer alone."""
    world = make_world()
    world.submit(text)
    world.settle()
    message = InboundMessage.objects.get(link__partner=world.here)
    if again:
        due = PAST + timedelta(seconds=Delivery.objects.count())
        begun(message, taker, "failed", failures=1, due=due)
    else:
        InboundMessage.objects.filter(pk=message.pk).update(action=taker.name)
    return message.pk


def test_the_size_of_a_head_is_that_of_its_payloads() -> None:
    consumer(HTTP)
    for text in ("four", "seventeen letters"):
        world = make_world()
        world.submit(text)
        world.settle()
    assert [row.size for row in work.find_new_to_post((), slots())] == [4, 17]


# --- those with a delivery ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "state", "how", "stops"),
    [
        (CALL, "failed", "call", {"held", "off", "full"}),
        (HTTP, "failed", "post", {"held", "off", "full"}),
        (PULL, "failed", "", set()),
        (CALL, "processing", "call", {"full"}),
        (HTTP, "processing", "call", {"full"}),
        (PULL, "processing", "call", {"full"}),
        (HTTP, "completed", "call", set()),
        (HTTP, "rejected", "call", set()),
    ],
)
@pytest.mark.parametrize("about", ["", "held", "off", "full", "later", "busy"])
def test_a_delivery_is_due_for_one_kind_of_work(
    world: World, kind: ConsumerKind, state: str, how: str, stops: set[str], about: str
) -> None:
    """A lease passes, and a message leaves, whatever keeps it from being run again."""
    (message,) = receive(world)
    taker = consumer(kind)
    delivery = begun(message, taker, state, due=FUTURE if about == "later" else PAST)
    change(about, world, taker)
    stopped = about in stops | {"later", "busy"}

    found = due(
        busy=[delivery.pk] if about == "busy" else [], full=[taker.pk] if about == "full" else []
    )

    assert found == {
        one: [delivery.pk] if one == how and not stopped else [] for one in ("call", "post")
    }


@pytest.mark.parametrize(("kind", "how"), [(CALL, "call"), (HTTP, "post")])
def test_the_deliveries_that_are_due_longest_are_found_first(
    kind: ConsumerKind, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taker = consumer(kind)
    made = [
        begun(receive(make_world())[0], taker, "failed", due=PAST - timedelta(minutes=minutes)).pk
        for minutes in (1, 3, 2)
    ]
    monkeypatch.setattr(work, "AT_ONCE", 2)

    called, posted = work.find_due((), (), slots(in_all=2))

    rows = called if how == "call" else posted
    assert [row.id for row in rows] == [made[1], made[2]]
    of_consumer = work.find_due((), (), slots(of_partner=1))[1]
    assert [row.id for row in of_consumer] == ([made[1]] if how == "post" else [])


def test_rows_of_a_busy_pair_hide_no_other_delivery(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread works on it: nothing of it is begun now, though it is due longest."""
    monkeypatch.setattr(work, "AT_ONCE", 5)
    taker = consumer(CALL)
    busy, other = make_world(), make_world()
    messages = receive(busy, 6)
    for message in messages:
        begun(message, taker, "failed", due=PAST - timedelta(days=1))
    leased, failed = receive(other, 2)
    lease = begun(leased, taker, "processing")
    again = begun(failed, taker, "failed")

    found, _ = work.find_due((), (), slots(), [messages[0].link_id])

    assert [row.id for row in found] == [lease.pk, again.pk]


def test_rows_of_a_busy_conversation_hide_no_other_of_its_partner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work, "OF_PAIR", 2)
    taker = consumer(CALL)
    messages = receive(make_world(), 4)
    busy, other = (
        InboundConversation.objects.create(
            link=message.link,
            agreement=message.agreement,
            conversation_id=message.message_id,
            last_at=message.received_at,
        )
        for message in messages[:2]
    )
    for message in messages:
        message.ordered_in = other if message is messages[3] else busy
        message.save(update_fields=["ordered_in"])
        begun(message, taker, "failed")

    (row,) = work.find_due((), (), slots(), [-busy.pk])[0]

    assert row.order_key == -other.pk


def test_a_consumer_with_much_to_run_again_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many pairs it has, and however long they are due."""
    monkeypatch.setattr(work, "AT_ONCE", 2)
    crowd, other = (consumer(CALL, name=name, action=name) for name in ("crowd", "other"))
    for _ in range(3):
        begun(receive(make_world())[0], crowd, "failed", due=PAST - timedelta(days=1))
    mine = begun(receive(make_world())[0], other, "failed")

    found, _ = work.find_due((), (), slots())

    assert mine.pk in [row.id for row in found]


# --- what a pull consumer takes -------------------------------------------------------------------


@pytest.mark.parametrize("about", ["", "held", "off", "other", "begun"])
def test_messages_that_are_new_to_a_pull_consumer(world: World, about: str) -> None:
    (message,) = receive(world)
    taker, other = consumer(PULL), consumer(PULL, name="other", action="Cancel")
    change(about, world, taker)
    if about == "begun":
        begun(message, taker, "processing", due=FUTURE)
    again, found = work.find_takeable(other if about == "other" else taker, ALL)
    assert (again, found) == ([], [] if about else [message.pk])


@pytest.mark.parametrize("about", ["", "held", "off", "other", "later", "processing"])
def test_deliveries_that_a_pull_consumer_takes_again(world: World, about: str) -> None:
    (message,) = receive(world)
    taker, other = consumer(PULL), consumer(PULL, name="other", action="Cancel")
    state = "processing" if about == "processing" else "failed"
    delivery = begun(message, taker, state, due=FUTURE if about == "later" else PAST)
    change(about, world, taker)
    again, found = work.find_takeable(other if about == "other" else taker, ALL)
    assert (again, found) == ([] if about else [delivery.pk], [])


def test_pull_consumer_takes_the_oldest_up_to_its_limit() -> None:
    taker = consumer(PULL)
    messages = one_of_each_link()
    assert work.find_takeable(taker, 2) == ([], [one.pk for one in messages[:2]])
    again = [begun(one, taker, "failed").pk for one in reversed(messages)]
    assert work.find_takeable(taker, 2) == ([again[2], again[1]], [])


# --- held -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("about", ["", "begun", "delivered"])
def test_a_message_that_another_worker_has_dealt_with_is_not_held(about: str) -> None:
    """Meanwhile: it was found before."""
    taker = consumer(CALL)
    (message,) = receive(make_world())
    (beside,) = receive(make_world())
    begun(beside, taker, "failed")
    if about == "begun":
        begun(message, taker, "failed")
    elif about:
        InboundMessage.objects.filter(pk=message.pk).update(state="delivered")
    held = deliveries.lock_new(message.pk, taker)
    assert (held.message_key if held else 0) == (0 if about else message.pk)


@pytest.mark.parametrize(
    ("state", "begins"),
    [("failed", True), ("processing", False), ("blocked", False), ("completed", False)],
)
def test_a_delivery_begins_only_if_it_has_failed(state: str, begins: bool) -> None:
    """Another worker may have run it since it was found, and left it like this."""
    (message,) = receive(make_world())
    delivery = begun(message, consumer(HTTP), state, due=None if state == "blocked" else PAST)
    (held,) = deliveries.lock([delivery.pk], deliveries.Consumers())
    assert deliveries.begin(held) is begins
    after = Delivery.objects.get()
    assert (after.state, after.due) == (state, delivery.due) or begins
