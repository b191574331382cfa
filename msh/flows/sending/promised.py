"""The copy that an Acknowledgement promises: numbered, composed and claimed by the transaction that
takes the Acknowledgement, sent by the worker that its wake-up reaches, which only reads it.

Until that worker has written that it sends the copy, the link says that it is unsent: if the
wake-up or the worker is lost, a poll claims a copy after a second, as the next attempt. That spends
no retry; the attempt that was promised stays open, for its copy may have been sent (D18).
"""

import logging
import math
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db import DatabaseError

from msh.flows.names import Names, Promise
from msh.flows.sending import transmit
from msh.flows.sending.copies import lease, why_unsendable
from msh.flows.sending.transmit import Copy
from msh.flows.wake_up import are_resting
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.events import AttemptBegun, CopyPromised
from msh.store import capacity
from msh.store.sending import polling
from msh.store.sending.isolation import describe
from msh.store.sending.links import OutboundLinks
from msh.store.sending.message_sql import CopyRow, EndedAttempt, PromisedCopy
from msh.transport.carrier import Finished
from msh.transport.job import Job

logger = logging.getLogger(__name__)

LAPSED = 0.0
COMMIT_MARGIN = 0.1
"""Seconds: jobs that lapse sooner are not marked as begun."""
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
        transmit.compose(links, copy, flying.sequence_number)
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
    ended: list[Finished]

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
            job = transmit.job_of_promised(row, deadlines[row.id, row.attempt], asked_at)
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
    """Copies that this worker sends, of which no row says so yet."""

    def __init__(self) -> None:
        self._jobs: dict[object, Job] = {}

    def add(self, jobs: Iterable[Job]) -> None:
        self._jobs.update((job.key, job) for job in jobs)

    def lapses(self, event: Finished) -> bool:
        """Whether it came too late: nothing was written, and another worker may send it, or has."""
        self._jobs.pop(event.job.key, None)
        lapse = event.job.lapse
        return event.result is None and lapse is not None and lapse.at != math.inf

    def without(self, named: Collection[Promise], ended: Iterable[Finished]) -> frozenset[Promise]:
        """The promises of `named` that are neither under way nor among what has `ended` and is not
        recorded: a name may come twice."""
        keys = (*self._jobs, *(one.job.key for one in ended))
        own = {(copy.key, copy.attempt) for copy in keys if isinstance(copy, Copy)}
        return frozenset(one for one in named if (one.key, one.attempt) not in own)

    def all(self) -> list[Job]:
        return list(self._jobs.values())

    def among(self, partners: Collection[int], jobs: Iterable[Job]) -> list[Job]:
        """`jobs`, and those to these partners."""
        those = {id(job): job for job in self._jobs.values() if job.partner_id in partners}
        return list((those | {id(job): job for job in jobs}).values())

    def of(self, names: Names) -> list[Job]:
        """The jobs that a poll for these names has to write as begun, whatever it finds."""
        soon = time.monotonic() + KEPT_FROM
        return [
            job
            for job in self._jobs.values()
            if job.partner_id in names.links
            or (names.all and (job.lapse is None or job.lapse.at < soon))
        ]

    def end(self, jobs: Iterable[Job], kept: Collection[Job]) -> None:
        """A commit says that this worker sends those that are `kept`. The others are not its own
        any more: what has not begun yet does not begin."""
        for job in jobs:
            self._jobs.pop(job.key, None)
            if job.lapse is not None:
                job.lapse.at = math.inf if job in kept else LAPSED


def keep(links: OutboundLinks, jobs: Iterable[Job]) -> list[Job]:
    """Write with `links` that these are being sent: from then on their deadline counts. Those that
    others have claimed, that are not to be sent any more, or that have lapsed unbegun are not among
    what is returned."""
    kept = []
    for job in jobs:
        copy = job.key
        if not isinstance(copy, Copy) or copy.attempt is None or copy.partner_id not in links:
            continue
        lane = links.lane(copy.partner_id)
        flying = lane.in_flight
        held = flying and (flying.message_id, flying.attempt) == (copy.message_id, copy.attempt)
        if held and lane.promised and _goes_out(job):
            begun = AttemptBegun(copy.message_id, copy.attempt, lease(job.deadline))
            links.step(copy.partner_id, begun)
            kept.append(job)
    return kept


def _goes_out(job: Job) -> bool:
    begun = job.lapse is not None and job.lapse.begun
    return begun or not job.is_late(time.monotonic() + COMMIT_MARGIN)


def settled_by(copies: Iterable[PromisedCopy], finished: Iterable[Finished]) -> list[Finished]:
    """POSTs that have `finished` with a 2xx and carried messages before these copies. Such a
    message is complete: the 2xx changes nothing but the attempt."""
    following = {one.partner_id: one.id for one in copies}
    return [
        one
        for one in finished
        if isinstance(copy := one.job.key, Copy)
        and copy.attempt is not None
        and following.get(copy.partner_id, copy.key) != copy.key
        and one.outcome.outcome is AttemptOutcome.TRANSMITTED
    ]


def record(settled: list[Finished]) -> list[Finished]:
    """Write how they ended, which changes nothing else. Returns what has to be recorded by itself,
    because one of them cannot be written."""
    try:
        polling.end_attempts([ended for one in settled if (ended := _ended_attempt(one))])
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.warning("the ends of attempts are recorded one by one: %s", describe(error))
        return settled
    return []


def _ended_attempt(finished: Finished) -> EndedAttempt | None:
    copy, result = finished.job.key, finished.outcome
    if not isinstance(copy, Copy) or copy.attempt is None:
        return None
    return EndedAttempt(copy.key, copy.attempt, result.status, result.detail, result.reason)


def _unsendable(row: PromisedCopy, why: str) -> Finished:
    """The outcome of a copy that this worker cannot send: another one that was given the same name
    may have sent it."""
    key = Copy(row.id, row.message_id, row.partner_id, row.attempt)
    job = Job(
        key=key,
        partner_id=row.partner_id,
        url="",
        content_type="",
        body=b"",
        authorization="",
        deadline=0.0,
        not_after=0.0,
    )
    return Finished(job, AttemptResult(AttemptOutcome.REFUSED, detail=why))
