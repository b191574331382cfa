"""Flights: the reliable messages of ebMS 2.0, several at once to each partner.

One of the kinds of `kinds.py`.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from django.conf import settings

from msh.flows.send_budget import SendBudget
from msh.flows.sending import copies
from msh.flows.sending.copies import ANSWER_LIMIT, event_of, lease, why_unsendable
from msh.flows.sending.kinds import Ended, FlightCopy, Unit, attempts_of
from msh.flows.sending.one_by_one import found, tried
from msh.flows.sending.proof import sealed_parts, signer_of
from msh.pem import KeyUnusable
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.ebms.agreement import WITH_RESPONSE
from msh.protocol.events import AttemptClaimed, ErrorReceived
from msh.protocol.flight import DeadlinePassed, Expired, FlightState, ProbeClaimed
from msh.protocol.flight.gate import Leave
from msh.store.flights import polling
from msh.store.flights.flights import Flights
from msh.store.flights.rows import FlyingCopy
from msh.store.receiving.refusals import answer_refused, noted
from msh.store.sending import best_effort
from msh.store.sending.isolation import isolate_flight
from msh.store.sending.polling import Slots
from msh.transport.job import Job
from msh.wire.dialect import Entity, dialect_named

OF_BEST_EFFORT = 0
"""The attempt of a message that does not fly, and of which only the answer is taken here."""


def longest_attempt() -> float:
    """Seconds that an attempt may take at most, from its claim."""
    return lease(settings.MSH_HTTP_DEADLINE)


def record(flights: Flights, ended: Sequence[Ended]) -> None:
    """How attempts ended, for their flight, if it has not ended, and for the gate. The answer comes
    first: it decides over the status."""
    for one in ended:
        copy, result = one.copy, one.result
        _record_answer(flights, one)
        if copy.attempt == OF_BEST_EFFORT:
            continue
        flights.end_attempt(copy.key, copy.attempt, result)
        event = event_of(copy.message_id, copy.attempt, result)
        if copy.key in flights:
            flights.step(copy.key, event)
        flights.step_gate(copy.partner_id, event)


def _record_answer(flights: Flights, one: Ended) -> None:
    copy = one.copy
    if one.answers and copy.attempt == OF_BEST_EFFORT:
        reports = [each.report for each in one.answers if isinstance(each, ErrorReceived)]
        about = (copy.partner_id, copy.agreement_id, copy.message_id)
        if reports:
            best_effort.add_errors(flights, *about, reports)
    elif one.answers and copy.key not in flights:
        flights.load_ended(copy.partner_id, copy.message_id, copy.agreement_id)
    for event in one.answers if copy.key in flights else ():
        flights.step(copy.key, event)
    if one.refused:
        for call in answer_refused(
            copy.partner_id, copy.message_id, "AnswerRefused", one.note, flights.now
        ):
            flights.add(call)
    elif one.note:
        flights.add(noted(copy.partner_id, copy.message_id, "AnswerReceived", one.note))


def claim(flights: Flights, budget: SendBudget) -> list[Job]:
    """First the copies of messages that have a place, then in the order of submission. One that is
    sent in order gets its number here."""
    _end_waits(flights)
    claimed = []
    for key in sorted(flights, key=lambda one: (not flights.flight(one).under_way, one)):
        row = flights.locked(key).row
        leave = flights.may_leave(key)
        if leave and budget.reserve(row.partner_id, row.size):
            _claim(flights, key, leave)
            claimed.append(key)
    return _jobs_of(flights, claimed)


def units_of_outcomes(ended: Sequence[Ended]) -> Iterable[Unit]:
    for one in ended:
        yield _unit(one.copy.partner_id, one.copy.key, one.copy.message_id, [one])


def units_of_poll(slots: Slots) -> Iterable[Unit]:
    if tried(polling.sort_new):
        for one in found(partial(polling.find_candidates, slots.in_all)):
            yield _unit(one.partner_id, one.key, one.message_id)


def _unit(partner_id: int, key: int, message_id: str, ended: Sequence[Ended] = ()) -> Unit:
    lock = partial(polling.lock_flight, partner_id, key, longest_attempt())
    isolate = partial(isolate_flight, partner_id, key, message_id, ended=attempts_of(ended))
    return Unit(f"message {message_id}", lock, isolate, ended, partner_id)


def _end_waits(flights: Flights) -> None:
    """Step the flights whose wait, TimeToLive or PersistDuration is over."""
    for key in flights:
        flight = flights.flight(key)
        gate = flights.gate(flights.locked(key).row.partner_id)
        if flight.state is FlightState.WAITING and flight.is_due(flights.now) and gate:
            flights.step(key, DeadlinePassed(gate.failures))
        elif flight.ends_at is not None and flight.ends_at <= flights.now:
            flights.step(key, Expired())


def _claim(flights: Flights, key: int, leave: Leave) -> None:
    longest = lease(flights.flight(key).terms.http_deadline(settings.MSH_HTTP_DEADLINE))
    if flights.waits_turn(key):
        flights.give_number(key)
    if leave is Leave.PROBE:
        flights.step_gate(flights.locked(key).row.partner_id, ProbeClaimed(longest))
        flight = flights.step(key, ProbeClaimed(longest))
    else:
        flight = flights.step(key, AttemptClaimed(longest))
    flights.insert_attempt(key, flight.attempt)


def _jobs_of(flights: Flights, claimed: list[int]) -> list[Job]:
    """The jobs that transmit the claimed copies, composing what was not composed before. A copy
    that cannot be made fails its own message and no other; our key may be repaired meanwhile."""

    def give_up(row: FlyingCopy, problem: Exception) -> None:
        attempt, why = flights.flight(row.id).attempt, why_unsendable(problem)
        repairable = isinstance(problem, KeyUnusable)
        outcome = AttemptOutcome.FAILED if repairable else AttemptOutcome.REFUSED
        result = AttemptResult(outcome, detail=why, body_sent=False)
        flights.step(row.id, event_of(row.message_id, attempt, result))
        flights.end_attempt(row.id, attempt, result)

    return copies.jobs_of(polling.load_copies(claimed), partial(_job, flights), give_up)


def _job(flights: Flights, row: FlyingCopy) -> Job:
    flight, dialect = flights.flight(row.id), dialect_named(row.dialect)
    content_type = dialect.content_type(row.boundary, bool(row.wires))
    # Bytes that nobody has seen carry a TimeToLive that had not begun.
    anew = flight.attempt == flight.unsent + 1 and flight.terms.time_to_live > 0
    head, seal = partial(_head, flights, row), partial(sealed_parts, row)
    body = copies.body_of(flights, row, head, seal=seal, anew=anew)
    return copies.job_of(
        row,
        FlightCopy(row.id, row.message_id, row.partner_id, row.agreement_id, flight.attempt),
        Entity(content_type, body, dialect.headers_of(row)),
        flight.terms.http_deadline(settings.MSH_HTTP_DEADLINE),
        message_id=row.message_id,
        url=row.channel_address or "",
        answer_limit=_answer_limit(row),
    )


def _answer_limit(row: FlyingCopy) -> int:
    of_message: int = settings.MSH_MESSAGE_LIMIT
    return of_message if row.sync_reply in WITH_RESPONSE else ANSWER_LIMIT


def _head(flights: Flights, row: FlyingCopy) -> bytes:
    compose_head = dialect_named(row.dialect).compose_head
    if compose_head is None:
        raise ValueError(f"messages of dialect {row.dialect} are not sent as flights")
    expires_at, order = flights.flight(row.id).expires_at, flights.order_of(row.id)
    return compose_head(row, expires_at, flights.now, order, signer_of(row))
