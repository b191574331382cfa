"""Consumers in our own process: their effects and the mark are one transaction."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from msh import Reject
from msh.flows.delivery.consumer_in_process import Claimed, run_claimed
from msh.flows.errors import NotPossible
from msh.flows.operations import change_incident
from msh.flows.operations.change_delivery import decide
from msh.models import ConsumerKind, Delivery, History, InboundMessage, Incident
from msh.protocol.delivery.events import AttemptRejected
from msh.store.delivery.deliveries import Consumers, begin, lock
from msh.store.history import SYSTEM, Actor
from tests.delivery import application
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.flows.world import World, make_world

pytestmark = pytest.mark.django_db

IN_PROCESS = ConsumerKind.IN_PROCESS


def fail(message: InboundMessage) -> None:
    User.objects.create(username=message.message_id)
    raise ConnectionError("the stock system is down")


def reject(message: InboundMessage) -> None:
    User.objects.create(username=message.message_id)
    raise Reject("article 4711 is not sold any more")


@pytest.mark.requirement("000-002", "002-01", "002-02", "002-04", "002-05", "002-06")
@pytest.mark.parametrize("history", [True, False])
def test_messages_are_consumed_in_order_and_once(history: bool) -> None:
    consumer(IN_PROCESS, history=history)
    messages = receive(make_world(), 3)

    Desk().settle()

    assert application.taken == [message.message_id for message in messages]
    rows = list(Delivery.objects.order_by("pk").values_list("state", "attempt", "due"))
    assert rows == ([("completed", 1, None)] * 3 if history else [])
    assert [state_of(message)[0] for message in messages] == ["delivered"] * 3
    Desk().settle()
    assert len(application.taken) == 3


@pytest.mark.requirement("001-10", "001-22", "001-23", "001-24", "001-15", "001-21", "003-09")
@pytest.mark.parametrize("history", [True, False])
def test_a_failed_head_stays_head_and_leaves_no_effect(history: bool) -> None:
    consumer(IN_PROCESS, history=history, retry_interval=0)
    first, second = receive(make_world(), 2)
    application.act = fail
    desk = Desk()

    desk.poll()
    desk.poll()

    assert set(application.taken) == {first.message_id}
    assert not User.objects.exists()
    assert state_of(first) == ("accepted", "failed")
    assert state_of(second) == ("accepted", "")
    kept = delivery_of(first)
    assert (kept.detail, kept.due is not None) == (
        "ConnectionError: the stock system is down",
        True,
    )
    application.act = None
    desk.settle()
    assert application.taken[-2:] == [first.message_id, second.message_id]
    assert [state_of(m)[0] for m in (first, second)] == ["delivered", "delivered"]


@pytest.mark.requirement("001-13")
def test_spent_attempts_block_the_pair_until_an_operator_decides() -> None:
    consumer(IN_PROCESS, attempts=2, retry_interval=0)
    world = make_world()
    first, second = receive(world, 2)
    application.act = fail
    desk = Desk()
    desk.settle()

    assert len(application.taken) == 2
    assert state_of(first) == ("accepted", "blocked")
    incident = Incident.objects.get()
    assert (incident.kind, incident.partner, incident.message_id) == (
        "delivery_failed",
        world.here,
        first.message_id,
    )
    application.act = None
    decided = decide([delivery_of(first).pk], "run-again", Actor("ann", "the stock system is up"))
    assert (len(decided.done), decided.refused) == (1, [])
    desk.settle()
    assert application.taken[-2:] == [first.message_id, second.message_id]
    incident.refresh_from_db()
    assert (incident.resolved_by, incident.resolution) == ("ann", "the stock system is up")


@pytest.mark.parametrize("on_failure", ["block", "park"])
def test_an_incident_is_not_resolved_while_its_delivery_waits(on_failure: str) -> None:
    """It would not be told again."""
    consumer(IN_PROCESS, attempts=1, on_failure=on_failure)
    (message,) = receive(make_world())
    application.act = fail
    Desk().settle()
    incident, ann = Incident.objects.get(), Actor("ann", "seen")

    with pytest.raises(NotPossible, match="still need a decision: 1"):
        change_incident.resolve(incident, ann)

    decide([delivery_of(message).pk], "reject", ann)
    incident.refresh_from_db()
    assert incident.resolved_by == "ann"
    with pytest.raises(NotPossible, match="already resolved"):
        change_incident.resolve(incident, ann)


@pytest.mark.requirement("001-13")
def test_spent_attempts_park_the_message_and_the_pair_goes_on() -> None:
    consumer(IN_PROCESS, attempts=1, on_failure="park")
    first, second = receive(make_world(), 2)
    application.act = lambda message: fail(message) if message.pk == first.pk else None
    desk = Desk()
    desk.settle()

    assert state_of(first) == ("parked", "parked")
    assert state_of(second) == ("delivered", "completed")
    application.act = None
    decide([delivery_of(first).pk], "run-again", Actor("ann", "fixed"))
    desk.settle()
    assert state_of(first) == ("delivered", "completed")


@pytest.mark.requirement("001-09", "001-04")
@pytest.mark.parametrize("history", [True, False])
def test_a_rejected_message_is_reported_and_never_run_again(history: bool) -> None:
    consumer(IN_PROCESS, history=history)
    first, second = receive(make_world(), 2)
    application.act = lambda message: reject(message) if message.pk == first.pk else None

    Desk().settle()

    assert application.taken == [first.message_id, second.message_id]
    assert not User.objects.exists()
    assert state_of(first) == ("rejected", "rejected")
    assert delivery_of(first).detail == "article 4711 is not sold any more"
    incident = Incident.objects.get()
    assert (incident.kind, incident.consumer) == ("delivery_rejected", "orders")
    row = History.objects.get(message_id=first.message_id, event="MessageRejected")
    assert "article 4711" in row.detail


def test_incident_of_rejected_messages_ends_when_all_were_run_again() -> None:
    consumer(IN_PROCESS)
    older, first, second, after = receive(make_world(), 4)
    application.act = lambda message: reject(message) if message.pk != after.pk else None
    desk = Desk()
    Desk().settle()
    by_hand = Incident.objects.get()
    change_incident.resolve(by_hand, Actor("ann", "not ours"))  # what was rejected stays so
    run_again([older, first, second], desk)
    incident = Incident.objects.get(resolved_at=None)
    assert incident.count == 3
    application.act = None

    for message in (first, older):
        run_again([message], desk)
        assert Incident.objects.filter(resolved_at=None).exists()
    run_again([second], desk)

    incident.refresh_from_db()
    how = "orders: completed by attempt 3"
    assert (incident.resolved_by, incident.resolution) == (SYSTEM, how)
    row = History.objects.get(event="IncidentResolved", actor=SYSTEM)
    assert (row.message_id, row.detail) == (second.message_id, f"delivery_rejected; {how}")
    by_hand.refresh_from_db()
    assert by_hand.resolution == "not ours"


def run_again(messages: list[InboundMessage], desk: Desk) -> None:
    decide([delivery_of(message).pk for message in messages], "run-again", Actor("ann", "fixed"))
    desk.settle()


def test_what_was_rejected_before_the_incident_does_not_keep_it_open() -> None:
    """It belonged to an earlier incident, which a person has resolved."""
    consumer(IN_PROCESS)
    world = make_world()
    older, _ = receive(world, 2)
    application.act = reject
    desk = Desk()
    desk.settle()
    change_incident.resolve(Incident.objects.get(), Actor("ann", "not ours"))
    (newer,) = receive(world)
    desk.settle()
    incident = Incident.objects.get(resolved_at=None)
    application.act = None

    run_again([older], desk)
    incident.refresh_from_db()
    assert incident.resolved_at is None
    run_again([newer], desk)
    incident.refresh_from_db()
    assert incident.resolved_by == SYSTEM


def test_incident_counts_a_rejection_that_was_read_before_it_was_opened() -> None:
    """Of two workers the second read the clock later, and opened the incident first."""
    consumer(IN_PROCESS)
    messages = receive(make_world(), 2)
    application.act = reject
    desk = Desk()
    desk.settle()
    Incident.objects.all().delete()
    keys = [delivery_of(message).pk for message in messages]
    decide(keys, "run-again", Actor("ann", "fixed"))
    begun = lock(keys, Consumers())
    assert all(begin(one) for one in begun)
    early, late = lock(keys, Consumers())
    early.took(-0.002)

    for one in (late, early):
        one.step(AttemptRejected(one.attempt, "no"))

    application.act = None
    run_again([messages[1]], desk)
    incident = Incident.objects.get()
    assert (incident.count, incident.opened_at) == (2, early.now)
    assert incident.resolved_at is None
    run_again([messages[0]], desk)
    incident.refresh_from_db()
    assert incident.resolved_by == SYSTEM


@pytest.mark.parametrize("mark", ["mark-completed", "reject"])
def test_mark_of_an_operator_ends_the_incident_of_a_rejected_message(mark: str) -> None:
    consumer(IN_PROCESS, attempts=1)
    (message,) = receive(make_world())
    application.act = reject
    desk = Desk()
    desk.settle()
    incident = Incident.objects.get()
    application.act = fail
    run_again([message], desk)
    assert state_of(message)[1] == "parked"
    incident.refresh_from_db()
    assert incident.resolved_at is None

    decide([delivery_of(message).pk], mark, Actor("ann", "by telephone"))

    incident.refresh_from_db()
    assert (incident.resolved_by, incident.resolution) == ("ann", "by telephone")


def test_a_worker_that_wakes_up_late_runs_nothing() -> None:
    """Fencing: the attempt that was claimed is not the latest any more."""
    consumer(IN_PROCESS, lease=2, retry_interval=0)
    (message,) = receive(make_world())
    application.act = fail
    desk = Desk()
    desk.poll()
    stale = Claimed(delivery_of(message).pk, 1)
    Delivery.objects.update(state="processing", attempt=2)
    application.act = None

    assert run_claimed(stale, Consumers()) is False
    assert application.taken == [message.message_id]


@pytest.mark.requirement("001-12", "003-03")
def test_an_in_process_attempt_that_died_is_run_again_after_its_lease() -> None:
    consumer(IN_PROCESS)
    (message,) = receive(make_world())
    application.act = fail
    desk = Desk()
    desk.poll()
    application.act = None
    Delivery.objects.update(state="processing", failures=0, due="2126-01-01T00:00Z")
    desk.settle()
    assert len(application.taken) == 1, "its lease still runs"
    Delivery.objects.update(due="2026-01-01T00:00Z")

    desk.settle()

    assert len(application.taken) == 2
    assert state_of(message) == ("delivered", "completed")
    assert delivery_of(message).attempt == 2


def test_an_unknown_path_is_a_failure_that_names_it() -> None:
    made = consumer(IN_PROCESS)
    made.path = "tests.delivery.nowhere.consume"
    made.save()
    (message,) = receive(make_world())

    Desk().poll()

    assert state_of(message) == ("accepted", "failed")
    assert "tests.delivery.nowhere" in delivery_of(message).detail


def test_message_without_a_consumer_waits_and_opens_an_incident() -> None:
    (message,) = receive(make_world())
    Desk().settle()

    assert state_of(message) == ("accepted", "")
    incident = Incident.objects.get()
    assert (incident.kind, incident.resolved_by) == ("no_consumer", "")
    consumer(IN_PROCESS)
    Desk().settle()
    assert state_of(message) == ("delivered", "completed")
    incident.refresh_from_db()
    assert incident.resolved_by == "msh"


def test_the_consumer_that_says_most_takes_the_message(world: World) -> None:
    consumer(IN_PROCESS, name="any")
    consumer(IN_PROCESS, name="by-action", action="New")
    consumer(IN_PROCESS, name="by-service", service_interface="Orders")
    consumer(IN_PROCESS, name="other", partner=world.there)
    (message,) = receive(world)
    Desk().settle()
    assert delivery_of(message).consumer.name == "by-service"
    consumer(IN_PROCESS, name="by-partner", partner=world.here)
    (message,) = receive(world)
    Desk().settle()
    assert delivery_of(message).consumer.name == "by-partner"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"path": "no.such.module"}, "no.such.module cannot be imported"),
        ({"path": "msh.protocol.message.MESSAGE_ID_LIMIT"}, "is not a function"),
        ({"path": ""}, "dotted path"),
        ({"resolver": "tests.delivery.application.resolve"}, "never in doubt"),
        ({"lease": 0}, "lease"),
    ],
)
def test_impossible_settings_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        consumer(IN_PROCESS, **values)
    assert said in str(refused.value)
