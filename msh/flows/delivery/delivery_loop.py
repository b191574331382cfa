"""MSH → application: the loop that gives accepted messages to their consumers, each pair in its
order, and each conversation that has one. How: `consumer_in_process`, `consumer_http`.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from django.db import transaction

from msh.faults import CrashPoint, reach
from msh.flows.application import reason_of
from msh.flows.application_loop import POSTS_PER_CONSUMER, ApplicationLoop
from msh.flows.delivery import consumer_http
from msh.flows.delivery.consumer_http import Posted
from msh.flows.delivery.consumer_in_process import advance_due, deliver_pair
from msh.flows.send_budget import SendBudget
from msh.flows.wake_up import WakeUp
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.delivery.events import DeliveryPolled
from msh.store import capacity
from msh.store.delivery import deliveries
from msh.store.delivery import polling as delivery_work
from msh.store.delivery.deliveries import Consumers, HeldDelivery
from msh.store.delivery.polling_sql import DueDelivery, DueDeliveryToPost, NewHeadToPost
from msh.store.delivery.unclaimed import alarm_unclaimed
from msh.store.sending.polling import Slots

logger = logging.getLogger(__name__)

ALARM_EVERY = 5.0  # seconds
FAILED_REST = 60.0  # seconds between two attempts to begin a delivery that cannot begin
THREADS = 8
"""Each holds a database connection while a function of the application runs."""
THREADS_PER_CONSUMER = 4
"""Functions of one consumer, its resolver among them, that run at once: one that never returns
leaves threads to the others."""

ToPost = TypeVar("ToPost", DueDeliveryToPost, NewHeadToPost)


@dataclass(frozen=True, slots=True)
class Call:
    """The work of one of our threads: messages of one order (see `NewHead`), or one delivery. 0 is
    none."""

    consumer: int
    order: int = 0
    delivery: int = 0


class DeliveryLoop(ApplicationLoop):
    """The loop that delivers."""

    kind = WakeUp.DELIVER
    threads = THREADS

    def __init__(self) -> None:
        super().__init__()
        self._posts: set[int] = set()
        self._consumers = Consumers()
        self._alarmed_at = 0.0

    def poll(self) -> bool:
        self._alarm()
        self._consumers = Consumers()
        budget = SendBudget(self.carrier)
        worked = self._poll_due(budget)
        resting = [call.order for call in self.resting]
        new = delivery_work.find_new_to_post(resting, self._slots(budget))
        worked = self._post_new(new, budget) or worked
        return self._run_new() or worked

    def record(self, key: Posted, result: AttemptResult) -> None:
        consumer_http.record(key, result, self._consumers)

    def give_up(self, key: Posted, error: str) -> None:
        consumer_http.give_up(key, error, Consumers())

    def release(self, key: Posted) -> None:
        self._posts.discard(key.delivery)

    def _poll_due(self, budget: SendBudget) -> bool:
        busy = [*self._posts, *(call.delivery for call in self.calls | self.resting)]
        orders = [call.order for call in self.calls if call.order]
        to_call, to_post = delivery_work.find_due(busy, self._full(), self._slots(budget), orders)
        worked = False
        for row in to_call:
            if self._may_run(row):
                self.call(Call(row.consumer_id, delivery=row.id), advance_due, row.id)
                worked = True
        return self._post_again(to_post, budget) or worked

    def _slots(self, budget: SendBudget) -> Slots:
        free, full = self.carrier.free_in_all(), self.carrier.full()
        return Slots(POSTS_PER_CONSUMER, free, full, budget.for_large)

    def _may_run(self, row: DueDelivery) -> bool:
        """Is there a thread for a delivery that is due? One that has ended runs none of its
        consumer's functions."""
        if self.free_threads <= 0:
            return False
        return row.state in ("completed", "rejected") or row.consumer_id not in self._full()

    def _full(self) -> list[int]:
        running = Counter(call.consumer for call in self.calls)
        return [key for key, count in running.items() if count >= THREADS_PER_CONSUMER]

    def _run_new(self) -> bool:
        if self.free_threads <= 0:
            return False
        busy = [call.order for call in self.calls | self.resting]
        worked = False
        for head in delivery_work.find_new_to_call(busy, self._full(), self.free_threads):
            if head.consumer_id not in self._full():
                consumer = self._consumers[head.consumer_id]
                self.call(Call(consumer.pk, order=head.order_key), deliver_pair, head, consumer)
                worked = True
        return worked

    def _post_again(self, rows: list[DueDeliveryToPost], budget: SendBudget) -> bool:
        placed = [row for row in rows if budget.reserve(row.consumer_id, row.size)]
        return self._post(self._claim(placed, self._claim_due))

    def _post_new(self, heads: list[NewHeadToPost], budget: SendBudget) -> bool:
        placed = [head for head in heads if budget.reserve(head.consumer_id, head.size)]
        return self._post(self._claim(placed, self._claim_new))

    def _claim_due(self, rows: list[DueDeliveryToPost]) -> list[HeldDelivery]:
        held = deliveries.lock([row.id for row in rows], self._consumers)
        return [one for one in held if deliveries.begin(one)]

    def _claim_new(self, heads: list[NewHeadToPost]) -> list[HeldDelivery]:
        claimed = []
        for head in heads:
            handover = deliveries.lock_new(head.message_key, self._consumers[head.consumer_id])
            if handover is not None:
                handover.step(DeliveryPolled())
                claimed.append(handover)
        return claimed

    def _claim(
        self, rows: list[ToPost], claim: Callable[[list[ToPost]], list[HeldDelivery]]
    ) -> list[HeldDelivery]:
        """Claim these in one transaction. If one of them makes that impossible, claim each by
        itself, and leave that one alone for a while."""
        if not rows:
            return []
        try:
            with transaction.atomic():
                return claim(rows)
        except Exception as error:
            if capacity.is_gone(error):
                raise
        claimed: list[HeldDelivery] = []
        for row in rows:
            try:
                with transaction.atomic():
                    claimed += claim([row])
            except Exception as error:
                if capacity.is_gone(error):
                    break  # what was claimed has to be posted
                logger.exception("a delivery to consumer %d cannot begin", row.consumer_id)
                self._isolate(row, reason_of(error))
        return claimed

    def _isolate(self, row: DueDeliveryToPost | NewHeadToPost, why: str) -> None:
        delivery = row.id if isinstance(row, DueDeliveryToPost) else 0
        self.rest(Call(row.consumer_id, row.order_key, delivery), FAILED_REST)
        deliveries.report_failure(row.partner_id, f"a delivery cannot begin: {why}")

    def _post(self, claimed: list[HeldDelivery]) -> bool:
        if not claimed:
            return False
        reach(CrashPoint.DELIVER_AFTER_CLAIM)
        jobs, unsendable = consumer_http.jobs_of(claimed)
        self.carrier.submit(jobs)
        # Until its outcome is recorded, a poll must not take a delivery again.
        self._posts |= {handover.key for handover in claimed}
        for posted, why in unsendable:
            self.finish(posted, AttemptResult(AttemptOutcome.FAILED, detail=why, body_sent=False))
        # Those that could not be composed have ended already.
        self.record_ended()
        return True

    def _alarm(self) -> None:
        if time.monotonic() - self._alarmed_at > ALARM_EVERY:
            self._alarmed_at = time.monotonic()
            if opened := alarm_unclaimed():
                logger.warning("no consumer takes the next message of %d pairs", opened)
