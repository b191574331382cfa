"""Consumers that take and settle."""

import pytest

from msh.flows.delivery.pull import Outcome, SettleRefused, settle, take
from msh.models import ConsumerKind, Delivery, Incident
from tests.delivery.desk import Desk, consumer, delivery_of, receive, state_of
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db

PULL = ConsumerKind.PULL


@pytest.mark.requirement("001-11", "001-24")
def test_each_pair_gives_its_head_and_then_the_next() -> None:
    made = consumer(PULL)
    first, second = receive(make_world(), 2)
    (other,) = receive(make_world())
    Desk().settle()

    taken = take(made, 10)

    assert [one.message.pk for one in taken] == [first.pk, other.pk]
    assert take(made, 10) == []
    settle(made, taken[0].delivery, 1, Outcome.COMPLETED, external_id="ext-1")
    assert state_of(first) == ("delivered", "completed")
    assert delivery_of(first).external_id == "ext-1"
    assert [one.message.pk for one in take(made, 10)] == [second.pk]


def test_a_failed_one_is_taken_again_and_a_rejected_one_is_not() -> None:
    made = consumer(PULL, retry_interval=0)
    (message,) = receive(make_world())
    (one,) = take(made, 1)
    settle(made, one.delivery, 1, Outcome.FAILED, reason="disk full")
    (again,) = take(made, 1)
    assert (again.delivery, again.attempt) == (one.delivery, 2)
    assert delivery_of(message).detail == "", "of the attempt before"

    late = settle(made, one.delivery, 1, Outcome.COMPLETED)
    assert late == "processing", "attempt 1 is over"

    settle(made, one.delivery, 2, Outcome.REJECTED, reason="not ours")
    ended_at = delivery_of(message).ended_at
    settle(made, one.delivery, 2, Outcome.REJECTED, reason="not ours")
    assert state_of(message) == ("rejected", "rejected")
    assert delivery_of(message).ended_at == ended_at, "said twice"
    assert take(made, 1) == []
    assert Incident.objects.get().count == 1


def test_a_consumer_that_is_off_is_given_nothing() -> None:
    made = consumer(PULL, retry_interval=0)
    receive(make_world())
    (one,) = take(made, 1)
    settle(made, one.delivery, 1, Outcome.FAILED, reason="disk full")
    receive(make_world())
    made.enabled = False
    made.save(update_fields=["enabled"])
    assert take(made, 10) == []
    made.enabled = True
    made.save(update_fields=["enabled"])
    assert len(take(made, 10)) == 2


@pytest.mark.requirement("002-09")
def test_a_taker_that_vanishes_leaves_a_doubt() -> None:
    made = consumer(PULL)
    (message,) = receive(make_world())
    (one,) = take(made, 1)
    Delivery.objects.update(due="2026-01-01T00:00Z")

    Desk().settle()

    assert state_of(message)[1] == "in_doubt"
    settle(made, one.delivery, 1, Outcome.COMPLETED)  # it was only slow
    assert state_of(message) == ("delivered", "completed")


def test_foreign_deliveries_are_refused() -> None:
    made, other = consumer(PULL), consumer(PULL, name="other", action="Else")
    receive(make_world())
    (one,) = take(made, 1)
    with pytest.raises(SettleRefused, match="has no delivery"):
        settle(other, one.delivery, 1, Outcome.COMPLETED)
    http = consumer(ConsumerKind.HTTP, name="http", action="Third")
    with pytest.raises(SettleRefused, match="not a pull consumer"):
        take(http, 1)
