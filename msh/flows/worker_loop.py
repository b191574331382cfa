"""The loop of a worker: poll, submit to the carrier, record the outcomes, until it stops."""

import logging
import threading
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from django.db import Error as DatabaseError

from msh import stopping
from msh.flows.application import restore_connection
from msh.flows.events import Events
from msh.flows.hints import EVERYTHING, NOTHING, Hints
from msh.flows.wake_up import WakeUp
from msh.flows.wake_up_listener import WakeUpListener
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Carrier

logger = logging.getLogger(__name__)

PAUSE = 0.25
"""Seconds between polls while there is something to do, without a wake-up."""
QUIET = 1.0
"""Seconds without anything to do after which the loop is idle."""
IDLE = 1.0
"""Seconds between polls of an idle loop, without a wake-up."""
ROUND = 0.02
"""Seconds between rounds at least, where one is to gather what several would do."""
REST = 5.0
"""Seconds for which what failed, and would fail again at once, is left alone."""
WIND_UP = stopping.LIMIT - 3.0
"""Seconds that an ending worker waits for what is under way, to record how it ends: a POST whose
end nobody records is a copy more, or a delivery in doubt. The rest is for the end of the process.
"""


class WorkerLoop(ABC):
    """One of each kind for a worker process. `run` is entered by one thread.

    This thread alone uses the database, in short transactions; the carrier's thread alone waits on
    sockets. Nothing in memory is needed: what dies with the process is a transaction that rolls
    back, or a deadline or lease that passes.

    One round:

    1. Wait for an event, a wake-up or the end of something that is under way, but not longer than
       until the next poll. Take all that have come. No row is locked, no transaction is open.
    2. Record how POSTs ended: lock the rows that they are about, step them, write, commit. An
       outcome is forgotten only after its commit; what the database does not take now is recorded
       in a later round. After a crash before the commit nobody knows the outcome: the deadline of
       the message passes and the same bytes are sent again, or the lease of the delivery passes
       and its retry, resolver or operator decides.
    3. Poll, if an event asked for it, or PAUSE has passed, or IDLE in a loop that is idle: find
       what is due and lock it with SKIP LOCKED, so that two workers never claim the same. Write the
       claim, which is an open attempt and the time at which it counts as lost, and commit. After a
       crash before the commit nothing was claimed, and the next poll finds it. What a wake-up has
       named is locked in the same way, without a search.
    4. Submit what was claimed to the carrier, only after the commit: no copy is on its way that no
       row knows of. After a crash from here on the claim is lost, as in 2.
    5. Wake up the loops for which the commit has made work. A wake-up that is lost costs the time
       until their next poll.

    A worker that is stopping leaves the wake-ups to others and begins nothing. It records what is
    under way when that has ended, and waits for it at most WIND_UP; what has not ended by then is
    lost, as in 2. A loop that raises an error ends; its worker begins it again within seconds
    (`msh/tasks.py`), with what it had in memory.

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
        self._busy_at = 0.0
        self._resting: dict[Any, float] = {}
        self._hints = NOTHING
        """What wake-ups have named since the last round."""

    @abstractmethod
    def take(self, event: Any) -> bool:
        """Note an event: something that was under way has ended. True if that is a reason to poll
        at once."""

    def is_urgent(self, event: object) -> bool:
        """Whether an event ends the waiting. Called by any thread."""
        return True

    @abstractmethod
    def round(self, hints: Hints) -> bool:
        """Steps 2 to 5 of a round, 3 for what `hints` says. True if there was something to do."""

    def next_round_at(self) -> float:
        """When the next round may begin, by `time.monotonic`."""
        return self._polled_at + ROUND

    def patience(self) -> float:
        """Seconds to wait for an event before the next round."""
        return PAUSE if self._stopping.is_set() else max(0.0, self._poll_in())

    def is_busy(self) -> bool:
        return bool(self.carrier.under_way() or self._events)

    @property
    def resting(self) -> set[Any]:
        now = time.monotonic()
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        return set(self._resting)

    def rest(self, key: object, seconds: float = REST) -> None:
        self._resting[key] = time.monotonic() + seconds

    def is_needed(self) -> bool:
        """Whether nobody runs it, and somebody should."""
        return not (self._running.locked() or self._stopping.is_set())

    def run(self) -> None:
        """Work until the worker stops. Returns at once if another thread does, or after `stop`."""
        if self._stopping.is_set() or not self._running.acquire(blocking=False):
            return
        try:
            with WakeUpListener(self.kind) as listener:
                self._hints |= EVERYTHING | listener.take_rest()
                while not self._stopping.is_set():
                    self.turn(listener)
                # Taken from the list and not done: without this they would wait for the next poll.
                listener.give_back(self._hints)
                self._hints = NOTHING
            self._wind_up()
        finally:
            self._running.release()

    def stop(self) -> None:
        """The worker is ending: finish this round and what is under way, and return."""
        self._stopped_at = time.monotonic()
        self.carrier.take_no_more()
        self._stopping.set()
        self._events.put(NOTHING)

    def turn(self, listener: WakeUpListener) -> bool:
        """A round, when it is time for one. False if there is nothing to do."""
        gathers = self.next_round_at() - time.monotonic()
        self._stopping.wait(gathers)
        self._take_events(self.patience(), listener)
        # This round has waited to gather others: what was named meanwhile belongs to it too.
        if gathers > 0 and self._hints and not self._hints.all:
            self._hints |= listener.take_rest()
        if self._poll_in() <= 0:
            self._hints |= EVERYTHING
        is_busy = self._try_round() or self.is_busy()
        if is_busy:
            self._busy_at = time.monotonic()
        return is_busy

    def _poll_in(self) -> float:
        """Seconds until the next poll."""
        pause = IDLE if self._is_idle() else PAUSE
        return self._polled_at + pause - time.monotonic()

    def _is_idle(self) -> bool:
        return time.monotonic() - self._busy_at > QUIET

    def _wind_up(self) -> None:
        """Record what is under way; other workers hear the wake-ups."""
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
        hints, self._hints = self._hints, NOTHING
        if hints.all:
            self._polled_at = time.monotonic()
            if self._is_idle():
                restore_connection()  # one that is old, or was lost meanwhile, fails no round
        return self.round(hints)

    def _take_events(self, wait: float, listener: WakeUpListener | None = None) -> None:
        for event in self._events.take(wait, listener):
            if isinstance(event, Hints):
                self._hints |= event
            elif self.take(event):
                self._hints |= EVERYTHING
        if listener:
            self._hints |= listener.take()
