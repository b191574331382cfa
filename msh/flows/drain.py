"""The worker's loop: look, hand over to the carrier, record what comes back, until all is quiet.

Its thread alone uses the database, in short transactions; the carrier's thread alone waits on
sockets. Under load one look serves many pairs and one transaction records many outcomes; when
idle, each goes at once. Nothing in memory is needed: what dies with the process is a lease or a
deadline that passes.
"""

import logging
import threading
import time
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Any

from django.db import DatabaseError, transaction

from msh.faults import CrashPoint, reach
from msh.flows import acknowledge, advance, recover, transmit
from msh.flows.acknowledge import SignalCopy
from msh.flows.nudge import Ear, Nudge, answered, nudge
from msh.flows.room import Room
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Carrier, Finished

logger = logging.getLogger(__name__)

QUIET = 1.0
"""Seconds without anything to do after which the loop ends."""
PAUSE = 0.25
"""Seconds between looks while awake, if nobody nudges."""
CROWD = 4
"""POSTs under way from which on rounds are ROUND seconds apart."""
ROUND = 0.01
LEASES_EVERY = 1.0  # seconds
WIND_UP = 5.0
"""Seconds that an ending worker waits for POSTs under way."""

_NUDGED = object()
_STALE = AttemptResult(
    AttemptOutcome.FAILED, detail="not sent: this process was stopped", body_sent=False
)


class Drain:
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

    def run(self) -> None:
        """Carry until nothing was to be done for QUIET seconds. Returns at once if it runs."""
        if not self._running.acquire(blocking=False):
            self._events.put(_NUDGED)
            return
        try:
            answered(Nudge.CARRY)  # before the look that it asked for
            if self._look() or self._carrier.under_way() or not self._events.empty():
                self._stay_awake()
        finally:
            self._running.release()

    def stop(self) -> None:
        """The worker is ending: finish this round and return."""
        self._stopped_at = time.monotonic()
        self._stopping.set()
        self._events.put(_NUDGED)

    def _stay_awake(self) -> None:
        with Ear(Nudge.CARRY, lambda: self._events.put(_NUDGED)):
            busy_at = time.monotonic()
            while not (self._stopping.is_set() and self._wound_up()):
                self._let_work_gather()
                nudged = self._wait(PAUSE)
                worked = self._record()
                if nudged or (worked and self._more) or self._since_look() > PAUSE:
                    worked = self._look() or worked
                if worked or self._carrier.under_way():
                    busy_at = time.monotonic()
                elif time.monotonic() - busy_at > QUIET:
                    return

    def _let_work_gather(self) -> None:
        """With many under way, one transaction for several of them is worth a few milliseconds."""
        if self._carrier.under_way() >= CROWD:
            time.sleep(max(0.0, self._round_at + ROUND - time.monotonic()))
        self._round_at = time.monotonic()

    def _wound_up(self) -> bool:
        """Nothing is under way any more, or what is has had its time: its deadline will pass."""
        return not self._carrier.under_way() or time.monotonic() - self._stopped_at > WIND_UP

    def _since_look(self) -> float:
        return time.monotonic() - self._looked_at

    def _wait(self, seconds: float) -> bool:
        """Wait for something to happen, and take all that has. True if it was a nudge."""
        nudged = False
        try:
            event = self._events.get(timeout=seconds)
            while True:
                if event is _NUDGED:
                    nudged = True
                else:
                    self._unrecorded.append(event)
                event = self._events.get_nowait()
        except Empty:
            return nudged

    def _look(self) -> bool:
        """Claim what is due and hand it to the carrier. True if there was something."""
        if self._stopping.is_set():
            return False
        self._looked_at = time.monotonic()
        room = Room(self._carrier.free)
        with transaction.atomic():
            work = advance.find_work(self._carrier.busy(), AT_ONCE_PER_PARTNER)
            lanes = work.lanes
            recover.passed_deadlines(lanes)
            jobs = transmit.jobs_of(lanes, transmit.claim(lanes, room))
            jobs += transmit.best_effort_jobs(lanes, work.best_effort, room)
            jobs += acknowledge.claim_signals(lanes, work.signals, room)
            lanes.write()
            self._end_leases()
            reach(CrashPoint.LOOK_BEFORE_COMMIT)
        self._more = room.refused or len(jobs) >= advance.AT_ONCE
        if jobs:
            reach(CrashPoint.LOOK_AFTER_COMMIT)
            self._carrier.submit(jobs)
        nudge(*(kind for kind in lanes.nudges() if kind is not Nudge.CARRY))
        return bool(jobs)

    def _end_leases(self) -> None:
        if time.monotonic() - self._leases_at > LEASES_EVERY:
            self._leases_at = time.monotonic()
            recover.lost_leases()

    def _record(self) -> bool:
        """Write how attempts ended. What the database refuses now is written in a later round."""
        ended, self._unrecorded = self._unrecorded, []
        if not ended:
            return False
        try:
            with transaction.atomic():
                copies = list(_of(transmit.Copy, ended))
                lanes = transmit.lanes_of(copies)
                acknowledge.record(lanes, _of(SignalCopy, ended))
                lanes.write()
                transmit.end_best_effort(copies)
                reach(CrashPoint.OUTCOME_BEFORE_COMMIT)
            reach(CrashPoint.OUTCOME_AFTER_COMMIT)
        except DatabaseError as error:
            logger.warning("outcomes of %d attempts not written yet: %s", len(ended), error)
            self._unrecorded = ended
            return False
        nudge(*lanes.nudges())
        return True


def _of(kind: type, ended: Iterable[Finished]) -> Iterable[tuple[Any, AttemptResult]]:
    return ((one.job.key, one.result or _STALE) for one in ended if isinstance(one.job.key, kind))
