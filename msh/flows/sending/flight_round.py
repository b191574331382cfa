"""One round of the sending loop, as far as flights are concerned: a transaction of its own."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from django.db import transaction

from msh.faults import CrashPoint, reach
from msh.flows.send_budget import Carrying, SendBudget
from msh.flows.sending import fly
from msh.flows.sending.fly import Ended
from msh.flows.sending.gathering import Served
from msh.flows.sending.http_answer import NotNowError, ended_with
from msh.flows.wake_up import wake_up_for_flights
from msh.store import capacity
from msh.store.flights import polling
from msh.store.flights.flights import Flights
from msh.store.flights.isolation import isolate_flight
from msh.store.sending.isolation import describe
from msh.store.sending.polling import Places, wait_briefly
from msh.store.transactions import short_transaction
from msh.transport.carrier import AT_ONCE_PER_PARTNER, Carrier, Finished
from msh.transport.job import Job

logger = logging.getLogger(__name__)


def work(
    carrier: Carrier,
    landed: list[Finished],
    named: Iterable[int],
    served: Served,
    *,
    everything: bool,
) -> tuple[bool, set[int]]:
    """Record how attempts ended, end waits, claim copies and submit them. `named`: partners to whom
    something may be ready; `everything`: whoever has something. Whether there was something to do,
    and the partners whose link others hold. `served` hears of partners who have messages under way.

    What is recorded is taken from `landed`, and nothing else: the rest is for a later round. Raises
    what says that the database is gone.
    """
    known = list(_known(landed))
    ended = [each for _, each in known]
    try:
        with short_transaction():
            flights, jobs = round_of(carrier, ended, named, everything=everything)
            if known:
                reach(CrashPoint.OUTCOME_BEFORE_COMMIT)
            if jobs:
                reach(CrashPoint.POLL_BEFORE_COMMIT)
            flights.write(last=True)
    except Exception as error:
        if capacity.is_gone(error):
            raise
        logger.warning("a round of flights is repeated one by one: %s", describe(error))
        return _one_by_one(carrier, known, landed), set()
    _forget(landed, [one for one, of in known if of.copy.partner_id not in flights.missed])
    if known:
        reach(CrashPoint.OUTCOME_AFTER_COMMIT)
    if jobs:
        reach(CrashPoint.POLL_AFTER_COMMIT)
        carrier.submit(jobs)
    wake_up_for_flights(flights)
    now = time.monotonic()
    for partner_id, messages in flights.under_way():
        served.note(partner_id, now, messages)
    return bool(known or jobs), flights.missed


def round_of(
    carrier: Carrying, ended: Sequence[Ended], named: Iterable[int], *, everything: bool
) -> tuple[Flights, list[Job]]:
    """In the caller's transaction, which writes what is returned. What has ended with a partner
    that is `missed` is not recorded."""
    budget = SendBudget(carrier)
    places = Places(AT_ONCE_PER_PARTNER, carrier.free_in_all(), (), budget.for_large)
    flights = polling.lock_flights(
        [(one.copy.partner_id, one.copy.key) for one in ended],
        named,
        places,
        longest_attempt=fly.longest_attempt(),
        everything=everything,
    )
    fly.record(flights, [one for one in ended if one.copy.partner_id not in flights.missed])
    fly.end_waits(flights)
    return flights, fly.jobs_of(flights, fly.claim(flights, budget))


def _one_by_one(
    carrier: Carrier, known: Sequence[tuple[Finished, Ended]], landed: list[Finished]
) -> bool:
    """What raises the error again is held, with an incident, and stops nothing else."""
    recorded = False
    for one, ended in known:
        if _recorded(ended):
            _forget(landed, [one])  # at once: the gate would count it again
            recorded = True
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
        return recorded
    held: set[int] = set()
    for each in candidates:
        if each.partner_id in held:
            continue
        jobs: list[Job] = []
        hold = partial(isolate_flight, each.key, each.message_id, each.partner_id)
        if not _done(partial(_claim_one, each.partner_id, each.key, budget, jobs), hold):
            held.add(each.partner_id)  # each of its flights would wait for the same lock
        elif jobs:
            carrier.submit(jobs)
    return True


def _known(landed: Iterable[Finished]) -> Iterator[tuple[Finished, Ended]]:
    """Those whose answers can be taken now."""
    for one in landed:
        try:
            yield one, ended_with(one)
        except NotNowError as problem:
            logger.warning("it is looked at again later: %s", problem)


def _forget(landed: list[Finished], recorded: Iterable[Finished]) -> None:
    keys = {id(one) for one in recorded}
    landed[:] = [one for one in landed if id(one) not in keys]


def _recorded(ended: Ended) -> bool:
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
            wait_briefly()
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
