"""What a job does to many messages at once is what it does to each of them, by few statements."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Model
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.operations import change_flight
from msh.flows.operations.change_delivery import DECISIONS, decide
from msh.flows.operations.many import bulk_jobs, cancel_queue
from msh.flows.operations.many.bulk_jobs import CHOICES
from msh.models import (
    EVER,
    BulkAction,
    BulkItem,
    BulkJob,
    Consumer,
    ConsumerKind,
    Delivery,
    Flight,
    History,
    InboundMessage,
    InboundPayload,
    Incident,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    PartyEvent,
)
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.history import Actor
from msh.transport.job import Job
from tests.delivery.desk import consumer, receive
from tests.flows.byhand import Carrying
from tests.flows.costs import statements_of
from tests.flows.flying import REFUSED, SILENT, Sky, make_sky
from tests.flows.world import World, make_world
from tests.sessions import in_another_session

pytestmark = pytest.mark.django_db

SUE = Actor("sue", "wrong prices")
BEST_EFFORT = DeliverySemantics.BEST_EFFORT
REMOVED = 2**40
"""The key of no message."""
TABLES: tuple[type[Model], ...] = (
    OutboundMessage,
    OutboundLink,
    Flight,
    OutboundConversation,
    PartyEvent,
    History,
    Incident,
    Delivery,
    InboundMessage,
)
GIVEN = ("id", "event_id")
"""By the database, to each row anew."""


def put(message: OutboundMessage, **values: Any) -> OutboundMessage:
    OutboundMessage.objects.filter(pk=message.pk).update(**values)
    return message


def of_the_draft(world: World) -> dict[str, OutboundMessage]:
    """A message in each state of a lane; and BestEffort."""
    made = {"acknowledged": world.submit()}
    world.settle()
    made["in flight"] = world.submit()
    world.poll()
    made |= {name: world.submit() for name in ("queued", "queued too", "cancelled", "rewound")}
    put(made["cancelled"], state="cancelled")
    terms = OutboundMessage.objects.get(pk=made["in flight"].pk).terms
    put(made["rewound"], state="rewound", sequence_number=77, epoch=1, terms=terms)
    states = ("queued", "in_flight", "sent", "failed", "cancelled")
    made |= {
        f"best effort {state}": put(world.submit(semantics=BEST_EFFORT), state=state)
        for state in states
    }
    return {f"draft {name}": message for name, message in made.items()}


def under_way(sky: Sky) -> tuple[dict[str, OutboundMessage], dict[str, Job]]:
    """Messages, each in a conversation of its own, and the copies of them that are being sent."""
    made: dict[str, OutboundMessage] = {}
    jobs: dict[str, Job] = {}
    for name in ("acknowledged", "failed", "held later", "unreached", "in flight"):
        made[name] = sky.submit(conversation_id=name)
        jobs |= {job.message_id: job for job in sky.poll()}
    return made, jobs


def of_flights(
    sky: Sky, made: dict[str, OutboundMessage], jobs: Mapping[str, Job]
) -> dict[str, OutboundMessage]:
    """A message in each state of a flight, of those under way and others; and BestEffort."""

    def submit(name: str) -> OutboundMessage:
        made[name] = sky.submit(conversation_id=name)
        return made[name]

    sky.answer(made["acknowledged"])
    sky.end(jobs[made["failed"].message_id], REFUSED)
    sky.end(jobs[made["unreached"].message_id], SILENT)
    change_flight.hold(made["held later"], SUE)
    change_flight.hold(submit("held before"), SUE)
    change_flight.cancel(submit("cancelled"), None, SUE)
    submit("queued")
    made["queued behind"] = sky.submit(conversation_id="in flight")
    made["queued behind a failed one"] = sky.submit(conversation_id="failed")
    made["best effort queued"] = sky.submit(semantics=BEST_EFFORT)
    return {f"{sky.partner.name} {name}": message for name, message in made.items()}


def every_kind() -> dict[str, OutboundMessage]:
    """Messages in every state, of each way of sending, by what they are."""
    skies = (make_sky(), make_sky(ordered=True))
    found = of_the_draft(make_world())
    sent = [under_way(sky) for sky in skies]  # a poll would claim what is queued
    for sky, (made, jobs) in zip(skies, sent, strict=True):
        found |= of_flights(sky, made, jobs)
    return found


def one_by_one(action: str, keys: Iterable[int]) -> dict[int, str]:
    why_not: dict[int, str] = {}
    for key in keys:
        why_not[key] = ""
        try:
            CHOICES[action].act(key, SUE)
        except NotPossible as why:
            why_not[key] = str(why)
    return why_not


def in_a_set(action: str, keys: list[int]) -> dict[int, str]:
    together = CHOICES[action].together
    assert together
    why_not = dict(together(keys, SUE))
    return why_not | one_by_one(action, set(keys) - set(why_not))


@dataclass
class Left:
    """What an act has answered, and what it has left in the tables."""

    why_not: Mapping[int, str]
    rows: dict[str, list[str]] = field(default_factory=dict)


def left_by(act: Callable[[], Mapping[int, str]]) -> Left:
    """It is rolled back."""
    with transaction.atomic():
        left = Left(act())
        for table in TABLES:
            rows = table._default_manager.values()
            left.rows[table.__name__] = sorted(map(as_text, rows))
        transaction.set_rollback(True)
    return left


def as_text(row: Mapping[str, Any]) -> str:
    """Of times only whether there are any."""
    shown = {
        name: isinstance(value, datetime) or value
        for name, value in row.items()
        if name not in GIVEN
    }
    return repr(shown)


def compare(action: str, keys: list[int]) -> Left:
    return compare_acts(partial(one_by_one, action, keys), partial(in_a_set, action, keys))


def compare_acts(*acts: Callable[[], Mapping[int, str]]) -> Left:
    alone, together = map(left_by, acts)
    assert together.why_not == alone.why_not
    for table, rows in alone.rows.items():
        assert together.rows[table] == rows, table
    return together


ACTIONS = [action for action, choice in CHOICES.items() if choice.together]


def test_some_actions_are_done_in_sets() -> None:
    assert set(ACTIONS) == {BulkAction.CANCEL, BulkAction.RESUME_MESSAGES, BulkAction.RUN_AGAIN}


def test_messages_in_every_state_are_cancelled_in_a_set_as_one_by_one() -> None:
    found = every_kind()
    left = compare(BulkAction.CANCEL, [*(one.pk for one in found.values()), REMOVED])
    done = {name for name, one in found.items() if not left.why_not[one.pk]}
    assert {name.split(maxsplit=1)[1] for name in done} == {
        *("queued", "queued too", "best effort queued", "held before"),
        *("queued behind", "queued behind a failed one"),
    }
    assert left.why_not[REMOVED] == "The message was removed."
    assert len(set(left.why_not.values())) > len(found) / 2, "each says why"


def test_messages_in_every_state_are_resumed_in_a_set_as_one_by_one() -> None:
    found = every_kind()
    left = compare(BulkAction.RESUME_MESSAGES, [*(one.pk for one in found.values()), REMOVED])
    done = {name for name, one in found.items() if not left.why_not[one.pk]}
    assert {name.split(maxsplit=1)[1] for name in done} == {"held later", "held before", "failed"}


OPEN = ("processing", "failed")
STATES = ("processing", "failed", "completed", "in_doubt", "parked", "blocked", "rejected")


def every_delivery() -> list[int]:
    """Deliveries in every state, each with its incident, of two partners and two consumers; the
    payload of one was removed."""
    at = timezone.now()
    resolver = {"name": "asked", "action": "A", "resolver": "tests.delivery.application.resolve"}
    takers = [consumer(ConsumerKind.PULL), consumer(ConsumerKind.HTTP, **resolver)]
    made: list[Delivery] = []
    for world in (make_world(), make_world()):
        kinds = ("delivery_failed", "delivery_in_doubt", "delivery_rejected")
        for kind in kinds:
            Incident.objects.create(
                partner=world.here, direction="in", kind=kind, opened_at=at, last_at=at
            )
        received = receive(world, 2 * len(STATES))
        for number, message in enumerate(received):
            state = STATES[number % len(STATES)]
            made.append(
                Delivery.objects.create(
                    consumer=takers[number // len(STATES)],
                    message=message,
                    state=state,
                    attempt=2,
                    started_at=at,
                    ended_at=None if state == "processing" else at,
                    due=at if state in OPEN else None,
                    rejected_at=at if state == "rejected" else None,
                )
            )
    InboundPayload.objects.filter(message=made[STATES.index("rejected")].message).delete()
    return [one.pk for one in made]


def one_after_the_other(decision: str, keys: Iterable[int]) -> dict[int, str]:
    why_not: dict[int, str] = {}
    for key in sorted(keys):
        refused = decide([key], decision, SUE).refused
        why_not[key] = refused[0] if refused else ""
    return why_not


def all_at_once(decision: str, keys: Iterable[int]) -> dict[int, str]:
    decided = decide(keys, decision, SUE)
    named = {int(why.split()[1].rstrip(":")): why for why in decided.refused}
    return dict.fromkeys(decided.done, "") | named


@pytest.mark.parametrize("decision", DECISIONS)
def test_decisions_on_deliveries_in_every_state_are_made_in_a_set_as_one_by_one(
    decision: str,
) -> None:
    keys = [*every_delivery(), REMOVED]
    acts = [partial(act, decision, keys) for act in (one_after_the_other, all_at_once)]
    left = compare_acts(*acts)
    assert {bool(why) for why in left.why_not.values()} == {True, False}


def test_deliveries_are_run_again_in_a_set_as_one_by_one() -> None:
    keys = every_delivery()
    left = compare(BulkAction.RUN_AGAIN, [*keys, REMOVED])
    states = Delivery.objects.in_bulk(keys)
    done = {states[key].state for key in keys if not left.why_not[key]}
    assert done == {"failed", "in_doubt", "parked", "blocked", "rejected"}


def parked_deliveries(taker: Consumer, count: int) -> None:
    at = timezone.now()
    Delivery.objects.bulk_create(
        Delivery(consumer=taker, message=one, state="parked", attempt=1, started_at=at, ended_at=at)
        for one in receive(make_world(), count)
    )


def test_deliveries_are_run_again_by_as_many_statements_however_many_they_are() -> None:
    counts, taker = [], consumer(ConsumerKind.PULL)
    for count in (4, 40):
        parked_deliveries(taker, count)
        begin = partial(bulk_jobs.start, BulkAction.RUN_AGAIN, EVER, None, SUE)
        taken, job = statements_of_a_job(begin)
        assert (job.done, job.refused) == (count, 0)
        counts.append(taken)
    assert counts[0] == counts[1] < 40


@pytest.mark.parametrize("action", [BulkAction.CANCEL, BulkAction.RESUME_MESSAGES])
def test_any_selection_in_any_order_is_done_in_a_set_as_one_by_one(action: str) -> None:
    keys = [one.pk for one in every_kind().values()]
    chance = random.Random(36)
    for _ in range(6):
        compare(action, chance.sample(keys, chance.randint(1, len(keys))))


def queue_of_the_draft(count: int) -> OutboundLink:
    world = make_world()
    for number in range(count):
        world.submit(semantics=BEST_EFFORT if number % 2 else DeliverySemantics.ONCE_AND_ONLY_ONCE)
    return world.link


def queue_of_flights(count: int) -> OutboundLink:
    return queue_of_sky(make_sky(), count)


def queue_in_order(count: int) -> OutboundLink:
    return queue_of_sky(make_sky(ordered=True), count)


def queue_of_sky(sky: Sky, count: int) -> OutboundLink:
    for number in range(count):
        sky.submit(conversation_id=f"conversation {number}")
    sky.poll(Carrying(left=0))  # they get into the queues of their conversations
    return sky.link


def hold_all(link: OutboundLink) -> None:
    for message in OutboundMessage.objects.filter(link=link):
        change_flight.hold(message, SUE)


def statements_of_a_job(begin: Callable[[], BulkJob]) -> tuple[int, BulkJob]:
    """Of the slice of a worker that does all of it."""
    job = begin()
    with CaptureQueriesContext(connection) as captured:
        calls = statements_of(bulk_jobs.run)
    job.refresh_from_db()
    return len(captured) + len(calls), job


@pytest.mark.parametrize("queue", [queue_of_the_draft, queue_of_flights, queue_in_order])
def test_a_set_of_many_takes_no_more_statements_than_one_of_few(
    queue: Callable[[int], OutboundLink],
) -> None:
    few, many = (
        statements_of_a_job(partial(cancel_queue.cancel_queue, queue(count), SUE))
        for count in (4, 40)
    )
    assert [(job.done, job.refused) for _, job in (few, many)] == [(4, 0), (40, 0)]
    assert many[0] == few[0] < 40


@pytest.mark.parametrize("queue", [queue_of_flights, queue_in_order])
def test_messages_are_resumed_by_as_many_statements_however_many_they_are(
    queue: Callable[[int], OutboundLink],
) -> None:
    counts = []
    for count in (4, 40):
        link = queue(count)
        hold_all(link)
        named: bulk_jobs.Limits = {"partner": link.partner.name}
        action = BulkAction.RESUME_MESSAGES
        taken, job = statements_of_a_job(partial(bulk_jobs.start, action, EVER, None, SUE, **named))
        assert (job.done, job.refused) == (count, 0)
        counts.append(taken)
    assert counts[0] == counts[1] < 40


def test_a_row_that_raises_an_error_is_refused_and_the_others_are_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sets become smaller until it is alone."""
    link = queue_of_flights(30)
    messages = OutboundMessage.objects.filter(link=link).order_by("pk")
    bad = messages[17]
    OutboundMessage.objects.filter(pk=bad.pk).update(terms={"no": "terms"})
    job = cancel_queue.cancel_queue(link, SUE)
    assert bulk_jobs.run() == 30
    job.refresh_from_db()
    assert (job.state, job.done, job.refused) == ("done", 29, 1)
    assert BulkItem.objects.get(done=False).key == bad.pk
    states = set(messages.exclude(pk=bad.pk).values_list("state", flat=True))
    assert states == {"cancelled"}


@pytest.mark.django_db(transaction=True)
def test_a_row_that_somebody_holds_waits_and_the_others_are_cancelled() -> None:
    link = queue_of_the_draft(30)
    messages = OutboundMessage.objects.filter(link=link).order_by("pk")
    held = messages[17]
    job = cancel_queue.cancel_queue(link, SUE)
    with transaction.atomic():
        OutboundMessage.objects.select_for_update(no_key=True).get(pk=held.pk)
        assert in_another_session(bulk_jobs.run) == 29
    job.refresh_from_db()
    assert (job.state, job.done, job.refused) == ("running", 29, 0)
    item = BulkItem.objects.get(done=None)
    assert item.key == held.pk
    assert "lock timeout" in item.detail
    assert bulk_jobs.run() == 1
    assert set(messages.values_list("state", flat=True)) == {"cancelled"}


@pytest.mark.django_db(transaction=True)
def test_the_link_sends_between_two_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent in the pause is not cancelled: its row is refused."""
    world = make_world()
    for _ in range(30):
        world.submit()
    pauses: list[float] = []

    def send() -> None:
        for _ in range(2):  # a copy, and the Acknowledgement of it
            for job in world.poll():
                world.hand_over(job)
                world.end(job)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        in_another_session(send)

    monkeypatch.setattr(bulk_jobs, "FIRST", 5)
    monkeypatch.setattr(bulk_jobs, "LARGEST", 5)
    monkeypatch.setattr(bulk_jobs, "time", SimpleNamespace(monotonic=monotonic, sleep=pause))
    job = cancel_queue.cancel_queue(world.link, SUE)
    assert bulk_jobs.run() == 30
    job.refresh_from_db()
    sent = OutboundMessage.objects.filter(link=world.link).exclude(state="cancelled").count()
    assert len(pauses) == 6
    assert min(pauses) > 0
    assert sent >= len(pauses) - 1
    assert (job.done, job.refused) == (30 - sent, sent)
