"""A round of the sending loop that raised an error, done again: each lane, signal, flight and
BestEffort message in a transaction of its own, so that the one that raises it again stops no other.

The usual round is one transaction, because that is fast.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from django.db import transaction

from msh.flows.send_budget import SendBudget
from msh.flows.sending import acknowledge, promised, recover, transmit
from msh.flows.sending.acknowledge import SignalCopy
from msh.protocol.attempt import AttemptResult
from msh.store import capacity
from msh.store.sending import polling
from msh.store.sending.best_effort import BestEffortResult, end_best_effort, lock_lost
from msh.store.sending.best_effort_sql import WaitingMessage
from msh.store.sending.isolation import describe, isolate_best_effort, isolate_link, isolate_signal
from msh.store.sending.links import OutboundLinks
from msh.store.sending.polling import Places
from msh.store.sending.signals import PendingSignal
from msh.store.sending.unit import UnitOfWork
from msh.transport.job import Job

logger = logging.getLogger(__name__)

Given = TypeVar("Given")
Work = TypeVar("Work")

Ended = tuple[Any, AttemptResult]
"""The key of a job, and how it ended."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one transaction does, and what is done instead if that raises what it will raise
    again."""

    name: str
    act: Callable[[], tuple[UnitOfWork, list[Job]]]
    isolate: Callable[[str], None]
    ended: tuple[Ended, ...] = ()
    link: int | None = None
    """The partner whose link it writes."""


@dataclass(frozen=True, slots=True)
class Done:
    """`settled`: it need not be done again."""

    settled: bool
    work: UnitOfWork | None = None
    jobs: tuple[Job, ...] = ()


def do(unit: Unit) -> Done:
    """Do it, or isolate what it is about. Raises only what says that the database is gone."""
    try:
        with transaction.atomic():
            polling.wait_briefly()
            work, jobs = unit.act()
            work.write()
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("%s could not be processed", unit.name)
        return Done(capacity.is_lasting(error) and _isolated(unit, error))
    return Done(True, work, tuple(jobs))


def _isolated(unit: Unit, error: Exception) -> bool:
    try:
        with transaction.atomic():
            unit.isolate(describe(error))
    except Exception as another:
        if capacity.is_gone(another):
            raise
        logger.exception("%s could not be isolated", unit.name)
        return capacity.is_lasting(another)
    return True


def units_of_outcomes(ended: Iterable[Ended]) -> list[Unit]:
    of_lanes: defaultdict[int, list[Ended]] = defaultdict(list)
    alone = []
    for one in ended:
        key, _ = one
        if isinstance(key, transmit.Copy) and key.attempt is not None:
            of_lanes[key.partner_id].append(one)
        else:
            alone.append(_best_effort_ended(one) if isinstance(key, transmit.Copy) else _sent(one))
    return [*(_lane_ended(*of_lane) for of_lane in of_lanes.items()), *alone]


def _lane_ended(partner_id: int, ended: list[Ended]) -> Unit:
    def act() -> tuple[OutboundLinks, list[Job]]:
        links = OutboundLinks.lock([partner_id])
        transmit.record(links, ended)
        return links, []

    attempts = [(key.key, key.attempt, result) for key, result in ended]
    isolate = partial(isolate_link, partner_id, ended=attempts)
    return Unit(f"the link to partner {partner_id}", act, isolate, tuple(ended), partner_id)


def unit_of_promise(job: Job, kept: list[Job]) -> Unit:
    """As `promised.keep` for one job, which is `kept` then."""

    def act() -> tuple[OutboundLinks, list[Job]]:
        links = OutboundLinks.lock([job.partner_id])
        kept.extend(promised.keep(links, [job]))
        return links, []

    isolate = partial(isolate_link, job.partner_id, ended=())
    return Unit(f"the link to partner {job.partner_id}", act, isolate, link=job.partner_id)


def _best_effort_ended(one: Ended) -> Unit:
    copy, result = one

    def act() -> tuple[OutboundLinks, list[Job]]:
        transmit.record_best_effort([one])
        return OutboundLinks.none(), []

    ended = BestEffortResult(copy.key, copy.message_id, copy.partner_id, result)
    isolate = partial(isolate_best_effort, ended)
    return Unit(f"BestEffort message {copy.message_id}", act, isolate, (one,))


def _sent(one: Ended) -> Unit:
    copy, _ = one

    def act() -> tuple[OutboundLinks, list[Job]]:
        links = OutboundLinks.none()
        acknowledge.record(links, [one])
        return links, []

    return Unit(f"signal {copy.key}", act, _isolation_of_signal(copy), (one,))


def _isolation_of_signal(copy: SignalCopy) -> Callable[[str], None]:
    what = (copy.key, copy.kind, copy.ref_to_message_id, copy.partner_id)
    return partial(isolate_signal, *what)


def units_of_poll(places: Places, budget: SendBudget) -> Iterator[Unit]:
    """Units that claim what is due now, as `polling.lock_work`. A kind of work that cannot be
    looked for stops no other kind."""
    for partner_id in found(polling.lock_links, places):
        yield _lane(partner_id, budget)
    for message in found(polling.lock_best_effort, places):
        yield _best_effort(message, budget)
    for signal in found(polling.lock_signals, places):
        yield _signal(signal, budget)
    for lost in found(lock_lost, polling.AT_ONCE):
        yield _lost(lost)


def found(find: Callable[[Given], list[Work]], given: Given) -> list[Work]:
    """Nothing if it cannot be looked for."""
    rows: list[Work] = []
    tried(lambda: rows.extend(find(given)))
    return rows


def tried(act: Callable[[], None]) -> bool:
    """In a transaction; False if it raised an error."""
    try:
        with transaction.atomic():
            act()
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("polling for work failed")
        return False
    return True


def _lane(partner_id: int, budget: SendBudget) -> Unit:
    def act() -> tuple[OutboundLinks, list[Job]]:
        work = polling.work_of_link(partner_id)
        recover.end_waits(work.links, work.due)
        return work.links, transmit.jobs_of(work.links, transmit.claim(work.links, budget))

    isolate = partial(isolate_link, partner_id, ended=())
    return Unit(f"the link to partner {partner_id}", act, isolate, link=partner_id)


def _best_effort(row: WaitingMessage, budget: SendBudget) -> Unit:
    def act() -> tuple[OutboundLinks, list[Job]]:
        work = polling.work_of_best_effort(row.id)
        return work.links, transmit.best_effort_jobs(work.links, work.best_effort, budget)

    one = BestEffortResult(row.id, row.message_id, row.partner_id, None)
    return Unit(f"BestEffort message {row.id}", act, partial(isolate_best_effort, one))


def _signal(row: PendingSignal, budget: SendBudget) -> Unit:
    def act() -> tuple[OutboundLinks, list[Job]]:
        work = polling.work_of_signal(row.id)
        return work.links, acknowledge.claim_signals(work.links, work.signals, budget)

    copy = SignalCopy(row.id, row.kind, row.ref_to_message_id, row.partner_id)
    return Unit(f"signal {row.id}", act, _isolation_of_signal(copy))


def _lost(one: BestEffortResult) -> Unit:
    def act() -> tuple[OutboundLinks, list[Job]]:
        end_best_effort([one])
        return OutboundLinks.none(), []

    isolate = partial(isolate_best_effort, one)
    return Unit(f"BestEffort message {one.message_id}", act, isolate)
