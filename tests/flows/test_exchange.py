"""Submit, transmit, receive, acknowledge: the rows they leave."""

from typing import cast

import pytest

from msh.flows.operations import change_link
from msh.flows.sending import submit
from msh.flows.sending.kinds import LaneCopy
from msh.flows.sending.prepare import SubmitRefused
from msh.models import (
    Attempt,
    History,
    InboundMessage,
    InboundPayload,
    Incident,
    OutboundMessage,
    PartyEvent,
    Signal,
)
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.message import Payload
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.history import Actor
from msh.store.sending.signals import SignalCopy
from msh.transport.job import Job

from .byhand import TRANSMITTED
from .world import LOST, World, make_world

pytestmark = pytest.mark.django_db


def sent_as(job: Job) -> LaneCopy:
    """Which copy the job transmits."""
    return cast("LaneCopy", job.key)


def test_messages_arrive_in_the_order_of_their_submits(world: World) -> None:
    submitted = [world.submit(f"<order n='{n}'/>").message_id for n in range(3)]

    world.settle()

    assert world.received() == submitted
    sent = OutboundMessage.objects.order_by("pk").values_list("state", "sequence_number")
    assert list(sent) == [("acknowledged", 1), ("acknowledged", 2), ("acknowledged", 3)]
    assert (world.link.state, world.link.next_number) == ("idle", 4)


@pytest.mark.requirement("000-008", "000-017")
def test_the_second_message_waits_for_the_ack_of_the_first(world: World) -> None:
    first, second = world.submit(), world.submit()

    (job,) = world.poll()
    world.hand_over(job)
    world.end(job)

    assert sent_as(job).message_id == first.message_id
    waiting = world.poll()
    assert [type(one.key).__name__ for one in waiting] == ["SignalCopy"]
    second.refresh_from_db()
    assert (second.state, second.sequence_number) == ("queued", None)


@pytest.mark.requirement("000-027", "000-066")
def test_every_copy_is_the_stored_bytes(world: World) -> None:
    world.submit()
    (first,) = world.poll()
    world.end(first, LOST)
    change_link.send_now(world.there, Actor("ann", "partner is back"))

    (second,) = world.poll()

    assert (second.body, second.content_type) == (first.body, first.content_type)
    assert sent_as(second).attempt == 2


def test_each_attempt_ends_in_its_own_way(world: World) -> None:
    message = world.submit()
    for result in (LOST, TRANSMITTED):
        world.post(result)
        if result is LOST:
            change_link.send_now(world.there, Actor("ann", "partner is back"))

    ended = Attempt.objects.filter(message=message).order_by("number")
    assert list(ended.values_list("outcome", flat=True)) == ["failed", "transmitted"]


def test_damaged_bytes_are_not_sent_and_suspend_their_own_lane_only() -> None:
    world, other = make_world(), make_world()
    message, job = world.start()
    world.end(job, LOST)
    message.payloads.update(wire=b"something else")
    change_link.send_now(world.there, Actor("ann", "again"))
    other.submit()

    jobs = world.poll()

    assert [one.partner_id for one in jobs] == [other.there.pk]
    assert world.link.state == "suspended"
    assert Incident.objects.get(partner=world.there).kind == "refused_by_peer"
    ended = Attempt.objects.get(message=message, number=2)
    assert (ended.outcome, ended.body_sent) == ("refused", False)


@pytest.mark.requirement("000-090")
def test_payloads_arrive_in_the_order_in_which_they_were_submitted(world: World) -> None:
    payloads = [Payload(b"%d" % number, label=f"part {number}") for number in range(12)]
    submit.submit(world.agreement, "Orders", "New", payloads)

    world.settle()

    arrived = InboundPayload.objects.order_by("position").values_list("content", "label")
    assert [(bytes(content), label) for content, label in arrived] == [
        (payload.content, payload.label) for payload in payloads
    ]


@pytest.mark.requirement("000-097")
def test_a_repeated_ack_completes_nothing_else(world: World) -> None:
    first, second = world.submit(), world.submit()
    (copy,) = world.poll()
    world.hand_over(copy)
    world.end(copy)
    (ack,) = world.poll()
    world.hand_over(ack)

    world.hand_over(ack)
    world.hand_over(ack)

    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, first.duplicate_acks) == ("acknowledged", 2)
    assert (second.state, second.sequence_number) == ("in_flight", 2)
    kinds = PartyEvent.objects.filter(message=first).values_list("kind", flat=True)
    assert list(kinds) == ["acknowledged"]


@pytest.mark.requirement("000-012", "000-013", "000-095")
def test_a_copy_is_discarded_and_acknowledged_again(world: World) -> None:
    world.submit()
    (copy,) = world.poll()
    for _ in range(3):
        world.hand_over(copy)

    acks = []
    while jobs := world.poll():
        acks += jobs
        for job in jobs:
            world.end(job)

    message = InboundMessage.objects.get()
    assert message.duplicates == 2
    assert len(acks) == 3
    assert len({ack.body for ack in acks}) == 3, "each Ack has a MessageId of its own (D51)"
    assert {cast("SignalCopy", ack.key).ref_to_message_id for ack in acks} == {message.message_id}


def test_an_ack_that_failed_is_sent_again_as_it_was(world: World) -> None:
    world.submit()
    (copy,) = world.poll()
    world.hand_over(copy)
    (ack,) = world.poll()
    world.end(ack, LOST)
    Signal.objects.update(due=Signal.objects.get().first_at)

    (again,) = world.poll()

    assert again.body == ack.body
    assert Signal.objects.get().pending == 1


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_refused_ack_is_not_sent_again(world: World, status: int) -> None:
    world.submit()
    (copy,) = world.poll()
    world.hand_over(copy)
    (ack,) = world.poll()

    world.end(ack, AttemptResult(AttemptOutcome.REFUSED, status=status))

    assert Signal.objects.get().pending == 0
    assert world.poll() == []


@pytest.mark.requirement("000-038", "000-010")
def test_best_effort_is_sent_once_and_never_acknowledged(world: World) -> None:
    message, job = world.start(semantics=DeliverySemantics.BEST_EFFORT)

    world.hand_over(job)
    world.end(job)

    message.refresh_from_db()
    assert (message.state, message.sequence_number) == ("sent", None)
    assert world.received() == [message.message_id]
    assert world.poll() == []
    assert b"SequenceNumber" not in job.body


def test_best_effort_that_is_not_transmitted_is_reported(world: World) -> None:
    message, job = world.start(semantics=DeliverySemantics.BEST_EFFORT)

    world.end(job, LOST)

    message.refresh_from_db()
    assert message.state == "failed"
    assert PartyEvent.objects.get(message=message).kind == "failed"
    assert world.poll() == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"message_id": ""}, "message_id is empty"),
        ({"message_id": "x" * 256}, "message_id has 256 characters: at most 255"),
        ({"conversation_id": "two\nlines"}, "conversation_id .* control characters"),
    ],
)
def test_impossible_values_are_refused_by_name(options: dict[str, str], reason: str) -> None:
    with pytest.raises(SubmitRefused, match=reason):
        make_world().submit(**options)
    assert not OutboundMessage.objects.exists()


def test_the_life_of_a_message_is_in_the_history(world: World) -> None:
    message = world.submit()
    world.settle()

    history = History.objects.filter(message_id=message.message_id)
    assert list(history.values_list("direction", "event", "from_state", "to_state")) == [
        ("out", "MessageSubmitted", "", "queued"),
        ("out", "PutInFlight", "queued", "in_flight"),
        ("in", "MessageArrived", "", "accepted"),
        ("out", "AckReceived", "in_flight", "acknowledged"),
        ("in", "AcknowledgementTransmitted", "", ""),
    ]


def test_an_ack_overtakes_the_failure_of_its_own_post(world: World) -> None:
    message = world.submit()
    (copy,) = world.poll()
    world.hand_over(copy)
    (ack,) = world.poll()
    world.hand_over(ack)

    world.end(copy, LOST)

    message.refresh_from_db()
    assert message.state == "acknowledged"
    assert world.link.state == "idle"
    assert Attempt.objects.get(message=message).outcome == "failed"
    assert TRANSMITTED.outcome is AttemptOutcome.TRANSMITTED
