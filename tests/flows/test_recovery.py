"""Cancel, reset, and what is let in: the rows they leave, in a world of one database."""

from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils import timezone

from msh.flows.errors import NotPossible
from msh.flows.operations import cancel, change_inbound_link, change_link, resynchronise
from msh.models import (
    History,
    InboundLink,
    Incident,
    OutboundLink,
    OutboundMessage,
)
from msh.protocol.events import AckReceived
from msh.protocol.kinds import Verdict
from msh.protocol.vocabulary import DeliverySemantics
from msh.store.receiving.senders import find_sender
from msh.store.sending.acked import AckedLink

from .byhand import TRANSMITTED
from .recovering import ANN, answering, events, numbers, suspend
from .world import LOST, World, make_world

pytestmark = pytest.mark.django_db


def in_flight(world: World, result: object = TRANSMITTED) -> OutboundMessage:
    """A message whose first copy ended like this, its Ack still to come."""
    message, job = world.start()
    world.end(job, result)  # type: ignore[arg-type]
    return message


# --- cancel --------------------------------------------------------------------------------------
@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_a_queued_message_is_cancelled_and_leaves_no_gap(
    world: World, semantics: DeliverySemantics
) -> None:
    suspend(world)
    wrong, right = world.submit(semantics=semantics), world.submit()

    cancel.cancel(wrong, None, ANN)
    change_link.resume(world.there, ANN)
    world.settle()

    wrong.refresh_from_db()
    assert (wrong.state, wrong.outcome) == ("cancelled", "not_received")
    assert events(wrong) == [("cancelled", "not_received")]
    assert world.received() == [right.message_id]
    assert numbers(world) == [("cancelled", None), ("acknowledged", 1)]
    act = History.objects.get(message_id=wrong.message_id, event="MessageCancelled")
    assert (act.actor, act.detail) == ("ann", "outcome not_received; because")


def test_the_one_in_flight_needs_a_verdict(world: World) -> None:
    message = in_flight(world)
    with pytest.raises(NotPossible, match="is in flight: did the partner receive it"):
        cancel.cancel(message, None, ANN)
    assert numbers(world) == [("in_flight", 1)]


@pytest.mark.parametrize(("verdict", "next_number"), [(Verdict.RECEIVED, 2), (Verdict.UNKNOWN, 1)])
def test_the_verdict_decides_the_next_number(
    world: World, verdict: Verdict, next_number: int
) -> None:
    message, _ = in_flight(world), world.submit()

    cancel.cancel(message, verdict, ANN)

    message.refresh_from_db()
    assert (message.state, message.outcome) == ("cancelled", verdict)
    assert events(message) == [("cancelled", verdict.value)]
    assert numbers(world)[1] == ("in_flight", next_number)


def test_not_received_is_taken_where_no_byte_has_left_us(world: World) -> None:
    message = in_flight(world, LOST)

    cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
    world.submit()
    world.settle()

    assert numbers(world) == [("cancelled", None), ("acknowledged", 1)]


def test_not_received_is_refused_where_a_byte_has_left_us_or_may_have() -> None:
    """Its partner cannot be asked here."""
    for result in (TRANSMITTED, None):
        world = make_world()
        message, job = world.start()
        if result is not None:
            world.end(job, result)
        with pytest.raises(NotPossible, match="may have been received"):
            cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
        assert numbers(world) == [("in_flight", 1)]


@pytest.mark.requirement("000-097")
def test_not_received_is_taken_where_the_partner_says_that_it_lacks_it(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """D18."""
    message = in_flight(world)
    answering(world, monkeypatch)

    cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
    after = world.submit()
    world.settle()

    assert numbers(world) == [("cancelled", None), ("acknowledged", 1)]
    assert world.received() == [after.message_id]


def test_not_received_is_refused_where_the_partner_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, job = world.start()
    world.hand_over(job)
    world.end(job)
    answering(world, monkeypatch)
    with pytest.raises(NotPossible, match="was received, as the partner reports"):
        cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
    assert numbers(world) == [("in_flight", 1)]


@pytest.mark.parametrize("under_way", ["when asked", "since"])
def test_not_received_is_not_proven_by_an_answer_that_a_copy_overtakes(
    world: World, monkeypatch: pytest.MonkeyPatch, under_way: str
) -> None:
    """The copy is stored and ends after the partner has said that it lacks the message."""
    if under_way == "when asked":
        message = world.submit()
        jobs = world.poll()
    else:
        message = in_flight(world)
        jobs = []

    def arrives() -> None:
        if under_way == "since":
            change_link.send_now(world.there, ANN)
            jobs.extend(world.poll())
        world.hand_over(jobs[0])
        world.end(jobs[0])

    answering(world, monkeypatch, arrives)
    with pytest.raises(NotPossible, match="may have been received"):
        cancel.cancel(message, Verdict.NOT_RECEIVED, ANN)
    assert numbers(world) == [("in_flight", 1)]


def test_not_received_is_never_proven_of_mail(world: World) -> None:
    message = in_flight(world, LOST)
    world.there.address = "mailto:b@example.net"
    world.there.save(update_fields=["address"])
    message.link.partner.refresh_from_db()
    with pytest.raises(NotPossible, match="may have been received"):
        cancel.cancel(cancel.find(message.message_id), Verdict.NOT_RECEIVED, ANN)


def test_completed_message_is_not_cancelled(world: World) -> None:
    message = world.submit()
    world.settle()
    with pytest.raises(NotPossible, match="it has already ended"):
        cancel.cancel(message, Verdict.RECEIVED, ANN)
    with pytest.raises(NotPossible, match="No message nonsense was submitted here"):
        cancel.find("nonsense")


@pytest.mark.requirement("000-097")
def test_late_ack_is_notified_once_and_noted_on_the_incident() -> None:
    """D18."""
    world = make_world(retries=0)
    message, job = world.start()
    world.hand_over(job)
    world.end(job)
    OutboundLink.objects.filter(pk=world.link.pk).update(due=message.submitted_at)
    acks = world.poll()
    assert world.link.state == "suspended"
    cancel.cancel(message, Verdict.UNKNOWN, ANN)
    for _ in range(3):
        world.hand_over(acks[0])

    message.refresh_from_db()
    assert (message.outcome, message.duplicate_acks) == ("received", 2)
    assert events(message)[1:] == [("cancelled", "unknown"), ("cancelled", "received after all")]
    assert "acknowledged after it was cancelled" in Incident.objects.get().detail


def test_message_cancelled_after_the_poll_is_not_put_in_flight(world: World) -> None:
    """An Ack is taken without a lock: it reads the queue, and writes if nothing has changed."""
    first = in_flight(world)
    queued = world.submit()
    partner = find_sender(f"Bearer {world.there.name}")
    assert partner is not None
    link = AckedLink.read(partner, first.message_id)
    link.links.step(partner.pk, AckReceived(first.message_id))

    cancel.cancel(queued, None, ANN)

    assert not link.write()
    assert numbers(world) == [("in_flight", 1), ("cancelled", None)]


# --- reset ---------------------------------------------------------------------------------------
@pytest.mark.requirement("000-047", "000-048")
def test_sequence_reset_is_recorded_and_needs_nothing_in_doubt(world: World) -> None:
    message = in_flight(world)
    with pytest.raises(NotPossible, match="a message is in flight"):
        resynchronise.reset_sequence(world.there, ANN)
    cancel.cancel(message, Verdict.RECEIVED, ANN)

    resynchronise.reset_sequence(world.there, ANN)

    assert (world.link.next_number, world.link.epoch) == (1, 2)
    act = History.objects.get(event="SequenceReset")
    assert (act.actor, act.detail) == ("ann", "next number 2 → 1, epoch 1 → 2; because")


@pytest.mark.requirement("000-045", "000-048", "000-092")
def test_numbers_belong_to_the_pair_and_are_not_forgotten_by_time() -> None:
    """Each pair counts from 1, whatever the others do, and goes on after a year (D17). The database
    refuses a number twice."""
    worlds = [make_world() for _ in range(2)]
    for world in worlds:
        world.submit()
        world.settle()
    year_ago = timezone.now() - timedelta(days=365)
    OutboundMessage.objects.update(
        submitted_at=year_ago, first_sent_at=year_ago, completed_at=year_ago
    )
    for world in worlds:
        world.submit()
        world.settle()
        assert [number for _, number in numbers(world)] == [1, 2]
    with pytest.raises(IntegrityError, match="outbound_number_once"):
        OutboundMessage.objects.filter(link=worlds[0].link).update(sequence_number=1)


@pytest.mark.requirement("000-046", "000-047")
def test_numbers_wrap_around_with_retries_and_a_reset_around_it(world: World) -> None:
    for direction, partner in (("out", world.there), ("in", world.here)):
        change_link.start_link(partner, direction, 999_999_997, ANN)
    for _ in range(3):
        message, job = world.start()
        world.end(job, LOST)
        change_link.send_now(world.there, ANN)
        world.settle()
        message.refresh_from_db()
        assert message.state == "acknowledged"
    resynchronise.reset_sequence(world.there, ANN)
    world.submit()
    world.settle()
    assert [number for _, number in numbers(world)] == [999_999_998, 999_999_999, 1, 1]
    assert len(world.received()) == 4
    assert not Incident.objects.exists()


# --- the receiving side --------------------------------------------------------------------------
@pytest.mark.parametrize("setting", ["hold", "refuse"])
def test_a_reset_that_is_held_or_refused_is_let_in_by_an_operator(
    world: World, setting: str
) -> None:
    world.here.agreements.update(on_unexpected_first=setting)
    for _ in range(2):
        world.submit()
    world.settle()
    suspend(world)
    resynchronise.reset_sequence(world.there, ANN)
    change_link.resume(world.there, ANN)
    message = world.submit()
    world.settle()
    assert len(world.received()) == 2

    change_inbound_link.allow_reset(world.here, ANN)
    act = History.objects.get(event="ResetAllowed")
    assert act.detail == "last accepted 2, reset allowed: no → yes; because"
    with pytest.raises(NotPossible, match="a reset is already allowed"):
        change_inbound_link.allow_reset(world.here, ANN)
    if setting == "refuse":
        change_link.resume(world.there, ANN)
    else:
        change_link.send_now(world.there, ANN)
    world.settle()

    assert world.received()[2:] == [message.message_id]
    link = InboundLink.objects.get(partner=world.here)
    assert (link.last_number, link.reset_allowed) == (1, False)
    assert not Incident.objects.filter(partner=world.here, resolved_at=None).exists()


def test_missing_numbers_are_given_up_by_an_operator_only(world: World) -> None:
    change_link.start_link(world.there, "out", 41, ANN)
    message = world.submit()
    world.settle()
    assert (world.received(), world.link.suspended_for) == ([], "resynchronise")

    with pytest.raises(NotPossible, match="A number is 1 to 999999999, not 0"):
        change_inbound_link.expect(world.here, 0, ANN)
    change_inbound_link.expect(world.here, 42, ANN)
    with pytest.raises(NotPossible, match="Number 42 is already the expected number"):
        change_inbound_link.expect(world.here, 42, ANN)
    with pytest.raises(NotPossible, match="Number 7 is not ahead"):
        change_inbound_link.expect(world.here, 7, ANN)
    change_link.resume(world.there, ANN)
    world.settle()

    assert world.received() == [message.message_id]
    assert History.objects.get(event="NumberExpected").detail == (
        "last accepted None, expected next 42, given up 1 to 41 (41 numbers); because"
    )
    assert not Incident.objects.filter(resolved_at=None).exists()
