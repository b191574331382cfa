"""One round of the sending loop, as far as flights are concerned: a transaction of its own."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from django.db import transaction

from msh.faults import CrashPoint, reach
from msh.flows.send_budget import Carrying, SendBudget
from msh.flows.sending import fly
from msh.flows.sending.fly import Ended
from msh.flows.sending.http_answer import ended_with
from msh.flows.wake_up import wake_up_for_flights
from msh.store import capacity
from msh.store.flights import polling
from msh.store.flights.flights import Flights
from msh.store.flights.isolation import isolate_flight
from msh.store.sending.isolation import describe
from msh.store.sending.polling import Places
from msh.store.transactions import short_transaction
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Carrier, Finished
from msh.transport.job import Job

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Worked:
    """What a round has left: outcomes that are to be recorded later."""

    did_something: bool
    unrecorded: list[Finished] = field(default_factory=list)


def work(
    carrier: Carrier, landed: Sequence[Finished], named: Iterable[int], *, everything: bool
) -> Worked:
    """Record how attempts ended, end waits, claim copies and submit them. `named`: partners to whom
    something may be ready; `everything`: whoever has something. Raises what says that the database
    is gone: then nothing is forgotten."""
    ended = [ended_with(one) for one in landed]
    try:
        with short_transaction():
            flights, jobs = round_of(carrier, ended, named, everything=everything)
            if landed:
                reach(CrashPoint.OUTCOME_BEFORE_COMMIT)
            if jobs:
                reach(CrashPoint.POLL_BEFORE_COMMIT)
            flights.write(last=True)
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.warning("a round of flights is repeated one by one: %s", describe(error))
        return _one_by_one(carrier, landed)
    if landed:
        reach(CrashPoint.OUTCOME_AFTER_COMMIT)
    if jobs:
        reach(CrashPoint.POLL_AFTER_COMMIT)
        carrier.submit(jobs)
    wake_up_for_flights(flights)
    return Worked(bool(landed or jobs))


def round_of(
    carrier: Carrying, ended: Sequence[Ended], named: Iterable[int], *, everything: bool
) -> tuple[Flights, list[Job]]:
    """In the caller's transaction, which writes what is returned."""
    budget = SendBudget(carrier)
    places = Places(AT_ONCE_PER_PARTNER, carrier.free_in_all(), (), budget.for_large)
    flights = polling.lock_flights(
        [(one.copy.partner_id, one.copy.key) for one in ended],
        named,
        places,
        longest_attempt=fly.longest_attempt(),
        everything=everything,
    )
    fly.record(flights, ended)
    fly.end_waits(flights)
    return flights, fly.jobs_of(flights, fly.claim(flights, budget))


def _one_by_one(carrier: Carrier, landed: Sequence[Finished]) -> Worked:
    """What raises the error again is held, with an incident, and stops nothing else."""
    left = [one for one in landed if not _recorded(one)]
    budget = SendBudget(carrier)
    try:
        with transaction.atomic():
            polling.sort_new()
        with transaction.atomic():
            candidates = polling.find_candidates(carrier.free_in_all())
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("polling for flights failed")
        return Worked(len(left) < len(landed), left)
    for one in candidates:
        jobs: list[Job] = []
        hold = partial(isolate_flight, one.key, one.message_id, one.partner_id)
        if _done(partial(_claim_one, one.partner_id, one.key, budget, jobs), hold) and jobs:
            carrier.submit(jobs)
    return Worked(True, left)


def _recorded(one: Finished) -> bool:
    ended = ended_with(one)
    copy = ended.copy
    hold = partial(
        isolate_flight,
        copy.key,
        copy.message_id,
        copy.partner_id,
        ended=(copy.attempt, ended.result),
    )
    return _done(partial(_record_one, ended), hold)


def _record_one(ended: Ended) -> None:
    copy = ended.copy
    flights = polling.lock_flight(copy.partner_id, copy.key, fly.longest_attempt())
    fly.record(flights, [ended])
    flights.write()


def _claim_one(partner_id: int, key: int, budget: SendBudget, jobs: list[Job]) -> None:
    flights = polling.lock_flight(partner_id, key, fly.longest_attempt())
    fly.end_waits(flights)
    jobs += fly.jobs_of(flights, fly.claim(flights, budget))
    flights.write()


def _done(act: Callable[[], None], isolate: Callable[[str], None]) -> bool:
    """False if it is to be done again. Raises only what says that the database is gone."""
    try:
        with transaction.atomic():
            act()
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("a flight could not be processed")
        return capacity.is_lasting(error) and _isolated(isolate, describe(error))
    return True


def _isolated(isolate: Callable[[str], None], why: str) -> bool:
    try:
        with transaction.atomic():
            isolate(why)
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.exception("a flight could not be held")
        return capacity.is_lasting(error)
    return True
