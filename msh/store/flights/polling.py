"""Which flights a round works on: found and locked, passing over what others hold."""

from collections import Counter
from collections.abc import Collection, Iterable

from msh.store.engine import USE_INDEX_ORDER, Call, run
from msh.store.sending import link_sql
from msh.store.sending.polling import Slots

from . import conversation_sql, flight_sql, gate_sql
from .conversations import sort
from .flights import Flights
from .rows import Candidate, FlightRow, FlyingCopy, HeldGate

TIMED_AT_ONCE = 100
"""Flights whose wait or life is over that one round takes."""
SORTED_AT_ONCE = 500
"""New messages of a partner that one round puts into the queues of their conversations."""


def lock_flights(
    ended: Collection[tuple[int, int]],
    named: Iterable[int],
    slots: Slots,
    *,
    longest_attempt: float,
    everything: bool,
) -> Flights:
    """The gates of the partners whose attempts have `ended`, of the `named` ones, and with
    `everything` of all that have something to do; and the flights of these. What others hold is
    passed over, and the rest of the transaction waits briefly. `ended`: partner and row id of each
    message. `longest_attempt` in seconds. Raises UnreadableTermsError."""
    partners = {partner_id for partner_id, _ in ended}
    free = _lock_gates(partners.union(named), slots, everything=everything)
    held, missed = list(free), _missed(partners.difference(free.values()))
    if not held:
        return Flights(missed=missed)
    gates, landed, timed, ready = run(
        gate_sql.LOAD_GATES(link_ids=held),
        flight_sql.LOCK_ENDED(keys=[key for partner_id, key in ended if partner_id not in missed]),
        flight_sql.LOCK_TIMED(link_ids=held, limit=TIMED_AT_ONCE),
        flight_sql.LOCK_READY(link_ids=held, of_partner=slots.of_partner),
    )
    in_order = {one.link_id: one.partner_id for one in gates if one.in_order}
    heads, more = _lock_heads(list(in_order), slots.of_partner)
    rows = (*landed, *timed, *ready, *heads)
    flights = Flights.of(gates, rows, longest_attempt, slots.of_partner)
    flights.transmits.update(in_order[link_id] for link_id in more)
    flights.missed = missed
    return flights


def _lock_heads(link_ids: Collection[int], of_partner: int) -> tuple[list[FlightRow], set[int]]:
    """The messages of conversations that may start; new ones are put into their queues before, of
    some links perhaps not all."""
    if not link_ids:
        return [], set()
    find_heads = flight_sql.LOCK_HEADS(link_ids=link_ids, of_partner=of_partner)
    new, heads = run(
        conversation_sql.LOCK_UNSORTED(link_ids=link_ids, limit=SORTED_AT_ONCE), find_heads
    )
    if not new:
        return heads, set()
    sort(new)
    (heads,) = run(find_heads)
    counts = Counter(one.link_id for one in new)
    return heads, {link_id for link_id in counts if counts[link_id] >= SORTED_AT_ONCE}


def _lock_gates(partners: Collection[int], slots: Slots, *, everything: bool) -> dict[int, int]:
    """The links that are locked now: the partner of each, by row id."""
    calls: list[Call[HeldGate]] = [gate_sql.LOCK_FREE_GATES(partner_ids=list(partners))]
    if everything:
        full = list(slots.full)
        calls.append(gate_sql.LOCK_BUSY_GATES(full=full, limit=slots.limit))
    _, *found = run(link_sql.BEGIN_POLL(), *calls)
    return dict(sorted((row.id, row.partner_id) for rows in found for row in rows))


def _missed(partners: Collection[int]) -> set[int]:
    """The partners whose link others hold. One without a link has nothing to record."""
    if not partners:
        return set()
    (rows,) = run(gate_sql.FIND_GATES(partner_ids=list(partners)))
    return {row.partner_id for row in rows}


def load_copies(keys: Collection[int]) -> list[FlyingCopy]:
    return run(flight_sql.LOAD_COPIES(keys=list(keys)))[0] if keys else []


def lock_flight(partner_id: int, key: int, longest_attempt: float) -> Flights:
    """One flight with the gate of its partner, waited for. Raises UnreadableTermsError."""
    (held,) = run(link_sql.LOCK(partner_ids=[partner_id]))
    gates, rows = run(
        gate_sql.LOAD_GATES(link_ids=[row.id for row in held]),
        flight_sql.LOCK_ENDED(keys=[key]),
    )
    return Flights.of(gates, rows, longest_attempt, queued=1)


def sort_new() -> None:
    """As each round does; nothing that is stored is decoded."""
    (held,) = run(gate_sql.LOCK_GATES_WITH_NEW())
    link_ids = [row.id for row in held]
    (new,) = run(conversation_sql.LOCK_UNSORTED(link_ids=link_ids, limit=SORTED_AT_ONCE))
    if new:
        sort(new)


def find_candidates(limit: int) -> list[Candidate]:
    """Flights that have something to do, not locked."""
    _, rows = run(USE_INDEX_ORDER(), flight_sql.FIND_CANDIDATES(limit=limit))
    return rows
