"""The sending loop: copies and signals to partners, and how their POSTs ended."""

import logging
import math
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from msh.faults import CrashPoint, reach
from msh.flows.names import Names, Promise
from msh.flows.send_budget import SendBudget
from msh.flows.sending import (
    acknowledge,
    flight_round,
    isolation,
    outcomes,
    promised,
    recover,
    transmit,
)
from msh.flows.sending.acknowledge import SignalCopy
from msh.flows.sending.fly import FlightCopy
from msh.flows.sending.gathering import Served
from msh.flows.sending.http_answer import answer_of_best_effort
from msh.flows.sending.outcomes import Held, Outcomes
from msh.flows.wake_up import WakeUp, wake_up_for
from msh.flows.worker_loop import PAUSE, REST, WorkerLoop
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.store import capacity
from msh.store.sending import polling
from msh.store.sending.isolation import describe
from msh.store.sending.links import OutboundLinks
from msh.store.transactions import short_transaction
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Finished
from msh.transport.job import Job

logger = logging.getLogger(__name__)

LEASES_EVERY = 1.0  # seconds
RECORD_AGAIN = 5.0
"""Seconds until what could not be recorded for an error, most likely a lock timeout, is tried
again: the round has waited for that lock, and everything else with it."""


class SendingLoop(WorkerLoop):
    """Under load one round serves many links and one transaction records many outcomes; when idle,
    each goes at once."""

    kind = WakeUp.TRANSMIT

    def __init__(self) -> None:
        super().__init__()
        self._unrecorded = Outcomes()
        self._short_claims: set[int] = set()
        """Signals under way that are claimed for a second only, since their message was stored."""
        self._promised = promised.UnderWay()
        self._settled = Outcomes()
        """Those of messages that are complete, not recorded yet."""
        self._of_flights = Outcomes()
        """Those of copies of flights, not recorded yet."""
        self._has_flights = False
        """Whether the last poll of links saw any."""
        self._more = False
        """The last poll left work for want of room: the end of a POST is a reason to poll."""
        self._leases_at = 0.0
        self._round_at = 0.0
        self._served = Served()

    def take(self, event: Finished) -> bool:
        if isinstance(event.job.key, FlightCopy):
            self._of_flights.add([event])
            return False
        if self._promised.lapses(event):
            return True
        if answered := answer_of_best_effort(event):
            self._of_flights.add([answered])
        now = time.monotonic()
        self._unrecorded.hold(event, now)
        self._served.note(event.job.partner_id, now)
        if isinstance(event.job.key, SignalCopy):
            self._short_claims.discard(event.job.key.key)
        return self._more

    def is_urgent(self, event: object) -> bool:
        """How a POST ended may wait as long as a 2xx may; what it brought may not."""
        if not isinstance(event, Finished) or self._more:
            return True
        result = event.outcome
        return result.outcome is not AttemptOutcome.TRANSMITTED or result.answer is not None

    def next_round_at(self) -> float:
        """With many messages at once, one transaction for several is worth a few milliseconds."""
        now = time.monotonic()
        gather = self._served.gather(now)
        self._round_at = max(now, self._round_at + gather) if gather else now
        return self._round_at

    def patience(self) -> float:
        """Outcomes that the database refused are tried again after PAUSE, links that were named
        beside too many others at once."""
        if self._names.links and self.carrier.free_in_all():
            return 0.0
        usual = outcomes.HOLD / 2 if self.carrier.under_way() else super().patience()
        held = min(self._unrecorded.next_at(), self._settled.next_at()) - time.monotonic()
        return min(held, usual) if held > 0 else usual

    def is_busy(self) -> bool:
        held = self._unrecorded or self._settled or self._of_flights
        return bool(held) or super().is_busy()

    def round(self, names: Names) -> bool:
        """Lanes and signals, then flights: nothing of one keeps the other from being done."""
        done = self._round_of_lanes(names)
        everything = names.all and self._has_flights
        now = math.inf if self._stopping.is_set() else time.monotonic()
        ended = self._of_flights.pop_due(now)
        if not (ended or names.flights or everything):
            return done
        try:
            worked, held = flight_round.work(
                self.carrier, ended, names.flights, self._served, everything=everything
            )
        except Exception:
            self._of_flights.add(ended)
            raise
        now = time.monotonic()
        again = (now + (PAUSE if one.job.partner_id in held else RECORD_AGAIN) for one in ended)
        self._of_flights.keep(map(Held, ended, again))
        return done or worked

    def _round_of_lanes(self, names: Names) -> bool:
        """Claimed signals first: for them nothing is written. Then one transaction for all that
        have ended, are named or due; if that raises an error, one for each lane and signal. What
        the database refuses now is written in a later round."""
        if names.signals:
            self._transmit_claimed(names.signals)
        did_something = bool(names.signals or names.promised or self._settled)
        if names.promised:
            names |= self._transmit_promised(names.promised)
        self._record_settled()
        # A worker that is stopping polls no more: what it sends is written as begun without a poll.
        is_stopping = self._stopping.is_set()
        now = math.inf if is_stopping else time.monotonic()
        to_keep = self._promised.all() if is_stopping else self._promised.of(names)
        names = self._with_room(names)
        if not (names.all or names.links or to_keep or self._unrecorded.are_due(now)):
            return bool(self._unrecorded) or did_something
        try:
            with short_transaction():
                done = self._record_and_claim(names, to_keep, now)
        except Exception as error:
            if capacity.is_gone(error):
                raise
            logger.warning("a round is repeated one by one: %s", describe(error))
            self._has_flights = True  # nobody has looked
            return self._round_one_by_one(names)
        self._unrecorded.forget({id(one.job.key) for one in done.ended})
        self._unrecorded.put_off(done.missed, time.monotonic() + PAUSE)
        if names.all:
            self._short_claims.clear()
        self._promised.end(done.under_way, done.kept)
        if done.ended:
            reach(CrashPoint.OUTCOME_AFTER_COMMIT)
        if done.jobs:
            reach(CrashPoint.POLL_AFTER_COMMIT)
            self.carrier.submit(done.jobs)
        wake_up_for(done.links)
        return bool(done.ended or done.jobs)

    def _record_settled(self) -> None:
        """Record how attempts of complete messages ended, unless they are held. What cannot be
        written so is recorded with the others of this round."""
        now = math.inf if self._stopping.is_set() else time.monotonic()
        if self._settled.are_due(now):
            self._unrecorded.add(promised.record(list(self._settled)))
            self._settled = Outcomes()

    def _transmit_claimed(self, keys: frozenset[int]) -> None:
        """Submit signals that are claimed. Those for which there is no place now are named again
        for a later round. What raises an error is left to the sweep, which isolates it."""
        budget = SendBudget(self.carrier)
        try:
            work = polling.load_claimed(keys)
            jobs, left = acknowledge.jobs_of_claimed(work.links, work.signals, budget)
            if work.links.has_writes:
                with short_transaction():
                    work.links.write(last=True)
        except Exception as error:
            if capacity.is_gone(error):
                raise
            logger.warning("claimed signals are left to the next sweep: %s", describe(error))
            return
        self._names |= Names(signals=frozenset(left))
        self._short_claims.update(job.key.key for job in jobs if isinstance(job.key, SignalCopy))
        if jobs:
            self.carrier.submit(jobs)

    def _transmit_promised(self, named: frozenset[Promise]) -> Names:
        """Submit copies that were promised. Those for which there is no place now are named again
        for a later round; the links of those that have changed since are to be polled. What ended
        before these copies needs no link to be recorded."""
        budget = SendBudget(self.carrier)
        named = self._promised.without(named, (*self._unrecorded, *self._settled))
        asked = frozenset(one for one in named if budget.reserve(one.partner_id))
        self._names |= Names(promised=named - asked)
        loaded = promised.load(asked)
        if loaded.jobs:
            reach(CrashPoint.POLL_AFTER_COMMIT)
            self._promised.add(loaded.jobs)
            self.carrier.submit(loaded.jobs)
        settled = promised.settled_by(loaded.copies, self._unrecorded)
        self._settled.keep(self._unrecorded.take(settled))
        self._unrecorded.add(loaded.ended)
        return Names(frozenset(one.partner_id for one in asked) - loaded.partners)

    def _round_one_by_one(self, names: Names) -> bool:
        """As `round`. An outcome is forgotten only when it is written, or is no one's any more."""
        settled = False
        resting = self.resting
        keys = [(o.job.key, o.outcome) for o in self._unrecorded if o.job.partner_id not in resting]
        for unit in isolation.units_of_outcomes(keys):
            ended = {id(key) for key, _ in unit.ended}
            if self._do(unit):
                settled = True
                self._unrecorded.forget(ended)
            else:
                self._unrecorded.put_off(ended, time.monotonic() + REST)
        self._keep_promises([job for job in self._promised.all() if job.partner_id not in resting])
        if names.all or names.links:
            budget = SendBudget(self.carrier)
            for unit in isolation.units_of_poll(self._places(budget), budget):
                settled = self._do(unit) or settled
        return settled

    def _keep_promises(self, under_way: list[Job]) -> None:
        for job in under_way:
            kept: list[Job] = []
            unit = isolation.unit_of_promise(job, kept)
            written = isolation.do(unit).work is not None
            self._promised.end([job], kept if written else [])

    def _do(self, unit: isolation.Unit) -> bool:
        done = isolation.do(unit)
        if done.jobs:
            self.carrier.submit(done.jobs)
        if isinstance(done.work, OutboundLinks):
            done.work.transmits.clear()  # they are polled for one by one
            wake_up_for(done.work)
        if unit.link and not done.settled:
            self.rest(unit.link)
        return done.settled

    def _record_and_claim(self, names: Names, to_keep: list[Job], now: float) -> "_Done":
        """What is held, and what is under way, of a link that is locked in any case is written
        with it."""
        due = self._unrecorded.to_record(now, names.links)
        partners = transmit.partners_of([(one.job.key, one.outcome) for one in due])
        partners |= {job.partner_id for job in to_keep}
        resting = self.resting if now < math.inf else set()
        partners -= resting
        budget = SendBudget(self.carrier)
        places = self._places(budget)
        if names.all:
            work = polling.lock_work(partners, places)
        else:
            work = polling.lock_named(partners, names.links)
        self._has_flights = work.has_flights or (self._has_flights and not names.all)
        locked = frozenset(work.links)
        ended = self._unrecorded.to_record(now, locked)
        missed = self._missed(ended, resting.union(work.missed) - locked)
        ended = [one for one in ended if id(one.job.key) not in missed]
        record(work.links, [(one.job.key, one.outcome) for one in ended])
        to_keep = [job for job in to_keep if job.partner_id in partners.difference(work.missed)]
        under_way = self._promised.among(locked, to_keep)
        kept = promised.keep(work.links, under_way)
        jobs = claim(work, budget)
        work.links.transmits.clear()
        self._more = budget.refused or work.left or (self._more and not names.all)
        if names.all:
            self._more |= len(jobs) >= places.limit or len(places.rooms) > 1
            if self._short_claims:
                acknowledge.keep_claimed(work.links, self._short_claims)
            self._end_leases()
        if ended:
            reach(CrashPoint.OUTCOME_BEFORE_COMMIT)
        if jobs:
            reach(CrashPoint.POLL_BEFORE_COMMIT)
        work.links.write(last=True)
        return _Done(work.links, jobs, ended, missed, under_way, kept)

    def _places(self, budget: SendBudget) -> polling.Places:
        return polling.Places(
            AT_ONCE_PER_PARTNER,
            self.carrier.free_in_all(),
            large=budget.for_large,
            rooms=self.carrier.rooms(polling.AT_ONCE),
            resting=self.resting,
        )

    def _with_room(self, names: Names) -> Names:
        """As many of the named links as one poll takes, of partners who have a place. What has none
        is found by the poll that the end of a POST asks for; the others are for the next round."""
        resting = self.resting
        room = [one for one in names.links if one not in resting and self.carrier.free(one)]
        self._more |= len(room) < len(names.links)
        limit = min(polling.AT_ONCE, self.carrier.free_in_all())
        if not names.all:
            self._names |= Names(links=frozenset(room[limit:]))
        return replace(names, links=frozenset(room[:limit]))

    @staticmethod
    def _missed(ended: list[Finished], partners: Collection[int]) -> set[int]:
        """The `id` of the key of each copy that is one of a link to these `partners`."""
        keys = [one.job.key for one in ended]
        copies = [key for key in keys if isinstance(key, transmit.Copy) and key.attempt is not None]
        return {id(copy) for copy in copies if copy.partner_id in partners}

    def _end_leases(self) -> None:
        if time.monotonic() - self._leases_at > LEASES_EVERY:
            self._leases_at = time.monotonic()
            recover.end_lost_leases()


class _Done(NamedTuple):
    """Of one transaction: the links that it wrote, the jobs to submit, the outcomes that are
    recorded; the `id` of the key of those whose link others hold; and what was under way on these
    links, with those that are still ours."""

    links: OutboundLinks
    jobs: list[Job]
    ended: list[Finished]
    missed: set[int]
    under_way: list[Job]
    kept: list[Job]


def record(links: OutboundLinks, ended: Sequence[tuple[object, AttemptResult]]) -> None:
    copies = [(key, result) for key, result in ended if isinstance(key, transmit.Copy)]
    transmit.record(links, copies)
    transmit.record_best_effort(copies)
    acknowledge.record(links, ((k, result) for k, result in ended if isinstance(k, SignalCopy)))


def claim(work: polling.Work, budget: SendBudget) -> list[Job]:
    recover.end_waits(work.links, work.due)
    return [
        *transmit.jobs_of(work.links, transmit.claim(work.links, budget), work.copies),
        *transmit.best_effort_jobs(work.links, work.best_effort, budget),
        *acknowledge.claim_signals(work.links, work.signals, budget),
    ]
