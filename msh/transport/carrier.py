"""A background thread that transmits many POSTs at once, so that a slow partner stops only itself.

The caller's thread claims and records, this one waits on sockets; no database connection is held
meanwhile. Nothing here is kept: if the process dies, the deadlines of its POSTs pass, and the sweep
finds them.
"""

import asyncio
import logging
import os
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import uvloop

from msh import trace_hook
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.transport.job import Job
from msh.transport.registry import Transport, UnknownSchemeError, transport_for
from msh.transport.slots import Slot, Slots, Standing

logger = logging.getLogger(__name__)
ATTEMPTS = "msh.attempts"
_attempts = logging.getLogger(ATTEMPTS)

AT_ONCE = 256
SLOW_AT_ONCE = 256
"""POSTs besides that have been under way for SLOW_AFTER seconds."""
AT_ONCE_PER_PARTNER = 4
SLOW_AFTER = 2.0
"""Seconds after which a POST does not keep others from beginning, while there are slots for slow
ones. Partners that drop packets or never answer would else hold all slots for a minute each."""
RESOLVER_THREADS = 32  # a name server that does not answer holds one thread per host


NOT_SENT = AttemptResult(
    AttemptOutcome.FAILED, detail="not sent: the process was stopped", body_sent=False
)


class Finished(NamedTuple):
    """`result` is None if the job was stale: its `not_after` passed and nothing was written."""

    job: Job
    result: AttemptResult | None

    @property
    def outcome(self) -> AttemptResult:
        """The result, of a stale job too. That of a promised copy never says that nothing was
        sent: the name of a promise may come to two workers, and both have one row (D18)."""
        result = self.result or NOT_SENT
        return result if self.job.lapse is None else replace(result, body_sent=True)


class Results(Protocol):
    """A queue, or what is as good as one."""

    def put(self, finished: Finished, /) -> None: ...


class Carrier(Slots):
    """Transmits jobs and puts each one, finished, into `results`. It has a slot for each of them.

    The thread starts with the first `submit` of a process, so a carrier made before a fork is
    usable after it. Its methods may be called from any thread.
    """

    def __init__(
        self,
        results: Results,
        *,
        at_once: int = AT_ONCE,
        at_once_per_partner: int = AT_ONCE_PER_PARTNER,
    ) -> None:
        super().__init__(at_once, SLOW_AT_ONCE, at_once_per_partner)
        self._results = results
        self._loop: _Loop | None = None
        self._pid = os.getpid()

    def submit(self, jobs: Iterable[Job]) -> None:
        """Take jobs. Those beyond a partner's free slots wait for one, in order."""
        batch = tuple(jobs)
        with self._lock:
            # A thread does not survive a fork: a child begins with a loop of its own, and with
            # nothing under way.
            if self._loop is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self.clear()
                self._loop = _Loop(self, self._at_once, self._per_partner)
            loop = self._loop
            placed = tuple((job, self.enter(job.partner_id, len(job.body))) for job in batch)
        loop.transmit(placed)

    def close(self, grace: float = 0.0) -> None:
        """End the thread: POSTs under way get `grace` seconds, then are given up as failed."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop and self._pid == os.getpid():
            loop.close(grace)

    def finish(self, job: Job, slot: Slot, result: AttemptResult | None, seconds: float) -> None:
        standing = None
        if result is not None:
            transmitted = result.outcome is AttemptOutcome.TRANSMITTED
            answered = transmitted or result.status is not None or seconds < SLOW_AFTER
            standing = Standing.ANSWERS if answered else Standing.SILENT
        self.leave(slot, standing)
        log_attempt(job, result, seconds)
        if trace_hook.recorder is not None:
            trace_hook.recorder.posted(job, result, seconds)
        self._results.put(Finished(job, result))


def log_attempt(job: Job, result: AttemptResult | None, seconds: float) -> None:
    """Write a line for a POST or mail of a message or signal, with MSH_LOG_ATTEMPTS. `result` None:
    it was stale, nothing was written. What is posted to applications and to operators has no line:
    their addresses may hold secrets, and they have pages of their own."""
    if not _attempts.isEnabledFor(logging.INFO):
        return
    partner_id = getattr(job.key, "partner_id", None)
    acknowledged = getattr(job.key, "ref_to_message_id", "")
    message_id = getattr(job.key, "message_id", acknowledged)
    if partner_id is None or not message_id:
        return
    fields = {
        "message_id": message_id,
        "partner_id": partner_id,
        "attempt": getattr(job.key, "attempt", None),
        "signal": getattr(job.key, "kind", None),
        "host": urlsplit(job.url).hostname or job.url.rpartition("@")[2],
        "bytes": len(job.body),
        "seconds": round(seconds, 4),
        "outcome": result.outcome.value if result else "stale",
        "status": result.status if result else None,
        "detail": result.detail if result else "",
    }
    known = {name: value for name, value in fields.items() if value not in (None, "")}
    _attempts.info("attempt", extra=known)


class _Loop:
    """An event loop in a daemon thread, with the transports that belong to it."""

    def __init__(self, carrier: Carrier, at_once: int, at_once_per_partner: int) -> None:
        self._carrier = carrier
        self._room = asyncio.Semaphore(at_once)
        self._slots: defaultdict[int, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(at_once_per_partner)
        )
        self._transports: dict[Callable[[], Transport], Transport] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = uvloop.new_event_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(RESOLVER_THREADS, "msh-resolver"))
        self._thread = threading.Thread(target=self._run, name="msh-carrier", daemon=True)
        self._thread.start()

    def transmit(self, jobs: tuple[tuple[Job, Slot], ...]) -> None:
        self._loop.call_soon_threadsafe(self._start, jobs)

    def close(self, grace: float) -> None:
        asyncio.run_coroutine_threadsafe(self._wind_up(grace), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _start(self, jobs: tuple[tuple[Job, Slot], ...]) -> None:
        for job, slot in jobs:
            task = self._loop.create_task(self._transmit(job, slot))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _transmit(self, job: Job, slot: Slot) -> None:
        if trace_hook.recorder is not None:
            added = trace_hook.recorder.headers_for(job)
            job = replace(job, headers=(*job.headers, *added)) if added else job
        began_at = self._loop.time()
        result: AttemptResult | None = AttemptResult(
            AttemptOutcome.FAILED, detail="aborted: the process is shutting down"
        )
        try:
            async with self._slots[job.partner_id], self._in_room(slot):
                # Waiting for a slot does not count: only the POST itself tells whether the partner
                # is slow.
                began_at = self._loop.time()
                kind = transport_for(job.url)
                if kind not in self._transports:
                    self._transports[kind] = kind()
                result = await self._transports[kind].post(job)
        except UnknownSchemeError as error:
            result = AttemptResult(AttemptOutcome.FAILED, detail=str(error), body_sent=False)
        except Exception as error:
            logger.exception("POST to %s failed unexpectedly", job.url)
            result = AttemptResult(AttemptOutcome.FAILED, detail=repr(error)[:500])
        finally:
            self._carrier.finish(job, slot, result, self._loop.time() - began_at)

    @asynccontextmanager
    async def _in_room(self, slot: Slot) -> AsyncIterator[None]:
        """A slot among all, until it is left or the POST takes long."""
        await self._room.acquire()
        timer = self._loop.call_later(SLOW_AFTER, self._slow_down, slot)
        try:
            yield
        finally:
            timer.cancel()
            # A slow POST has given up its part of the room when it became slow.
            if not slot.slow:
                self._room.release()

    def _slow_down(self, slot: Slot) -> None:
        if self._carrier.slow_down(slot):
            self._room.release()

    async def _wind_up(self, grace: float) -> None:
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=grace)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        for transport in self._transports.values():
            await transport.close()
