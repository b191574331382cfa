"""The copy that an Acknowledgement promises: numbered, composed and claimed by the transaction that
takes the Acknowledgement, sent by the worker that its wake-up reaches, which only reads it.

Until that worker has written that it sends the copy, the link says that it is unsent: if the
wake-up or the worker is lost, a poll claims a copy after a second, as the next attempt. That spends
no retry; the attempt that was promised stays open, for its copy may have been sent (D18).
"""

import logging
import math
import time
from collections.abc import Collection, Container, Iterable
from dataclasses import astuple, dataclass, replace
from typing import Any

from django.conf import settings
from django.db import DatabaseError

from msh.flows.hints import Hints, Promise
from msh.flows.sending import lanes
from msh.flows.sending.copies import why_unsendable
from msh.flows.sending.kinds import Ended, LaneCopy, attempts_of
from msh.flows.wake_up import are_resting
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.events import CopyPromised
from msh.store import capacity
from msh.store.sending import polling
from msh.store.sending.isolation import describe
from msh.store.sending.links import OutboundLinks
from msh.store.sending.message_sql import CopyRow, PromisedCopy
from msh.transport.carrier import Finished
from msh.transport.job import Job

logger = logging.getLogger(__name__)

LAPSED = 0.0
KEPT_FROM = 0.6
"""Seconds before it lapses from which a poll writes that a copy is being sent, two polls and the
commit margin: to write it sooner would change the link, which the process that takes the
Acknowledgement remembers, and most are acknowledged before."""


def promise(links: OutboundLinks, partner_id: int, copy: CopyRow | None) -> Promise | None:
    """Compose and promise `copy` if it is of the message that has just been put in flight, to be
    written with `links`. What the wake-up has to name; None if a worker has to look for itself, as
    while wake-ups rest: a promise would keep the copy from it for a second."""
    if are_resting():
        return None
    lane = links.lane(partner_id)
    flying = lane.in_flight
    if copy is None or flying is None or flying.message_id != copy.message_id or not lane.unsent:
        return None
    try:
        lanes.compose(links, copy, flying.sequence_number)
    except (DatabaseError, MemoryError):
        raise
    except Exception:  # noqa: BLE001  the worker finds the same, and suspends the link
        return None
    number = links.step(partner_id, CopyPromised()).flying.attempt
    links.insert_attempt(copy.id, number)
    deadline = flying.terms.http_deadline(settings.MSH_HTTP_DEADLINE)
    return Promise(partner_id, copy.id, number, deadline)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Copies that are still promised; the jobs that transmit them; and those that have ended
    already, because they cannot be transmitted."""

    copies: list[PromisedCopy]
    jobs: list[Job]
    ended: list[Ended]

    @property
    def partners(self) -> set[int]:
        return {row.partner_id for row in self.copies}


def load(named: Collection[Promise]) -> Loaded:
    """What goes wrong here is left to the sweep, but for a database that is gone."""
    asked_at = time.monotonic()
    deadlines = {(one.key, one.attempt): one.deadline for one in named}
    jobs, ended = [], []
    for row in (copies := _load(named)):
        try:
            job = lanes.job_of_promised(row, deadlines[row.id, row.attempt], asked_at)
        except (DatabaseError, MemoryError):
            raise
        except Exception as problem:  # noqa: BLE001  one message stops no other
            ended.append(_unsendable(row, why_unsendable(problem)))
        else:
            jobs.append(job)
    return Loaded(copies, jobs, ended)


def _load(named: Collection[Promise]) -> list[PromisedCopy]:
    if not named:
        return []
    try:
        return polling.load_promised(
            [one.partner_id for one in named],
            [one.key for one in named],
            [one.attempt for one in named],
        )
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.warning("promised copies are left to the next sweep: %s", describe(error))
        return []


class UnderWay:
    """What this worker sends though no poll has claimed it: promised copies, and signals that were
    claimed with their message. Others may claim it after a second, unless it is kept before."""

    def __init__(self) -> None:
        self._jobs: dict[Any, Job] = {}

    def add(self, jobs: Iterable[Job]) -> None:
        self._jobs.update((job.key, job) for job in jobs)

    def lapses(self, event: Finished) -> bool:
        """Whether it came too late: nothing was written, and another worker may send it, or has."""
        self._jobs.pop(event.job.key, None)
        lapse = event.job.lapse
        return event.result is None and lapse is not None and lapse.at != math.inf

    def without(self, named: Collection[Promise], ended: Iterable[Ended]) -> frozenset[Promise]:
        """The promises of `named` that are neither under way nor among what has `ended` and is not
        recorded: a name may come twice."""
        copies = (*self._jobs, *(one.copy for one in ended))
        own = {(copy.key, copy.attempt) for copy in copies if isinstance(copy, LaneCopy)}
        return frozenset(one for one in named if (one.key, one.attempt) not in own)

    def copies(self) -> list[Job]:
        return [job for job in self._jobs.values() if job.lapse is not None]

    def links(self, hints: Hints, *, is_stopping: bool) -> set[int]:
        """Partners with copies that a round for these hints has to keep, whatever it finds; a
        worker that is stopping keeps all."""
        lapsing = math.inf if is_stopping else time.monotonic() + KEPT_FROM
        everything = hints.all or is_stopping
        return {
            job.partner_id
            for job in self._jobs.values()
            if job.lapse is not None
            and (job.partner_id in hints.links or (everything and job.lapse.at < lapsing))
        }

    def of(self, links: Container[int], *, polls: bool) -> list[Job]:
        """The copies of these links, and for a poll all signals."""
        return [
            job
            for job in self._jobs.values()
            if (polls if job.lapse is None else job.partner_id in links)
        ]

    def end(self, jobs: Iterable[Job], kept: Collection[Job]) -> None:
        """A commit says that this worker sends those that are `kept`. The other copies are not its
        own any more: what has not begun yet does not begin."""
        for job in jobs:
            self._jobs.pop(job.key, None)
            if job.lapse is not None:
                job.lapse.at = math.inf if job in kept else LAPSED


def settled_by(copies: Iterable[PromisedCopy], ended: Iterable[Ended]) -> list[Ended]:
    """POSTs that have `ended` with a 2xx and carried messages before these copies. Such a message
    is complete: the 2xx changes nothing but the attempt."""
    following = {one.partner_id: one.id for one in copies}
    return [
        one
        for one in ended
        if type(copy := one.copy) is LaneCopy
        and following.get(copy.partner_id, copy.key) != copy.key
        and one.result.outcome is AttemptOutcome.TRANSMITTED
    ]


def with_copy(one: Ended, kind: type[LaneCopy]) -> Ended:
    """The outcome with its copy as one that is settled, or is not."""
    return replace(one, copy=kind(*astuple(one.copy)))


def record(settled: list[Ended]) -> bool:
    """Write how these ended, which changes nothing else. False if one of them cannot be written."""
    try:
        polling.end_attempts(attempts_of(settled))
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.warning("the ends of attempts are recorded one by one: %s", describe(error))
        return False
    return True


def _unsendable(row: PromisedCopy, why: str) -> Ended:
    """The outcome of a copy that this worker cannot send: another one that was given the same name
    may have sent it."""
    copy = LaneCopy(row.id, row.message_id, row.partner_id, row.attempt)
    return Ended(copy, AttemptResult(AttemptOutcome.REFUSED, detail=why))
