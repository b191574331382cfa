"""One round of the sending loop, as far as flights are concerned: a transaction of its own."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from msh.faults import CrashPoint, reach
from msh.flows.send_budget import Carrying, SendBudget
from msh.flows.sending import fly, isolation
from msh.flows.sending.fly import Ended
from msh.flows.sending.gathering import Served
from msh.flows.sending.http_answer import NotNowError, ended_with
from msh.flows.sending.isolation import Unit
from msh.flows.wake_up import wake_up_for_flights
from msh.store import capacity
from msh.store.flights import polling
from msh.store.flights.flights import Flights
from msh.store.flights.isolation import isolate_flight
from msh.store.flights.rows import Candidate
from msh.store.sending.isolation import describe
from msh.store.sending.polling import Places
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
        if isolation.do(_end_of(ended)).settled:
            _forget(landed, [one])  # at once: the gate would count it again
            recorded = True
    budget = SendBudget(carrier)
    if not isolation.tried(polling.sort_new):
        return recorded
    held: set[int] = set()
    for each in isolation.found(polling.find_candidates, carrier.free_in_all()):
        if each.partner_id in held:
            continue
        done = isolation.do(_claim_of(each, budget))
        if not done.settled:
            held.add(each.partner_id)  # each of its flights would wait for the same lock
        elif done.jobs:
            carrier.submit(list(done.jobs))
    return True


def _known(landed: Iterable[Finished]) -> Iterator[tuple[Finished, Ended]]:
    """The finished copies whose answers can be taken now."""
    for one in landed:
        try:
            yield one, ended_with(one)
        except NotNowError as problem:
            logger.warning("it is looked at again later: %s", problem)


def _forget(landed: list[Finished], recorded: Iterable[Finished]) -> None:
    keys = {id(one) for one in recorded}
    landed[:] = [one for one in landed if id(one) not in keys]


def _end_of(ended: Ended) -> Unit:
    copy = ended.copy

    def act() -> tuple[Flights, list[Job]]:
        flights = polling.lock_flight(copy.partner_id, copy.key, fly.longest_attempt())
        fly.record(flights, [ended])
        return flights, []

    about = (copy.key, copy.message_id, copy.partner_id)
    isolate = partial(isolate_flight, *about, ended=(copy.attempt, ended.result))
    return Unit(f"message {copy.message_id}", act, isolate)


def _claim_of(one: Candidate, budget: SendBudget) -> Unit:
    def act() -> tuple[Flights, list[Job]]:
        flights = polling.lock_flight(one.partner_id, one.key, fly.longest_attempt())
        fly.end_waits(flights)
        return flights, fly.jobs_of(flights, fly.claim(flights, budget))

    isolate = partial(isolate_flight, one.key, one.message_id, one.partner_id)
    return Unit(f"message {one.message_id}", act, isolate)
