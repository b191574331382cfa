"""Messages we send: which rows a statement writes, and which it leaves alone."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from msh.flows.sending import submit
from msh.models import Attempt, History, OutboundMessage
from msh.protocol.message import Payload
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.engine import run
from msh.store.sending import message_sql as sql
from msh.store.sending.polling import load_copies
from msh.store.sending.unit import end_attempt

from . import byhand
from .byhand import TRANSMITTED
from .world import LOST, World, make_world

pytestmark = pytest.mark.django_db

NOW = timezone.now()
BEST_EFFORT = DeliverySemantics.BEST_EFFORT


def in_flight(*worlds: World) -> list[OutboundMessage]:
    messages = [world.submit() for world in worlds]
    byhand.poll()
    for message in messages:
        message.refresh_from_db()
    return messages


def states() -> list[str]:
    return list(OutboundMessage.objects.order_by("pk").values_list("state", flat=True))


def test_each_statement_writes_the_message_that_it_names() -> None:
    message, _ = in_flight(make_world(), make_world())
    world = make_world()
    for _ in range(2):
        world.submit()
    key = message.pk
    for call, state in (
        (sql.COMPLETE(key=key, state="acknowledged", at=NOW), "acknowledged"),
        (sql.CANCEL(key=key, at=NOW, outcome="unknown", free_number=False), "cancelled"),
        (sql.PUT_IN_FLIGHT(key=key, sequence_number=7, epoch=1, terms="{}"), "in_flight"),
    ):
        run(call)
        assert states() == [state, "in_flight", "queued", "queued"]
    run(sql.STORE_HEAD(key=key, head=b"head", body_sha256=b"sum", at=NOW))
    run(sql.RECORD_LATE_VERDICT(key=key))
    for _ in range(2):
        run(sql.COUNT_DUPLICATE_ACK(key=key))
    heads = OutboundMessage.objects.filter(head=b"head")
    assert heads.get() == OutboundMessage.objects.get(outcome="received")
    assert heads.get() == OutboundMessage.objects.get(duplicate_acks=2)


def test_an_attempt_ends_alone() -> None:
    message, other = in_flight(make_world(), make_world())
    Attempt.objects.create(message=message, number=2, claimed_at=NOW)
    run(end_attempt(message.pk, 1, LOST, NOW))
    ended = Attempt.objects.exclude(ended_at=None)
    assert [(one.message, one.number) for one in ended] == [(message, 1)]
    assert Attempt.objects.filter(message=other, ended_at=None).exists()


def test_requeued_message_keeps_only_its_attempts() -> None:
    message, other = in_flight(make_world(), make_world())
    Attempt.objects.create(message=message, number=2, claimed_at=NOW)
    Attempt.objects.create(message=other, number=5, claimed_at=NOW)

    run(sql.REQUEUE(key=message.pk))

    message.refresh_from_db()
    assert (message.state, message.sequence_number, message.epoch) == ("queued", None, None)
    assert (message.terms, message.head, message.body_sha256) == (None, None, None)
    assert message.first_sent_at is None
    assert message.earlier_attempts == 2
    other.refresh_from_db()
    assert (other.state, other.earlier_attempts) == ("in_flight", 0)


@pytest.mark.parametrize(
    ("values", "rewound"),
    [
        ({"state": "acknowledged"}, True),
        ({"state": "in_flight"}, True),
        ({"state": "cancelled", "outcome": "received"}, True),
        ({"state": "cancelled", "outcome": "unknown"}, False),
        ({"state": "acknowledged", "sequence_number": 4}, False),
        ({"state": "acknowledged", "sequence_number": 3}, False),
        ({"state": "acknowledged", "epoch": 1, "sequence_number": 9}, False),
        ({"state": "acknowledged", "epoch": 3, "sequence_number": 1}, True),
    ],
)
def test_a_rewind_takes_what_was_received_after_the_last(
    values: dict[str, Any], rewound: bool
) -> None:
    """That is number 4 of epoch 2, here."""
    world, other = make_world(), make_world()
    message, beside = in_flight(world, other)
    given = {"epoch": 2, "sequence_number": 5, "completed_at": NOW} | values
    for one in (message, beside):
        OutboundMessage.objects.filter(pk=one.pk).update(**given)
    Attempt.objects.create(message=message, number=2, claimed_at=NOW)

    link = world.link
    about = {"at": NOW, "actor": "ann", "partner_id": world.there.pk, "reason": "restored"}
    run(sql.REWIND(link_id=link.pk, epoch=2, sequence_number=4, **about))

    message.refresh_from_db()
    beside.refresh_from_db()
    assert beside.state == values["state"]
    assert message.state == ("rewound" if rewound else values["state"])
    rows = History.objects.filter(event="SequenceRewound")
    assert list(rows.values_list("message_id", "from_state")) == (
        [(message.message_id, values["state"])] if rewound else []
    )
    if rewound:
        assert (message.completed_at, message.outcome) == (None, "")
        assert message.earlier_attempts == 2


@pytest.mark.parametrize("result", [TRANSMITTED, LOST])
def test_the_lease_of_a_best_effort_message_ends_with_it(world: World, result: Any) -> None:
    message = world.submit(semantics=BEST_EFFORT)
    before = timezone.now()
    (job,) = world.poll()
    message.refresh_from_db()
    assert message.due is not None
    assert before < message.due < timezone.now() + timedelta(minutes=30)
    world.end(job, result)
    message.refresh_from_db()
    assert message.due is None


def test_payloads_and_their_manifest_are_sent_in_order() -> None:
    numbers = (3, 1, 2)
    payloads = [
        Payload(f"<{n}/>".encode(), label=f"label {n}", description=f"description {n}")
        for n in numbers
    ]
    keys = [submit.submit(make_world().agreement, "Orders", "New", payloads).pk for _ in range(2)]
    for copy in load_copies(keys):
        assert copy.labels == [f"label {n}" for n in numbers]
        assert copy.descriptions == [f"description {n}" for n in numbers]
        assert copy.content_ids == sorted(copy.content_ids or ())
        assert all(b"<%d/>" % n in part for n, part in zip(numbers, copy.wires or (), strict=True))
