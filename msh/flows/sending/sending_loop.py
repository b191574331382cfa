"""The worker's loop: look, hand over to the carrier, record what comes back, until all is quiet.

Its thread alone uses the database, in short transactions; the carrier's thread alone waits on
sockets. Under load one look serves many pairs and one transaction records many outcomes; when
idle, each goes at once. Nothing in memory is needed: what dies with the process is a lease or a
deadline that passes.
"""

import logging
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any

from django.db import DatabaseError, transaction

from msh.faults import CrashPoint, reach
from msh.flows.send_budget import Room
from msh.flows.sending import acknowledge, isolation, recover, transmit
from msh.flows.sending.acknowledge import SignalCopy
from msh.flows.wake_up import WakeUp, WakeUpListener, wake_up, wake_ups_of
from msh.protocol.attempt import AttemptResult
from msh.store import capacity
from msh.store.sending import polling
from msh.store.sending.isolation import describe
from msh.store.sending.links import OutboundLinks
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Carrier, Finished
from msh.transport.job import Job

logger = logging.getLogger(__name__)

QUIET = 1.0
"""Seconds without anything to do after which the loop ends."""
PAUSE = 0.25
"""Seconds between polls while awake, without a wake-up."""
ROUND = 0.02
"""Seconds between rounds while there is a crowd."""
LEASES_EVERY = 1.0  # seconds
WIND_UP = 5.0
"""Seconds that an ending worker waits for POSTs under way."""

_WAKE_UP = object()


class Crowd:
    """Whether many partners are being served at once."""

    PARTNERS = 4
    WITHIN = 0.1  # seconds

    def __init__(self) -> None:
        self._seen: dict[int, float] = {}

    def saw(self, partner_id: int, now: float) -> None:
        """A POST to this partner has ended."""
        self._seen[partner_id] = now

    def is_one(self, now: float) -> bool:
        self._seen = {who: at for who, at in self._seen.items() if now - at < self.WITHIN}
        return len(self._seen) >= self.PARTNERS


class SendingLoop:
    """One for a worker process. `run` is entered by one thread at a time; others only wake it."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._carrier = Carrier(self._events)
        self._running = threading.Lock()
        self._stopping = threading.Event()
        self._unrecorded: list[Finished] = []
        self._more = False
        self._looked_at = 0.0
        self._leases_at = 0.0
        self._stopped_at = 0.0
        self._round_at = 0.0
        self._crowd = Crowd()

    def run(self) -> None:
        """Carry until nothing was to be done for QUIET seconds. Returns at once if it runs."""
        if not self._running.acquire(blocking=False):
            self._events.put(_WAKE_UP)
            return
        try:
            if self._round(looking=True) or self._carrier.under_way() or not self._events.empty():
                self._stay_awake()
        finally:
            self._running.release()

    def stop(self) -> None:
        """The worker is ending: finish this round and return."""
        self._stopped_at = time.monotonic()
        self._stopping.set()
        self._events.put(_WAKE_UP)

    def _stay_awake(self) -> None:
        with WakeUpListener(WakeUp.TRANSMIT, lambda: self._events.put(_WAKE_UP)):
            busy_at = time.monotonic()
            while not (self._stopping.is_set() and self._wound_up()):
                self._let_work_gather()
                woken = self._wait(PAUSE)
                freed = bool(self._unrecorded) and self._more
                looking = woken or freed or self._since_look() > PAUSE
                if self._try_round(looking=looking) or self._carrier.under_way():
                    busy_at = time.monotonic()
                elif time.monotonic() - busy_at > QUIET:
                    return

    def _try_round(self, *, looking: bool) -> bool:
        try:
            return self._round(looking=looking)
        except DatabaseError as error:
            logger.warning("%d outcomes not written yet: %s", len(self._unrecorded), error)
            return False

    def _let_work_gather(self) -> None:
        """In a crowd, one transaction for several partners is worth a few milliseconds."""
        if self._crowd.is_one(time.monotonic()):
            time.sleep(max(0.0, self._round_at + ROUND - time.monotonic()))
        self._round_at = time.monotonic()

    def _wound_up(self) -> bool:
        """Nothing is under way any more, or what is has had its time: its deadline will pass."""
        return not self._carrier.under_way() or time.monotonic() - self._stopped_at > WIND_UP

    def _since_look(self) -> float:
        return time.monotonic() - self._looked_at

    def _wait(self, seconds: float) -> bool:
        """Wait for something to happen, and take all that has. True if it was a wake-up."""
        woken = False
        try:
            event = self._events.get(timeout=seconds)
            while True:
                if event is _WAKE_UP:
                    woken = True
                else:
                    self._unrecorded.append(event)
                    self._crowd.saw(event.job.partner_id, time.monotonic())
                event = self._events.get_nowait()
        except Empty:
            return woken

    def _round(self, *, looking: bool) -> bool:
        """Write how POSTs ended; if `looking`, claim what is due and hand it to the carrier.

        One transaction; if that raises something, one for each lane and signal. True if there was
        something. What the database refuses now is written in a later round.
        """
        ended = self._unrecorded
        looking = looking and not self._stopping.is_set()
        if not (ended or looking):
            return False
        try:
            with transaction.atomic():
                links, jobs = self._record_and_claim(ended, looking=looking)
        except Exception as error:
            if capacity.is_gone(error):
                raise
            logger.warning("a round is done again one by one: %s", describe(error))
            return self._round_one_by_one(looking=looking)
        self._unrecorded = []
        if ended:
            reach(CrashPoint.OUTCOME_AFTER_COMMIT)
        if jobs:
            reach(CrashPoint.LOOK_AFTER_COMMIT)
            self._carrier.submit(jobs)
        wake_up(*(kind for kind in wake_ups_of(links) if not (looking and kind is WakeUp.TRANSMIT)))
        return bool(ended or jobs)

    def _round_one_by_one(self, *, looking: bool) -> bool:
        """As `_round`. An outcome is forgotten only when it is written, or is no one's any more."""
        settled = False
        keys = [(one.job.key, one.outcome) for one in self._unrecorded]
        for unit in isolation.units_of_outcomes(keys):
            if self._do(unit):
                settled = True
                written = {id(key) for key, _ in unit.ended}
                self._unrecorded = [o for o in self._unrecorded if id(o.job.key) not in written]
        if looking:
            self._looked_at = time.monotonic()
            room = Room(self._carrier)
            for unit in isolation.units_of_look(self._places(room), room):
                settled = self._do(unit) or settled
        return settled

    def _do(self, unit: isolation.Unit) -> bool:
        done = isolation.do(unit)
        if done.jobs:
            self._carrier.submit(done.jobs)
        if done.links is not None:
            wake_up(*(kind for kind in wake_ups_of(done.links) if kind is not WakeUp.TRANSMIT))
        return done.settled

    def _record_and_claim(
        self, ended: list[Finished], *, looking: bool
    ) -> tuple[OutboundLinks, list[Job]]:
        results = [(one.job.key, one.outcome) for one in ended]
        partners = transmit.partners_of(results)
        jobs: list[Job] = []
        if looking:
            self._looked_at = time.monotonic()
            room = Room(self._carrier)
            places = self._places(room)
            work = polling.lock_work(partners, places)
        else:
            work = polling.work_of_ended(partners)
        record(work.links, results)
        if looking:
            jobs = claim(work, room)
            self._more = room.refused or len(jobs) >= places.limit
            self._end_leases()
        work.links.write()
        if ended:
            reach(CrashPoint.OUTCOME_BEFORE_COMMIT)
        if looking:
            reach(CrashPoint.LOOK_BEFORE_COMMIT)
        return work.links, jobs

    def _places(self, room: Room) -> polling.Places:
        busy, free = self._carrier.busy(), self._carrier.free_in_all()
        return polling.Places(AT_ONCE_PER_PARTNER, free, busy, room.for_large)

    def _end_leases(self) -> None:
        if time.monotonic() - self._leases_at > LEASES_EVERY:
            self._leases_at = time.monotonic()
            recover.lost_leases()


def record(links: OutboundLinks, ended: Sequence[tuple[Any, AttemptResult]]) -> None:
    """Note how these POSTs ended, each named by the key of its job."""
    copies = [(key, result) for key, result in ended if isinstance(key, transmit.Copy)]
    transmit.record(links, copies)
    transmit.record_best_effort(copies)
    acknowledge.record(links, ((k, result) for k, result in ended if isinstance(k, SignalCopy)))


def claim(work: polling.Work, room: Room) -> list[Job]:
    """Claim what was found; the jobs that carry it once it is committed."""
    recover.passed_deadlines(work.links, work.due)
    return [
        *transmit.jobs_of(work.links, transmit.claim(work.links, room)),
        *transmit.best_effort_jobs(work.links, work.best_effort, room),
        *acknowledge.claim_signals(work.links, work.signals, room),
    ]
