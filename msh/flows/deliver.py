"""MSH → application: accepted messages go to their consumers, each pair in its order.

An in-process consumer is called in the transaction that marks its message delivered, so that its
effects and that mark are one (D40). What goes over HTTP is written down as processing first, and
its outcome before the message leaves the order of its pair (004-02).
"""

import logging
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from msh.faults import CrashPoint, reach
from msh.flows import consumer_http
from msh.flows.advance import Consumers, Handover
from msh.flows.advance import delivery as deliveries
from msh.flows.dispatch import Dispatch, allow_idle
from msh.flows.nudge import Nudge
from msh.flows.resolve import ask
from msh.flows.room import Room
from msh.models import Consumer, ConsumerKind, InboundMessage
from msh.protocol.delivery_events import (
    AskResolver,
    AttemptFailed,
    AttemptRejected,
    AttemptSucceeded,
    DeliveryLooked,
    OutcomeKept,
    Run,
)
from msh.protocol.errors import Reject
from msh.transport.carrier import Finished

logger = logging.getLogger(__name__)

AT_ONCE = 50
"""Deliveries and new heads that one look takes, of each."""
RUN_OF_PAIR = 100
"""Messages of one pair that are delivered in a row before others have their turn."""
ALARM_EVERY = 5.0  # seconds
THREADS = 8
THREADS_PER_CONSUMER = 4
"""Functions of one consumer, its resolver among them, that run at once: one that never returns
leaves threads to the others."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """An attempt that has begun: the fence. A later one makes this worker's outcome void."""

    delivery: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Call:
    """What one of our threads is busy with: messages of a link, or a delivery. 0 is none."""

    consumer: int
    link: int = 0
    delivery: int = 0


class Deliveries(Dispatch):
    """The loop that delivers."""

    kind = Nudge.DELIVER
    threads = THREADS

    def __init__(self) -> None:
        super().__init__()
        self._posts: dict[int, int] = {}
        self._alarmed_at = 0.0

    def look(self) -> bool:
        self._alarm()
        consumers = Consumers()
        room = Room(self.carrier)
        worked = self._look_at_due(consumers, room)
        full = self.carrier.busy()
        new = deliveries.find_new((ConsumerKind.HTTP,), (), full, AT_ONCE)
        worked = self._post_new(new, consumers, room) or worked
        return self._run_new(consumers) or worked

    def record(self, ended: list[Finished]) -> None:
        consumer_http.record(ended)
        for one in ended:
            self._posts.pop(one.job.key.delivery, None)  # type: ignore[attr-defined]

    def _look_at_due(self, consumers: Consumers, room: Room) -> bool:
        """Deliveries with a row: run again, ask about, or let their message go."""
        busy = [*self._posts, *(call.delivery for call in self.calls)]
        found = deliveries.find_due(busy, self.carrier.busy(), self._full(), AT_ONCE)
        posts: list[int] = []
        worked = False
        for row in found:
            consumer = consumers[row.consumer_id]
            if row.state == "failed" and consumer.kind == ConsumerKind.HTTP:
                posts += [row.id] if room.take(consumer.pk, row.size) else []
            elif self._may_run(row):
                self.call(Call(row.consumer_id, delivery=row.id), advance_due, row.id)
                worked = True
        return self._post_again(posts, consumers) or worked

    def _may_run(self, row: Any) -> bool:
        """Is there a thread for a delivery that is due? One that has ended runs none of its
        consumer's functions."""
        if self.free_threads <= 0 or row.link_id in {call.link for call in self.calls}:
            return False
        return row.state in ("completed", "rejected") or row.consumer_id not in self._full()

    def _full(self) -> list[int]:
        """Consumers whose functions run in as many threads as they may."""
        running = Counter(call.consumer for call in self.calls)
        return [key for key, count in running.items() if count >= THREADS_PER_CONSUMER]

    def _run_new(self, consumers: Consumers) -> bool:
        if self.free_threads <= 0:
            return False
        kinds, busy = (ConsumerKind.IN_PROCESS,), [call.link for call in self.calls]
        worked = False
        for head in deliveries.find_new(kinds, busy, self._full(), self.free_threads):
            if head.consumer_id not in self._full():
                consumer = consumers[head.consumer_id]
                self.call(Call(consumer.pk, link=head.link_id), deliver_pair, head, consumer)
                worked = True
        return worked

    def _post_again(self, keys: list[int], consumers: Consumers) -> bool:
        if not keys:
            return False
        with transaction.atomic():
            claimed = [
                (handover, run.attempt)
                for handover in deliveries.lock(keys, consumers)
                for run in handover.step(DeliveryLooked())
                if isinstance(run, Run)
            ]
        return self._post(claimed)

    def _post_new(self, heads: list[Any], consumers: Consumers, room: Room) -> bool:
        if not heads:
            return False
        claimed: list[tuple[Handover, int]] = []
        with transaction.atomic():
            for head in heads:
                if not room.take(head.consumer_id, head.size):
                    continue
                handover = deliveries.lock_new(head.message_key, consumers[head.consumer_id])
                if handover is not None:
                    handover.step(DeliveryLooked())
                    claimed.append((handover, handover.attempt))
        return self._post(claimed)

    def _post(self, claimed: list[tuple[Handover, int]]) -> bool:
        if not claimed:
            return False
        reach(CrashPoint.DELIVER_AFTER_CLAIM)
        self._posts |= {handover.key: attempt for handover, attempt in claimed}
        jobs, unsendable = consumer_http.jobs_of(handover for handover, _ in claimed)
        self.carrier.submit(jobs)
        for posted, why in unsendable:
            consumer_http.end(posted, AttemptFailed(posted.attempt, why), Consumers())
            self._posts.pop(posted.delivery, None)
        return True

    def _alarm(self) -> None:
        if time.monotonic() - self._alarmed_at > ALARM_EVERY:
            self._alarmed_at = time.monotonic()
            if opened := deliveries.alarm_unclaimed():
                logger.warning("no consumer takes the next message of %d pairs", opened)


def deliver_pair(head: Any, consumer: Consumer) -> int:
    """Deliver to an in-process consumer, from this new head on, until the pair has no more for
    it; how many were delivered."""
    delivered = 0
    while head is not None and head.consumer_id == consumer.pk and delivered < RUN_OF_PAIR:
        if not _deliver_new(head, consumer):
            break
        delivered += 1
        head = deliveries.find_new_of_link(head.link_id)
    return delivered


def advance_due(key: int) -> None:
    """One delivery that has a row: run it again in-process, ask about it, or let its message go."""
    with transaction.atomic():
        consumers = Consumers()
        held = deliveries.lock([key], consumers)
        if not held:
            return
        (handover,) = held
        one_transaction = handover.consumer.is_one_transaction
        effects = handover.step(DeliveryLooked(), keep=not one_transaction)
        runs = any(isinstance(effect, Run) for effect in effects)
        if runs and one_transaction:
            _consume(handover)
            runs = False
        asks = any(isinstance(effect, AskResolver) for effect in effects)
    if runs:
        reach(CrashPoint.DELIVER_AFTER_CLAIM)
        run_claimed(Claimed(key, handover.attempt), consumers)
    elif asks:
        ask(key, handover.attempt)


def _deliver_new(head: Any, consumer: Consumer) -> bool:
    """True if it was delivered, so that the next of the pair may follow."""
    with transaction.atomic():
        handover = deliveries.lock_new(head.message_key, consumer)
        if handover is None:
            return False
        handover.step(DeliveryLooked(), keep=not consumer.is_one_transaction)
        if consumer.is_one_transaction:
            done = _consume(handover)
            reach(CrashPoint.DELIVER_BEFORE_COMMIT)
    if consumer.is_one_transaction:
        reach(CrashPoint.DELIVER_AFTER_COMMIT)
        return done
    reach(CrashPoint.DELIVER_AFTER_CLAIM)
    claimed = Claimed(handover.key, handover.attempt)
    return run_claimed(claimed, Consumers({consumer.pk: consumer}))


def run_claimed(claimed: Claimed, consumers: Consumers) -> bool:
    """Run an attempt that was written down as begun, unless a later one has begun meanwhile."""
    with transaction.atomic():
        held = deliveries.lock([claimed.delivery], consumers)
        if not held or not _is_mine(held[0], claimed):
            return False
        done = _consume(held[0])
        reach(CrashPoint.DELIVER_BEFORE_COMMIT)
    reach(CrashPoint.DELIVER_AFTER_COMMIT)
    return done


def _is_mine(handover: Handover, claimed: Claimed) -> bool:
    value = handover.value
    return value.state == "processing" and value.attempt == claimed.attempt


def _consume(handover: Handover) -> bool:
    """Call the consumer in this transaction; keep its effects if it returns, and only then."""
    attempt, consumer = handover.attempt, handover.consumer
    began = time.monotonic()
    try:
        with transaction.atomic():
            allow_idle(timedelta(seconds=consumer.lease))
            message = InboundMessage.objects.get(pk=handover.message_key)
            consumer.function()(message)
    except Reject as refusal:
        handover.took(time.monotonic() - began)
        reason = str(refusal) or "rejected without a reason"
        logger.warning("%s rejected %s: %s", consumer, handover.message_id, reason)
        handover.step(AttemptRejected(attempt, reason))
        handover.step(OutcomeKept())
        return True
    except Exception as error:  # noqa: BLE001  an application may raise anything
        handover.took(time.monotonic() - began)
        reason = f"{type(error).__name__}: {error}"
        logger.warning("%s failed on %s: %s", consumer, handover.message_id, reason)
        handover.step(AttemptFailed(attempt, reason))
        return False
    handover.took(time.monotonic() - began)
    handover.step(AttemptSucceeded(attempt), keep=False)
    # Without a history, a message that went well at once leaves no row but its own.
    handover.step(OutcomeKept(), keep=consumer.history or handover.key > 0)
    return True
