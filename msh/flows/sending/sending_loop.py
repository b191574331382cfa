"""The sending loop: copies and signals to partners, and how their POSTs ended."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from msh.faults import CrashPoint, reach
from msh.flows.hints import Hints, Promise
from msh.flows.send_budget import SendBudget
from msh.flows.sending import best_effort, flights, lanes, one_by_one, promised, signals
from msh.flows.sending.http_answer import NotNowError, answer_of_best_effort, ended_with
from msh.flows.sending.kinds import Ended, FlightCopy, Kind, LaneCopy, SettledCopy, Unit
from msh.flows.sending.outcomes import HOLD, Outcomes, Served
from msh.flows.wake_up import WakeUp, wake_up_for
from msh.flows.worker_loop import PAUSE, REST, WorkerLoop
from msh.protocol.attempt import AttemptOutcome
from msh.store import capacity
from msh.store.flights import polling as flight_polling
from msh.store.flights.flights import Flights
from msh.store.sending import polling
from msh.store.sending.best_effort_sql import BestEffortCopy
from msh.store.sending.isolation import describe
from msh.store.sending.polling import Slots, Work
from msh.store.sending.signals import SignalCopy
from msh.store.transactions import short_transaction
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Finished
from msh.transport.job import Job

logger = logging.getLogger(__name__)

LEASES_EVERY = 1.0  # seconds
RECORD_AGAIN = 5.0
"""Seconds until an answer that could not be taken, most likely for a lock timeout, is looked at
again: the round has waited for that lock, and everything else with it."""

Kinds = Mapping[type, Kind[Any]]
OF_LINKS: Kinds = {LaneCopy: lanes, BestEffortCopy: best_effort, SignalCopy: signals}
OF_FLIGHTS: Kinds = {FlightCopy: flights}
"""The kinds, by the class of the copies that they send. Each of the two tables has a transaction of
its own. With one for both a flight that somebody holds, for which a round waits, would keep all
links waiting; a flight that cannot be read would have them done one by one. And the order of row
locks would not hold: a poll locks BestEffort messages and signals, which come after flights and
conversations in that order, in the round trip that locks the links, before any flight is known."""


class SendingLoop(WorkerLoop):
    """Under load one round serves many links and one transaction records many outcomes; when idle,
    each goes at once."""

    kind = WakeUp.TRANSMIT

    def __init__(self) -> None:
        super().__init__()
        self._outcomes = Outcomes()
        self._under_way = promised.UnderWay()
        self._has_flights = False
        """Whether the last poll of links saw any."""
        self._more = False
        """The last poll left work for want of room: the end of a POST is a reason to poll."""
        self._leases_at = 0.0
        self._round_at = 0.0
        self._served = Served()

    def take(self, event: Finished) -> bool:
        if self._under_way.lapses(event):
            return True
        now = time.monotonic()
        ended = Ended(event.job.key, event.outcome)
        if answer := answer_of_best_effort(ended):
            self._outcomes.keep([answer])
            ended = replace(ended, result=replace(ended.result, answer=None))
        self._outcomes.hold(ended, now, event.job.lapse)
        if isinstance(ended.copy, FlightCopy):  # the round that records it looks for the next
            return False
        self._served.note(event.job.partner_id, now)
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
        if self._hints.links and self.carrier.free_in_all():
            return 0.0
        usual = HOLD / 2 if self.carrier.under_way() else super().patience()
        held = self._outcomes.next_at() - time.monotonic()
        return min(held, usual) if held > 0 else usual

    def is_busy(self) -> bool:
        return bool(self._outcomes) or super().is_busy()

    def round(self, hints: Hints) -> bool:
        """What is claimed already goes first: for it nothing is locked. Then one transaction for
        links and one for flights: nothing of one keeps the other from being done."""
        did_something = bool(hints.signals or hints.promised)
        if hints.signals:
            self._transmit_claimed(hints.signals)
        if hints.promised:
            hints |= self._transmit_promised(hints.promised)
        # A worker that is stopping holds nothing, and polls no more: what it sends is written as
        # begun without a poll.
        is_stopping = self._stopping.is_set()
        now = math.inf if is_stopping else time.monotonic()
        to_keep = self._under_way.links(hints, is_stopping=is_stopping)
        self._record_settled(now)
        hints = self._with_room(hints)
        if hints.all or hints.links or to_keep or self._outcomes.are_due(OF_LINKS, now):
            lock_links = partial(self._lock_links, hints, to_keep, now)
            did_something |= self._transact(OF_LINKS, lock_links, self._end_links, hints)
        ended = self._read_answers(now)
        if ended or hints.flights or (hints.all and self._has_flights):
            lock_flights = partial(self._lock_flights, hints, ended)
            did_something |= self._transact(OF_FLIGHTS, lock_flights, self._end_flights, hints)
        return did_something

    def _transact(
        self,
        kinds: Kinds,
        lock: Callable[[SendBudget], tuple[Any, list[Ended]]],
        end: Callable[[Any, list[Job], SendBudget], None],
        hints: Hints,
    ) -> bool:
        """Record and claim what `lock` has locked, in one transaction; if that raises an error, one
        by one. What the database refuses now is written in a later round."""
        budget = SendBudget(self.carrier)
        try:
            with short_transaction():
                work, ended = lock(budget)
                missed = [one for one in ended if one.is_of(work.missed)]
                ended = [one for one in ended if not one.is_of(work.missed)]
                record(kinds, work, ended)
                jobs = claim(kinds, work, budget)
                if ended:
                    reach(CrashPoint.OUTCOME_BEFORE_COMMIT)
                if jobs:
                    reach(CrashPoint.POLL_BEFORE_COMMIT)
                work.write(last=True)
        except Exception as error:
            if capacity.is_gone(error):
                raise
            logger.warning("a round is repeated one by one: %s", describe(error))
            return self._one_by_one(kinds, hints)
        self._outcomes.forget(ended)
        self._outcomes.keep(missed, time.monotonic() + PAUSE)
        end(work, jobs, budget)
        if ended:
            reach(CrashPoint.OUTCOME_AFTER_COMMIT)
        if jobs:
            reach(CrashPoint.POLL_AFTER_COMMIT)
            self.carrier.submit(jobs)
        wake_up_for(work)
        return bool(ended or jobs)

    def _lock_links(
        self, hints: Hints, to_keep: set[int], now: float, budget: SendBudget
    ) -> tuple[Work, list[Ended]]:
        """What is held, and what is under way, of a link that is locked in any case is written with
        it."""
        due = self._outcomes.to_record(OF_LINKS, now, hints.links)
        partners = to_keep.union(one.copy.partner_id for one in due if one.copy.writes_link)
        resting = self.resting if now < math.inf else set()
        partners -= resting
        if hints.all:
            work = polling.lock_work(partners, self._slots(budget), lost=self._ends_leases())
            self._has_flights = work.has_flights
        else:
            work = polling.lock_named(partners, hints.links)
        work.under_way = self._under_way.of(work, polls=hints.all)
        work.missed = resting.union(work.missed).difference(work)
        return work, self._outcomes.to_record(OF_LINKS, now, work)

    def _end_links(self, work: Work, jobs: list[Job], budget: SendBudget) -> None:
        if work.slots:  # it was a poll
            self._more = len(jobs) >= work.slots.limit or len(work.slots.rooms) > 1
        self._more |= budget.refused or work.left
        self._under_way.end(work.under_way, work.kept)
        work.transmits.clear()

    def _lock_flights(
        self, hints: Hints, ended: list[Ended], budget: SendBudget
    ) -> tuple[Flights, list[Ended]]:
        work = flight_polling.lock_flights(
            [(one.copy.partner_id, one.copy.key) for one in ended],
            hints.flights,
            self._slots(budget),
            longest_attempt=flights.longest_attempt(),
            everything=hints.all and self._has_flights,
        )
        return work, ended

    def _end_flights(self, work: Flights, jobs: list[Job], budget: SendBudget) -> None:
        now = time.monotonic()
        for partner_id, messages in work.under_way():
            self._served.note(partner_id, now, messages)

    def _one_by_one(self, kinds: Kinds, hints: Hints) -> bool:
        """As `_transact`. An outcome is forgotten only when it is written, or is no one's any more:
        then at once, for it counts."""
        self._has_flights = True  # nobody has looked
        settled = False
        for copies, kind in kinds.items():
            ended = self._outcomes.to_record((copies,), math.inf)
            read = [one for one in ended if one.result.answer is None]
            for unit in kind.units_of_outcomes(read):
                settled |= self._do(unit, partial(kind.record, ended=unit.ended))
        if kinds is OF_LINKS:
            self._keep_promises()
        if hints.all or hints.links or hints.flights:
            budget = SendBudget(self.carrier)
            for kind in kinds.values():
                for unit in kind.units_of_poll(self._slots(budget)):
                    settled |= self._do(unit, partial(kind.claim, budget=budget))
        return settled

    def _do(self, unit: Unit, act: Callable[[Any], list[Job] | None]) -> bool:
        if unit.link in self.resting:
            return False
        done = one_by_one.do(unit, act)
        if done.settled:
            self._outcomes.forget(unit.ended)
        else:
            self._outcomes.keep(unit.ended, time.monotonic() + REST)
            if unit.link:
                self.rest(unit.link)
        if done.jobs:
            self.carrier.submit(done.jobs)
        if done.work:
            done.work.transmits.clear()  # they are polled for one by one
            wake_up_for(done.work)
        return done.settled

    def _keep_promises(self) -> None:
        resting = self.resting
        for job in self._under_way.copies():
            if job.partner_id not in resting:
                done = one_by_one.do(
                    lanes.unit_of_promise(job.partner_id), partial(lanes.keep, jobs=[job])
                )
                self._under_way.end([job], done.jobs)

    def _read_answers(self, now: float) -> list[Ended]:
        """The outcomes of flights that are to be recorded now, with what their answers say."""
        read = []
        for one in self._outcomes.to_record(OF_FLIGHTS, now):
            try:
                read.append(ended_with(one))
            except NotNowError as problem:
                logger.warning("it is looked at again later: %s", problem)
                self._outcomes.keep([one], time.monotonic() + RECORD_AGAIN)
            else:
                self._outcomes.replace(one, read[-1])
        return read

    def _record_settled(self, now: float) -> None:
        """Record how attempts of complete messages ended, unless they are held. What cannot be
        written so is recorded with the others of this round."""
        if not self._outcomes.are_due((SettledCopy,), now):
            return
        settled = self._outcomes.to_record((SettledCopy,), now)
        if not promised.record(settled):
            self._outcomes.keep(promised.with_copy(one, LaneCopy) for one in settled)
        self._outcomes.forget(settled)

    def _transmit_claimed(self, keys: frozenset[int]) -> None:
        """Submit signals that are claimed. Those for which there is no slot now are named again
        for a later round. What raises an error is left to the sweep, which isolates it."""
        budget = SendBudget(self.carrier)
        try:
            work = polling.load_claimed(keys)
            jobs, left = signals.jobs_of_claimed(work, budget)
            if work.has_writes:
                with short_transaction():
                    work.write(last=True)
        except Exception as error:
            if capacity.is_gone(error):
                raise
            logger.warning("claimed signals are left to the next sweep: %s", describe(error))
            return
        self._hints |= Hints(signals=frozenset(left))
        if jobs:
            self._under_way.add(jobs)
            self.carrier.submit(jobs)

    def _transmit_promised(self, named: frozenset[Promise]) -> Hints:
        """Submit copies that were promised. Those for which there is no slot now are named again
        for a later round; the links of those that have changed since are to be polled. What ended
        before these copies needs no link to be recorded."""
        budget = SendBudget(self.carrier)
        named = self._under_way.without(named, self._outcomes)
        asked = frozenset(one for one in named if budget.reserve(one.partner_id))
        self._hints |= Hints(promised=named - asked)
        loaded = promised.load(asked)
        if loaded.jobs:
            reach(CrashPoint.POLL_AFTER_COMMIT)
            self._under_way.add(loaded.jobs)
            self.carrier.submit(loaded.jobs)
        for one in promised.settled_by(loaded.copies, self._outcomes):
            self._outcomes.replace(one, promised.with_copy(one, SettledCopy))
        self._outcomes.keep(loaded.ended)
        return Hints(frozenset(one.partner_id for one in asked) - loaded.partners)

    def _slots(self, budget: SendBudget) -> Slots:
        return Slots(
            AT_ONCE_PER_PARTNER,
            self.carrier.free_in_all(),
            large=budget.for_large,
            rooms=self.carrier.rooms(polling.AT_ONCE),
            resting=self.resting,
        )

    def _with_room(self, hints: Hints) -> Hints:
        """As many of the named links as one poll takes, of partners who have a slot. What has none
        is found by the poll that the end of a POST asks for; the others are for the next round."""
        resting = self.resting
        room = [one for one in hints.links if one not in resting and self.carrier.free(one)]
        self._more |= len(room) < len(hints.links)
        limit = min(polling.AT_ONCE, self.carrier.free_in_all())
        if not hints.all:
            self._hints |= Hints(links=frozenset(room[limit:]))
        return replace(hints, links=frozenset(room[:limit]))

    def _ends_leases(self) -> bool:
        """Whether this poll is to look for lost ones: after a crash the others follow."""
        is_time = time.monotonic() - self._leases_at > LEASES_EVERY
        if is_time:
            self._leases_at = time.monotonic()
        return is_time


def record(kinds: Kinds, work: Any, ended: Sequence[Ended]) -> None:
    """Each of `ended` by the kind of its copy."""
    for copies, kind in kinds.items():
        if of_kind := [one for one in ended if type(one.copy) is copies]:
            kind.record(work, of_kind)


def claim(kinds: Kinds, work: Any, budget: SendBudget) -> list[Job]:
    return [job for kind in kinds.values() for job in kind.claim(work, budget)]
