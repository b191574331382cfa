"""The loop of a worker: poll, submit to the carrier, record the outcomes, end when all is quiet."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from django.db import Error as DatabaseError

from msh import stopping
from msh.flows.application import restore_connection
from msh.flows.events import Events
from msh.flows.names import EVERYTHING, NOTHING, Names
from msh.flows.wake_up import WakeUp
from msh.flows.wake_up_listener import WakeUpListener
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Carrier

logger = logging.getLogger(__name__)

QUIET = 1.0
"""Seconds without anything to do after which the loop ends."""
PAUSE = 0.25
"""Seconds between polls while awake, without a wake-up."""
ROUND = 0.02
"""Seconds between rounds at least, where one is to gather what several would do."""
REST = 5.0
"""Seconds for which what failed, and would fail again at once, is left alone."""
WIND_UP = stopping.LIMIT - 3.0
"""Seconds that an ending worker waits for what is under way, to record how it ends: a POST whose
end nobody records is a copy more, or a delivery in doubt. The rest is for the end of the process.
"""


class WorkerLoop(ABC):
    """One of each kind for a worker process. `run` is entered by one thread; others only wake it.

    This thread alone uses the database, in short transactions; the carrier's thread alone waits on
    sockets. Nothing in memory is needed: what dies with the process is a transaction that rolls
    back, or a deadline or lease that passes.

    One round:

    1. Wait at most PAUSE for an event: a wake-up, or the end of something that is under way. Take
       all that have come. No row is locked, no transaction is open.
    2. Record how POSTs ended: lock the rows that they are about, step them, write, commit. An
       outcome is forgotten only after its commit; what the database does not take now is recorded
       in a later round. After a crash before the commit nobody knows the outcome: the deadline of
       the message passes and the same bytes are sent again, or the lease of the delivery passes
       and its retry, resolver or operator decides.
    3. Poll, if an event asked for it or PAUSE has passed: find what is due and lock it with SKIP
       LOCKED, so that two workers never claim the same. Write the claim, which is an open attempt
       and the time at which it counts as lost, and commit. After a crash before the commit nothing
       was claimed, and the next sweep finds it. What a wake-up has named is locked in the same way,
       without a search.
    4. Submit what was claimed to the carrier, only after the commit: no copy is on its way that no
       row knows of. After a crash from here on the claim is lost, as in 2.
    5. Wake up the loops for which the commit has made work. A wake-up that is lost costs a sweep's
       delay.
    6. End if there was nothing to do for QUIET seconds: a wake-up or the next sweep calls `run`
       again. A worker that is stopping leaves the wake-ups to others and begins nothing. It records
       what is under way when that has ended, and waits for it at most WIND_UP; what has not ended
       by then is lost, as in 2.

    The sending loop does 2 and 3 in one transaction, because both lock links; the loops of the
    application record each outcome in a transaction of its own.
    """

    kind: ClassVar[WakeUp]
    posts_per_partner: ClassVar[int] = AT_ONCE_PER_PARTNER

    def __init__(self) -> None:
        self._events = Events(self.is_urgent)
        self.carrier = Carrier(self._events, at_once_per_partner=self.posts_per_partner)
        self._running = threading.Lock()
        self._stopping = threading.Event()
        self._stopped_at = 0.0
        self._polled_at = 0.0
        self._resting: dict[Any, float] = {}
        self._names = NOTHING
        """What wake-ups have named since the last round."""

    @abstractmethod
    def take(self, event: Any) -> bool:
        """Note an event: something that was under way has ended. True if that is a reason to poll
        at once."""

    def is_urgent(self, event: object) -> bool:
        """Whether an event ends the waiting. Called by any thread."""
        return True

    @abstractmethod
    def round(self, names: Names) -> bool:
        """Steps 2 to 5 of a round, 3 for what `names` says. True if there was something to do."""

    def missed_names(self) -> Names:
        """What wake-ups have named before this loop began to listen."""
        return NOTHING

    def next_round_at(self) -> float:
        """When the next round may begin, by `time.monotonic`."""
        return self._polled_at + ROUND

    def patience(self) -> float:
        """Seconds to wait for an event before the next round."""
        return PAUSE

    def is_busy(self) -> bool:
        return bool(self.carrier.under_way() or self._events)

    @property
    def resting(self) -> set[Any]:
        now = time.monotonic()
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        return set(self._resting)

    def rest(self, key: object, seconds: float = REST) -> None:
        self._resting[key] = time.monotonic() + seconds

    def run(self, on_work: Callable[[], None] = lambda: None) -> None:
        """Work until there was nothing to do for QUIET seconds; `on_work` is called once if there
        is something. Returns at once if it runs, or is stopping."""
        if self._stopping.is_set():
            return
        if not self._running.acquire(blocking=False):
            self._wake_up(EVERYTHING)
            return
        try:
            self._take_events(0)
            self._names |= EVERYTHING | self.missed_names()
            if self._round() or self.is_busy():
                on_work()
                self._stay_awake()
        finally:
            self._running.release()

    def stop(self) -> None:
        """The worker is ending: finish this round and what is under way, and return."""
        self._stopped_at = time.monotonic()
        self.carrier.take_no_more()
        self._stopping.set()
        self._wake_up(NOTHING)

    def _wake_up(self, names: Names) -> None:
        self._events.put(names)

    def _stay_awake(self) -> None:
        with WakeUpListener(self.kind) as listener:
            busy_at = time.monotonic()
            while not self._stopping.is_set():
                gathers = self.next_round_at() - time.monotonic()
                self._stopping.wait(gathers)
                self._take_events(self.patience(), listener)
                if gathers > 0 and self._names and not self._names.all:
                    self._names |= listener.take_rest()
                if time.monotonic() - self._polled_at > PAUSE:
                    self._names |= EVERYTHING
                if self._try_round() or self.is_busy():
                    busy_at = time.monotonic()
                elif time.monotonic() - busy_at > QUIET:
                    return
            listener.give_back(self._names)
            self._names = NOTHING
        self._wind_up()

    def _wind_up(self) -> None:
        """Record what is under way; who else is awake hears the wake-ups."""
        while self.is_busy() and time.monotonic() - self._stopped_at < WIND_UP:
            self._take_events(self.patience())
            self._try_round()

    def _try_round(self) -> bool:
        try:
            return self._round()
        except DatabaseError as error:
            logger.warning("a round is waiting for the database: %s", error)
            restore_connection()
            return False

    def _round(self) -> bool:
        if self._stopping.is_set():
            return self.round(NOTHING)
        names, self._names = self._names, NOTHING
        if names.all:
            self._polled_at = time.monotonic()
        return self.round(names)

    def _take_events(self, wait: float, listener: WakeUpListener | None = None) -> None:
        for event in self._events.take(wait, listener):
            if isinstance(event, Names):
                self._names |= event
            elif self.take(event):
                self._names |= EVERYTHING
        if listener:
            self._names |= listener.take()
