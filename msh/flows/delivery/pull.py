"""Consumers that take their messages themselves: take, work, settle.

A taken message is being processed until its lease is over; then its outcome is unknown. Each pair
gives one message at a time, so that its order is kept.
"""

from dataclasses import dataclass
from enum import StrEnum

from django.db import transaction

from msh.flows.delivery.consumer_http import leave
from msh.flows.wake_up import WakeUp, wake_up
from msh.models import Consumer, ConsumerKind, InboundMessage
from msh.protocol.delivery.events import (
    AttemptFailed,
    AttemptRejected,
    AttemptSucceeded,
    DeliveryEvent,
)
from msh.protocol.kinds import DeliveryState
from msh.store.delivery import deliveries
from msh.store.delivery import polling as delivery_work
from msh.store.delivery.deliveries import Consumers


class Outcome(StrEnum):
    COMPLETED = "completed"
    REJECTED = "rejected"
    FAILED = "failed"


class SettleRefused(ValueError):
    """`str()` is a sentence: what is wrong, and the cure. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that a consumer has taken. It reports the outcome with both numbers."""

    delivery: int
    attempt: int
    message: InboundMessage
    is_replay: bool = False


def take(consumer: Consumer, limit: int) -> list[Taken]:
    _require_pull(consumer)
    consumers = Consumers({consumer.pk: consumer})
    again, new = delivery_work.find_takeable(consumer, limit)
    with transaction.atomic():
        held = deliveries.lock(again, consumers)
        for key in new[: max(0, limit - len(held))]:
            handover = deliveries.lock_new(key, consumer)
            if handover is not None:
                held.append(handover)
        taken = [one for one in held if deliveries.begin(one)]
    messages = InboundMessage.objects.in_bulk([one.message_key for one in taken])
    return [
        Taken(one.key, one.attempt, message, one.is_replay)
        for one in taken
        if (message := messages.get(one.message_key))  # else it was removed meanwhile
    ]


def settle(
    consumer: Consumer,
    delivery: int,
    attempt: int,
    outcome: Outcome,
    *,
    reason: str = "",
    external_id: str = "",
) -> DeliveryState:
    """Say how an attempt ended; the state after it. An earlier attempt than the latest, or one
    that is settled already, changes nothing and is noted.

    Raises SettleRefused for a delivery that this consumer has not.
    """
    _require_pull(consumer)
    event: DeliveryEvent
    match outcome:
        case Outcome.COMPLETED:
            event = AttemptSucceeded(attempt)
        case Outcome.REJECTED:
            event = AttemptRejected(attempt, reason or "rejected without a reason")
        case Outcome.FAILED:
            event = AttemptFailed(attempt, reason or "failed without a reason")
    with transaction.atomic():
        held = deliveries.lock([delivery], Consumers(), wait=True)
        if not held or held[0].consumer.pk != consumer.pk:
            raise SettleRefused(f"Consumer {consumer} has no delivery {delivery}: take it first.")
        if held[0].attempt == attempt:
            held[0].external_id = external_id or held[0].external_id
        held[0].step(event)
    state = held[0].value.state
    if held[0].value.due is not None and state in (DeliveryState.COMPLETED, DeliveryState.REJECTED):
        leave(delivery, Consumers())
    wake_up(WakeUp.DELIVER)
    return state


def _require_pull(consumer: Consumer) -> None:
    if consumer.kind != ConsumerKind.PULL:
        raise SettleRefused(f"Consumer {consumer} is not a pull consumer")
