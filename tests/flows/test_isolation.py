"""One message, lane or signal that raises something never stops another."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import pytest
from django.db import DatabaseError, OperationalError

from msh import wire
from msh.flows import worker_loop
from msh.flows.hints import EVERYTHING
from msh.flows.sending.sending_loop import SendingLoop
from msh.models import Attempt, History, Incident, OutboundMessage, PartyEvent, Signal
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.vocabulary import DeliverySemantics
from msh.transport.carrier import Finished
from msh.transport.job import Job
from msh.transport.slots import Room
from tests.sql import Calls, Execute, execute, wrap_execute
from tests.waiting import wait_until

from .byhand import TRANSMITTED, run_until_quiet
from .world import World, make_world

pytestmark = pytest.mark.django_db

BEST_EFFORT = DeliverySemantics.BEST_EFFORT
UNWRITABLE = AttemptResult(AttemptOutcome.TRANSMITTED, status=204, detail="\0")
"""An outcome that PostgreSQL does not store: there is no text with a NUL."""


class Scripted:
    """A carrier that ends every job at once, as `answers` says of its partner."""

    def __init__(self, events: "SimpleQueue[Any]", **_limits: int) -> None:
        self.events = events
        self.jobs: list[Job] = []
        self.answers: dict[int, AttemptResult] = {}

    def submit(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self.jobs.append(job)
            self.events.put(Finished(job, self.answers.get(job.partner_id, TRANSMITTED)))

    def free_in_all(self) -> int:
        return 100

    def free(self, partner_id: int) -> int:
        return 4

    def bytes_under_way(self) -> int:
        return 0

    def rooms(self, _: int) -> list[Room]:
        return [Room((), only=False, slots=100)]

    def take_no_more(self) -> None:
        pass

    def under_way(self) -> int:
        return 0


@pytest.fixture
def driven(monkeypatch: pytest.MonkeyPatch) -> SendingLoop:
    """A sending loop that transmits to nobody and polls often."""
    monkeypatch.setattr(worker_loop, "Carrier", Scripted)
    monkeypatch.setattr(worker_loop, "PAUSE", 0.01)
    return SendingLoop()


def carrier_of(driven: SendingLoop) -> Scripted:
    carrier: Any = driven.carrier
    return carrier  # type: ignore[no-any-return]


def posted(driven: SendingLoop) -> list[int]:
    """The partners that were sent something, in the order of the POSTs."""
    return [job.partner_id for job in carrier_of(driven).jobs]


def set_terms(message: OutboundMessage, change: str) -> None:
    """Change the stored terms of a message by an expression of PostgreSQL."""
    execute(f"UPDATE msh_outboundmessage SET terms = {change} WHERE id = %s", message.pk)


def make_due(world: World) -> None:
    statement = "UPDATE msh_outboundlink SET due = now() - interval '1 s' WHERE partner_id = %s"
    execute(statement, world.there.pk)


def in_flight(world: World) -> OutboundMessage:
    """A message whose Ack is late: its next copy is due."""
    message = world.submit()
    (job,) = world.poll()
    world.end(job)
    make_due(world)
    return message


def raise_for(message_id: str, function: Callable[..., Any], error: Exception) -> Any:
    def raising(header: Any, *given: Any, **named: Any) -> Any:
        if message_id in (header.message_id, header.ref_to_message_id):
            raise error
        return function(header, *given, **named)

    return raising


def test_terms_that_a_later_version_has_written_are_read(driven: SendingLoop) -> None:
    """During a rolling upgrade, and after going back."""
    newer, other = make_world(), make_world()
    set_terms(in_flight(newer), """terms || '{"added_later": 1}'""")
    other.submit()

    run_until_quiet(driven)

    assert sorted(posted(driven)) == [newer.there.pk, other.there.pk]
    assert (newer.link.state, newer.link.retries_spent) == ("waiting", 1)


@pytest.mark.parametrize("terms", ["'{}'", "'[]'", """terms || '{"timeout": "soon"}'"""])
def test_a_lane_whose_terms_cannot_be_read_is_suspended_and_stops_no_other(
    driven: SendingLoop, terms: str
) -> None:
    broken, other = make_world(), make_world()
    message = in_flight(broken)
    set_terms(message, terms)
    other.submit()

    run_until_quiet(driven)

    assert posted(driven) == [other.there.pk]
    link = broken.link
    assert (link.state, link.in_flight_id) == ("suspended", message.pk)
    assert (link.suspended_for, link.due, link.unsent) == ("processing_failed", None, False)
    incident = Incident.objects.get()
    assert (incident.partner_id, incident.direction) == (broken.there.pk, "out")
    assert (incident.kind, incident.message_id) == ("processing_failed", message.message_id)
    assert "Error: " in incident.detail
    assert link.suspended_detail == incident.detail
    step = History.objects.get(subject="link", to_state="suspended")
    assert (step.partner_id, step.from_state) == (broken.there.pk, "waiting")
    assert PartyEvent.objects.get(message=message).kind == "suspended"


@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_a_number_given_twice_suspends_its_own_lane_only(
    driven: SendingLoop, semantics: DeliverySemantics
) -> None:
    """What a constraint refuses, here after a restore that was not complete."""
    broken, other = make_world(), make_world()
    broken.submit()
    broken.settle()
    execute(
        "UPDATE msh_outboundlink SET next_number = 1, epoch = 1 WHERE partner_id = %s",
        broken.there.pk,
    )
    second = broken.submit()
    other.submit(semantics=semantics)

    run_until_quiet(driven)

    assert posted(driven) == [other.there.pk]
    assert (broken.link.state, broken.link.in_flight_id) == ("suspended", None)
    incident = Incident.objects.get()
    assert (incident.kind, incident.message_id) == ("processing_failed", second.message_id)
    assert "IntegrityError: " in incident.detail
    assert "outbound_number_once" in incident.detail


@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_a_message_that_cannot_be_composed_stops_no_other(
    driven: SendingLoop, monkeypatch: pytest.MonkeyPatch, semantics: DeliverySemantics
) -> None:
    broken, other = make_world(), make_world()
    message = broken.submit(semantics=semantics)
    other.submit(semantics=semantics)
    problem = RuntimeError("what nobody has thought of")
    raising = raise_for(message.message_id, wire.compose_head, problem)
    monkeypatch.setattr(wire, "compose_head", raising)

    run_until_quiet(driven)

    assert posted(driven) == [other.there.pk]
    message.refresh_from_db()
    assert message.state == ("failed" if semantics is BEST_EFFORT else "in_flight")
    assert broken.link.state == ("idle" if semantics is BEST_EFFORT else "suspended")
    incident = Incident.objects.get()
    assert (incident.partner, incident.message_id) == (broken.there, message.message_id)
    assert "RuntimeError: what nobody has thought of" in incident.detail


def test_a_signal_that_cannot_be_composed_stops_no_other(
    driven: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, other = make_world(), make_world()
    for world in (broken, other):
        world.submit()
    for job in broken.poll():
        (broken if job.partner_id == broken.there.pk else other).hand_over(job)
    signal = Signal.objects.get(link__partner=broken.here)
    problem = RuntimeError("what nobody has thought of")
    raising = raise_for(signal.ref_to_message_id, wire.compose_signal, problem)
    monkeypatch.setattr(wire, "compose_signal", raising)

    run_until_quiet(driven)

    assert posted(driven) == [other.here.pk]
    signal.refresh_from_db()
    assert (signal.pending, signal.sending) == (0, False)
    assert "RuntimeError: what nobody has thought of" in signal.last_detail
    incident = Incident.objects.get()
    assert (incident.partner, incident.direction) == (broken.here, "in")
    assert incident.message_id == signal.ref_to_message_id


@pytest.mark.parametrize("semantics", DeliverySemantics)
def test_an_outcome_that_cannot_be_written_costs_no_other_its_outcome(
    driven: SendingLoop, semantics: DeliverySemantics
) -> None:
    broken, other = make_world(), make_world()
    carrier_of(driven).answers[broken.there.pk] = UNWRITABLE
    message, good = broken.submit(semantics=semantics), other.submit(semantics=semantics)

    run_until_quiet(driven)

    assert sorted(posted(driven)) == [broken.there.pk, other.there.pk]
    assert Attempt.objects.get(message=good).outcome == "transmitted"
    ended = Attempt.objects.get(message=message)
    assert (ended.outcome, ended.status) == ("transmitted", 204)
    message.refresh_from_db()
    assert message.state == ("sent" if semantics is BEST_EFFORT else "in_flight")
    assert broken.link.state == ("idle" if semantics is BEST_EFFORT else "suspended")
    incident = Incident.objects.get()
    assert (incident.partner, incident.kind) == (broken.there, "processing_failed")
    assert "DataError: " in incident.detail


def test_unwritable_signal_outcome_does_not_affect_others(
    driven: SendingLoop,
) -> None:
    broken, other = make_world(), make_world()
    for world in (broken, other):
        world.submit()
    for job in broken.poll():
        (broken if job.partner_id == broken.there.pk else other).hand_over(job)
    carrier_of(driven).answers[broken.here.pk] = UNWRITABLE

    run_until_quiet(driven)

    signal = Signal.objects.get(link__partner=broken.here)
    assert (signal.pending, signal.sending) == (0, False)
    assert Signal.objects.get(link__partner=other.here).transmitted == 1
    incident = Incident.objects.get()
    assert (incident.partner, incident.kind) == (broken.here, "processing_failed")


def test_a_signal_that_cannot_be_claimed_stops_no_other(driven: SendingLoop) -> None:
    """Its kind is of a later version."""
    broken, other = make_world(), make_world()
    for world in (broken, other):
        world.submit()
    for job in broken.poll():
        (broken if job.partner_id == broken.there.pk else other).hand_over(job)
    Signal.objects.filter(link__partner=broken.here).update(kind="Later")

    run_until_quiet(driven)

    assert posted(driven) == [other.here.pk]
    assert Signal.objects.get(link__partner=broken.here).pending == 0


def test_temporary_database_error_is_retried_without_suspension(
    driven: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    message = world.submit()
    refusals = iter(range(3))

    def refusing(execute: Execute, calls: Calls) -> Any:
        ends = any("UPDATE msh_attempt" in call.statement.sql for call in calls)
        if ends and next(refusals, None) is not None:
            raise OperationalError("the connection is lost")
        return execute(calls)

    def is_written() -> bool:
        with suppress(OperationalError):  # a busy machine does a single round each time
            run_until_quiet(driven)
        return Attempt.objects.filter(message=message, outcome="transmitted").exists()

    wrap_execute(monkeypatch, refusing)
    wait_until(is_written)

    assert (world.link.state, Incident.objects.count()) == ("waiting", 0)


def test_without_a_database_a_round_is_not_tried_one_by_one(
    driven: SendingLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for world in (make_world(), make_world()):
        world.submit()
    calls = []

    def gone(_: Execute, given: Calls) -> Any:
        calls.append(given)
        raise OperationalError("the connection is lost")

    wrap_execute(monkeypatch, gone)
    with pytest.raises(DatabaseError):
        driven.round(EVERYTHING)
    assert len(calls) == 1
