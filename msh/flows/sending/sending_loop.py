"""The sending loop: copies and signals to partners, and how their POSTs ended."""

import logging
import time
from collections.abc import Sequence

from django.db import transaction

from msh.faults import CrashPoint, reach
from msh.flows.send_budget import SendBudget
from msh.flows.sending import acknowledge, isolation, recover, transmit
from msh.flows.sending.acknowledge import SignalCopy
from msh.flows.wake_up import WakeUp, wake_up, wake_ups_of
from msh.flows.worker_loop import ROUND, WorkerLoop
from msh.protocol.attempt import AttemptResult
from msh.store import capacity
from msh.store.sending import polling as due_work
from msh.store.sending.isolation import describe
from msh.store.sending.links import OutboundLinks
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Finished
from msh.transport.job import Job

logger = logging.getLogger(__name__)

LEASES_EVERY = 1.0  # seconds


class RecentPartners:
    """Those to whom a POST has just ended: whether many are being served at once."""

    MANY = 4
    WITHIN = 0.1  # seconds

    def __init__(self) -> None:
        self._ended: dict[int, float] = {}

    def note(self, partner_id: int, now: float) -> None:
        self._ended[partner_id] = now

    def are_many(self, now: float) -> bool:
        self._ended = {who: at for who, at in self._ended.items() if now - at < self.WITHIN}
        return len(self._ended) >= self.MANY


class SendingLoop(WorkerLoop):
    """Under load one poll serves many links and one transaction records many outcomes; when idle,
    each goes at once."""

    kind = WakeUp.TRANSMIT

    def __init__(self) -> None:
        super().__init__()
        self._unrecorded: list[Finished] = []
        self._more = False
        """The last poll left work for want of room: the end of a POST is a reason to poll."""
        self._leases_at = 0.0
        self._round_at = 0.0
        self._recent = RecentPartners()

    def take(self, event: Finished) -> bool:
        self._unrecorded.append(event)
        self._recent.note(event.job.partner_id, time.monotonic())
        return self._more

    def next_round_at(self) -> float:
        """With many partners, one transaction for several is worth a few milliseconds."""
        now = time.monotonic()
        gathers = self._recent.are_many(now)
        self._round_at = max(now, self._round_at + ROUND) if gathers else now
        return self._round_at

    def round(self, *, polling: bool) -> bool:
        """One transaction for all that have ended or are due; if that raises an error, one for each
        lane and signal. What the database refuses now is written in a later round."""
        ended = self._unrecorded
        if not (ended or polling):
            return False
        try:
            with transaction.atomic():
                links, jobs = self._record_and_claim(ended, polling=polling)
        except Exception as error:
            if capacity.is_gone(error):
                raise
            logger.warning("a round is repeated one by one: %s", describe(error))
            return self._round_one_by_one(polling=polling)
        self._unrecorded = []
        if ended:
            reach(CrashPoint.OUTCOME_AFTER_COMMIT)
        if jobs:
            reach(CrashPoint.POLL_AFTER_COMMIT)
            self.carrier.submit(jobs)
        wake_up(*(kind for kind in wake_ups_of(links) if not (polling and kind is WakeUp.TRANSMIT)))
        return bool(ended or jobs)

    def _round_one_by_one(self, *, polling: bool) -> bool:
        """As `round`. An outcome is forgotten only when it is written, or is no one's any more."""
        settled = False
        keys = [(one.job.key, one.outcome) for one in self._unrecorded]
        for unit in isolation.units_of_outcomes(keys):
            if self._do(unit):
                settled = True
                written = {id(key) for key, _ in unit.ended}
                self._unrecorded = [o for o in self._unrecorded if id(o.job.key) not in written]
        if polling:
            budget = SendBudget(self.carrier)
            for unit in isolation.units_of_poll(self._places(budget), budget):
                settled = self._do(unit) or settled
        return settled

    def _do(self, unit: isolation.Unit) -> bool:
        done = isolation.do(unit)
        if done.jobs:
            self.carrier.submit(done.jobs)
        if done.links is not None:
            wake_up(*(kind for kind in wake_ups_of(done.links) if kind is not WakeUp.TRANSMIT))
        return done.settled

    def _record_and_claim(
        self, ended: list[Finished], *, polling: bool
    ) -> tuple[OutboundLinks, list[Job]]:
        results = [(one.job.key, one.outcome) for one in ended]
        partners = transmit.partners_of(results)
        jobs: list[Job] = []
        if polling:
            budget = SendBudget(self.carrier)
            places = self._places(budget)
            work = due_work.lock_work(partners, places)
        else:
            work = due_work.work_of_ended(partners)
        record(work.links, results)
        if polling:
            jobs = claim(work, budget)
            self._more = budget.refused or len(jobs) >= places.limit
            self._end_leases()
        work.links.write()
        if ended:
            reach(CrashPoint.OUTCOME_BEFORE_COMMIT)
        if polling:
            reach(CrashPoint.POLL_BEFORE_COMMIT)
        return work.links, jobs

    def _places(self, budget: SendBudget) -> due_work.Places:
        busy, free = self.carrier.busy(), self.carrier.free_in_all()
        return due_work.Places(AT_ONCE_PER_PARTNER, free, busy, budget.for_large)

    def _end_leases(self) -> None:
        if time.monotonic() - self._leases_at > LEASES_EVERY:
            self._leases_at = time.monotonic()
            recover.end_lost_leases()


def record(links: OutboundLinks, ended: Sequence[tuple[object, AttemptResult]]) -> None:
    copies = [(key, result) for key, result in ended if isinstance(key, transmit.Copy)]
    transmit.record(links, copies)
    transmit.record_best_effort(copies)
    acknowledge.record(links, ((k, result) for k, result in ended if isinstance(k, SignalCopy)))


def claim(work: due_work.Work, budget: SendBudget) -> list[Job]:
    recover.end_waits(work.links, work.due)
    return [
        *transmit.jobs_of(work.links, transmit.claim(work.links, budget)),
        *transmit.best_effort_jobs(work.links, work.best_effort, budget),
        *acknowledge.claim_signals(work.links, work.signals, budget),
    ]
