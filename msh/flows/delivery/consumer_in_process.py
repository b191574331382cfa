"""Consumers in our own process: functions, called in the transaction that marks their message.

So the effects of the function and that mark are one (D40). An attempt has failed if the function
raises, and also if its transaction cannot be committed. What makes the transaction itself
impossible (the connection is lost, COMMIT is refused) is recorded in another one.
"""

import logging
import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Protocol

from django.db import transaction

from msh import trace_hook
from msh.faults import CrashPoint, reach
from msh.flows import application
from msh.flows.delivery.resolve import ask
from msh.models import Consumer, Delivery, InboundMessage
from msh.protocol.delivery.events import (
    AskResolver,
    AttemptFailed,
    AttemptRejected,
    AttemptSucceeded,
    DeliveryPolled,
    OutcomeKept,
    Run,
)
from msh.protocol.errors import Reject
from msh.protocol.kinds import DeliveryState
from msh.store.delivery import deliveries
from msh.store.delivery import polling as delivery_work
from msh.store.delivery.deliveries import Consumers, HeldDelivery
from msh.store.delivery.polling_sql import NewHead

logger = logging.getLogger(__name__)

RUN_OF_PAIR = 100
"""Messages of one pair that are delivered in a row before others have their turn."""

Outcome = AttemptSucceeded | AttemptRejected | AttemptFailed


class Hold(Protocol):
    """Locks a delivery, in the transaction of its caller, with the attempt begun that is to be
    made. None if it is not to be made (any more), or without `wait` if another session holds it."""

    def __call__(self, *, wait: bool = False) -> HeldDelivery | None: ...


@dataclass(frozen=True, slots=True)
class Claimed:
    """An attempt that has begun: the fence. A later one makes this worker's outcome void."""

    delivery: int
    attempt: int


def deliver_pair(head: NewHead | None, consumer: Consumer) -> int:
    """Deliver to an in-process consumer, from this new head on, until its pair or conversation has
    no more for it; how many were delivered."""
    delivered = 0
    while head is not None and head.consumer_id == consumer.pk and delivered < RUN_OF_PAIR:
        if not _deliver_new(head, consumer):
            break
        delivered += 1
        head = delivery_work.find_next(head.order_key)
    return delivered


def advance_due(key: int) -> None:
    row = Delivery.objects.select_related("consumer").get(pk=key)
    if row.consumer.is_one_transaction and row.state == DeliveryState.FAILED:
        _attempt(partial(_hold_failed, key))
        return
    consumers = Consumers()
    with transaction.atomic():
        held = deliveries.lock([key], consumers)
        if not held:
            return
        (handover,) = held
        effects = handover.step(DeliveryPolled())
    if any(isinstance(effect, Run) for effect in effects):
        reach(CrashPoint.DELIVER_AFTER_CLAIM)
        run_claimed(Claimed(key, handover.attempt), consumers)
    elif any(isinstance(effect, AskResolver) for effect in effects):
        ask(key, handover.attempt)


def run_claimed(claimed: Claimed, consumers: Consumers) -> bool:
    return _attempt(partial(_hold_claimed, claimed, consumers))


def _deliver_new(head: NewHead, consumer: Consumer) -> bool:
    """True if it was delivered, so that the next of the pair may follow."""
    if consumer.is_one_transaction:
        return _attempt(partial(_hold_new, head.message_key, consumer))
    with transaction.atomic():
        handover = deliveries.lock_new(head.message_key, consumer)
        if handover is None:
            return False
        handover.step(DeliveryPolled())
    reach(CrashPoint.DELIVER_AFTER_CLAIM)
    claimed = Claimed(handover.key, handover.attempt)
    return run_claimed(claimed, Consumers({consumer.pk: consumer}))


def _hold_new(message_key: int, consumer: Consumer, *, wait: bool = False) -> HeldDelivery | None:
    handover = deliveries.lock_new(message_key, consumer, wait=wait)
    if handover is not None:
        handover.step(DeliveryPolled(), keep=False)
    return handover


def _hold_failed(key: int, *, wait: bool = False) -> HeldDelivery | None:
    held = deliveries.lock([key], Consumers(), wait=wait)
    if not held or held[0].value.state is not DeliveryState.FAILED:
        return None
    return held[0] if held[0].step(DeliveryPolled(), keep=False) else None


def _hold_claimed(
    claimed: Claimed, consumers: Consumers, *, wait: bool = False
) -> HeldDelivery | None:
    held = deliveries.lock([claimed.delivery], consumers, wait=wait)
    # The attempt is the fence: a worker that was paused finds another one and does nothing.
    if not held or held[0].attempt != claimed.attempt:
        return None
    return held[0] if held[0].value.state is DeliveryState.PROCESSING else None


def _attempt(hold: Hold) -> bool:
    """Make one attempt; True if its message has left the order of its pair."""
    outcome: Outcome | None = None
    try:
        with transaction.atomic():
            handover = hold()
            if handover is None:
                return False
            outcome = _call(handover)
            _write(handover, outcome)
            reach(CrashPoint.DELIVER_BEFORE_COMMIT)
    except application.ERRORS as error:
        if outcome is None:
            raise  # the consumer was not called: nothing is known that would have to be recorded
        return _write_again(hold, outcome, error)
    reach(CrashPoint.DELIVER_AFTER_COMMIT)
    return not isinstance(outcome, AttemptFailed)


def _call(handover: HeldDelivery) -> Outcome:
    """Call the consumer. Its effects are kept if it succeeds, and only then."""
    attempt, consumer = handover.attempt, handover.consumer
    outcome: Outcome = AttemptSucceeded(attempt)
    began = time.monotonic()
    try:
        with transaction.atomic():
            application.allow_idle(timedelta(seconds=consumer.lease))
            # Read without a lock: copies that arrive meanwhile are counted in this row.
            message = InboundMessage.objects.get(pk=handover.message_key)
            message.replay = handover.key if handover.is_replay else None
            consumer.function()(message)
            # A consumer that caught a database error has lost its writes: COMMIT would roll back
            # silently.
            application.require_commit()
    except Reject as refusal:
        words = application.words_of(refusal) or "rejected without a reason"
        outcome = AttemptRejected(attempt, words)
    except application.ERRORS as error:
        outcome = AttemptFailed(attempt, application.reason_of(error))
    # `now` was read before the consumer ran; without this, `ended_at` and the next due time would
    # lie in the past.
    handover.took(time.monotonic() - began)
    if trace_hook.recorder is not None:
        why = "" if isinstance(outcome, AttemptSucceeded) else outcome.reason
        took = time.monotonic() - began
        trace_hook.recorder.delivered(handover.message_id, str(consumer), why, took)
    if not isinstance(outcome, AttemptSucceeded):
        how = "rejected" if isinstance(outcome, AttemptRejected) else "failed on"
        logger.warning("%s %s %s: %s", consumer, how, handover.message_id, outcome.reason)
    return outcome


def _write(handover: HeldDelivery, outcome: Outcome) -> None:
    if isinstance(outcome, AttemptSucceeded):
        handover.step(outcome, keep=False)
        # Without a history, a message that went well at once leaves no row but its own.
        handover.step(OutcomeKept(), keep=handover.consumer.history or handover.key > 0)
        return
    handover.step(outcome)
    if isinstance(outcome, AttemptRejected):
        handover.step(OutcomeKept())


def _write_again(hold: Hold, outcome: Outcome, error: BaseException) -> bool:
    """Record the attempt in a new transaction, after its own one failed with `error`: the
    consumer's writes were rolled back, so a success is a failure now. The server may still hold the
    locks of a lost connection."""
    application.restore_connection()
    if isinstance(outcome, AttemptSucceeded):
        reason = f"not committed: {application.reason_of(error)}"
        outcome = AttemptFailed(outcome.attempt, reason)
    with transaction.atomic():
        handover = hold(wait=True)
        if handover is None or handover.attempt != outcome.attempt:
            # Its COMMIT went through (and then a callback of `on_commit` raised, or the answer was
            # lost), or another worker has begun the next attempt.
            logger.error("raised after the end of an attempt", exc_info=error)
            return False
        logger.warning(
            "the attempt of %s on %s ended with its transaction: %s",
            *(handover.consumer, handover.message_id, application.reason_of(error)),
        )
        _write(handover, outcome)
    return isinstance(outcome, AttemptRejected)
