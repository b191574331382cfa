"""One set of scenarios on both stores: the pure core in memory, and PostgreSQL's rows (D47)."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from msh.models import Consumer, ConsumerKind, InboundMessage
from msh.protocol import delivery as core
from msh.protocol.delivery.events import (
    AttemptFailed,
    AttemptRejected,
    AttemptSucceeded,
    CompletionMarked,
    Delivery,
    DeliveryEvent,
    DeliveryPolled,
    OutcomeKept,
    OutcomeLost,
    ParkRequested,
    RejectionMarked,
    ResolverAnswered,
    ResolverRequested,
    ResolverVerdict,
    RunAgainRequested,
)
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import DeliveryState
from msh.store.delivery import deliveries
from msh.store.delivery.deliveries import Consumers, HeldDelivery
from tests.delivery.desk import consumer, receive
from tests.flows.world import make_world

pytestmark = pytest.mark.django_db


def scenario(seed: int, length: int) -> list[str]:
    dice = random.Random(seed)
    return ["polled", *dice.choices(list(_MAKE), k=length)]


_MAKE: dict[str, Callable[[int], DeliveryEvent]] = {
    "polled": lambda attempt: DeliveryPolled(),
    "succeeded": AttemptSucceeded,
    "rejected": lambda attempt: AttemptRejected(attempt, "no"),
    "failed": lambda attempt: AttemptFailed(attempt, "down"),
    "late": lambda attempt: AttemptFailed(attempt - 1, "down"),
    "lost": lambda attempt: OutcomeLost(attempt, "not written"),
    "kept": lambda attempt: OutcomeKept(),
    "new": lambda attempt: ResolverAnswered(attempt, ResolverVerdict.NEW),
    "unsure": lambda attempt: ResolverAnswered(attempt, ResolverVerdict.IN_DOUBT),
    "again": lambda attempt: RunAgainRequested(),
    "mark": lambda attempt: CompletionMarked(),
    "refuse": lambda attempt: RejectionMarked(),
    "park": lambda attempt: ParkRequested(),
    "ask": lambda attempt: ResolverRequested(),
}


@pytest.mark.requirement("003-05", "003-07")
@pytest.mark.parametrize("on_failure", ["block", "park"])
@pytest.mark.parametrize("seed", range(5))
def test_rows_and_values_agree(seed: int, on_failure: str) -> None:
    made = consumer(
        ConsumerKind.HTTP,
        attempts=2,
        retry_interval=0,
        on_failure=on_failure,
        resolver="tests.delivery.application.resolve",
    )
    (message,) = receive(make_world())
    value = Delivery()
    key = 0
    for name in scenario(seed, 60):
        handover = _row(key, message, made)
        event = _MAKE[name](value.attempt)
        try:
            expected, _ = core.step(value, event, made.policy, now=handover.now)
        except IllegalTransition:
            with pytest.raises(IllegalTransition):
                handover.step(event)
            continue
        handover.step(event)
        key = handover.key
        value = expected
        again = _row(key, message, made).value
        assert replace(again, aside=value.aside) == value
        assert _placed(message, value)


def _row(key: int, message: InboundMessage, made: Consumer) -> HeldDelivery:
    held = deliveries.lock([key], Consumers()) if key else []
    found = held[0] if held else deliveries.lock_new(message.pk, made)
    assert found is not None
    return found


def _placed(message: InboundMessage, value: Delivery) -> bool:
    """The message is where its delivery says: in the order, out of it, or gone for good."""
    message.refresh_from_db()
    ended = value.state in (DeliveryState.COMPLETED, DeliveryState.REJECTED) and value.due is None
    if ended:
        return message.state == (
            "delivered" if value.state is DeliveryState.COMPLETED else "rejected"
        )
    return message.state == ("parked" if value.aside else "accepted")
