"""Flights and gates made of their rows, and what a transaction that holds them writes."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from msh.protocol.flight import Flight, FlightState, FlightTerms, OnSilence
from msh.protocol.flight.gate import Gate, GateState, seconds_between_probes, what_expires
from msh.store.engine import Call, run

from . import flight_sql, rows
from .rows import FlightRow, GateRow

_ON_ITS_WAY = (FlightState.READY, FlightState.WAITING, FlightState.HELD)


@dataclass(slots=True)
class LockedFlight:
    row: FlightRow
    flight: Flight
    changed: bool = False

    @property
    def key(self) -> int:
        return self.row.id


@dataclass(slots=True)
class LockedGate:
    row: GateRow
    gate: Gate
    under_way: int
    suspended: tuple[datetime | None, str, str]
    """Since when, and why: as it is shown, and as a Reason."""
    changed: bool = False


def read_flights(keys: Iterable[int]) -> dict[int, Flight]:
    """Read messages that fly or flew, by row id; nothing is locked. Raises UnreadableTermsError."""
    (rows,) = run(flight_sql.READ(keys=list(keys)))
    return {row.id: flight_of(row) for row in rows}


def flight_of(row: FlightRow) -> Flight:
    """Raises UnreadableTermsError."""
    if row.state is None:
        ended = Flight(row.message_id, _terms(row), state=FlightState(row.message_state))
        return ended if row.order_number is None else _in_its_conversation(ended, row)
    return Flight(
        message_id=row.message_id,
        terms=_terms(row),
        on_silence=OnSilence(row.on_failure),
        state=FlightState(row.state),
        attempt=row.attempt or 0,
        copies=row.copies or 0,
        under_way=bool(row.under_way),
        carried=bool(row.carried),
        reached=bool(row.reached),
        unreached=row.unreached or 0,
        unsent=row.unsent or 0,
        due=row.due,
        expires_at=row.expires_at,
        persists_until=row.persists_until,
        number=row.order_number,
        held_for=row.held_for or "",
    )


def _in_its_conversation(ended: Flight, row: FlightRow) -> Flight:
    """If it failed it may be sent again: until when is as it was."""
    sent = row.first_sent_at
    return replace(
        ended,
        on_silence=OnSilence(row.on_failure),
        attempt=row.last_attempt or 0,
        expires_at=ended.terms.expiry(sent) if sent else None,
        persists_until=ended.terms.end_of_copies(sent) if sent else None,
        number=row.order_number,
    )


@lru_cache(maxsize=1000)
def _terms_of_text(text: str) -> FlightTerms:
    """There are few agreements, and each has the same terms for all of its messages."""
    return FlightTerms.of_stored(json.loads(text))


def _terms(row: FlightRow) -> FlightTerms:
    if row.terms is not None:
        is_text = isinstance(row.terms, str)
        return _terms_of_text(row.terms) if is_text else FlightTerms.of_stored(row.terms)
    return FlightTerms(
        timeout=row.retry_interval,
        retries=row.retries,
        retry_interval=row.retry_interval,
        transient_wait_limit=row.transient_wait_limit,
        early_warning=row.early_warning,
        time_to_live=row.time_to_live,
        persist_duration=row.persist_duration,
    )


def _flight_state(locked: LockedFlight) -> rows.FlightState:
    flight = locked.flight
    return rows.FlightState(
        key=locked.key,
        state=flight.state,
        attempt=flight.attempt,
        copies=flight.copies,
        under_way=flight.under_way,
        carried=flight.carried,
        reached=flight.reached,
        unreached=flight.unreached,
        unsent=flight.unsent,
        due=flight.due,
        expires_at=flight.expires_at,
        persists_until=flight.persists_until,
        ends_at=flight.ends_at,
        held_for=flight.held_for,
        number=flight.number,
        ordered_in_id=locked.row.ordered_in_id,
    )


def written(locked: LockedFlight) -> Sequence[Call[object]]:
    """Its row as it is now, gone, or there again."""
    if locked.flight.state not in _ON_ITS_WAY:
        return (flight_sql.REMOVE(key=locked.key),)
    state = _flight_state(locked)
    if locked.row.state is not None:
        return (flight_sql.WRITE.of(state),)
    return flight_sql.INSERT_AGAIN.of(state), flight_sql.REVIVE_MESSAGE(key=locked.key)


def gate_of(row: GateRow, longest_attempt: float) -> Gate:
    is_shut = row.state == GateState.SUSPENDED
    expiring = ""
    if row.first_expiry and row.last_expiry:
        span = (row.first_expiry, row.last_expiry)
        expiring = what_expires(row.expiring, row.under_way, *span)
    return Gate(
        probe_interval=seconds_between_probes(
            row.probe_interval, row.retry_interval, never=row.never_probe
        ),
        longest_attempt=longest_attempt,
        state=GateState.SUSPENDED if is_shut else GateState.OPEN,
        failures=row.failures,
        due=row.probe_due if is_shut else None,
        suspended_for=row.suspended_for if is_shut else "",
        retry_interval=row.retry_interval,
        failing_since=row.failing_since,
        probed_at=row.probed_at,
        refusals=row.refusals,
        refused_for=row.refused_for,
        refused_message=row.refused_message,
        expiring=expiring,
    )


def gate_state(locked: LockedGate) -> rows.GateState:
    gate, (since, detail, reason) = locked.gate, locked.suspended
    return rows.GateState(
        link_id=locked.row.link_id,
        suspended=gate.state is GateState.SUSPENDED,
        failures=gate.failures,
        failing_since=gate.failing_since,
        probe_due=gate.due,
        probed_at=gate.probed_at,
        refusals=gate.refusals,
        refused_for=gate.refused_for,
        refused_message=gate.refused_message,
        suspended_for=gate.suspended_for,
        suspended_since=since,
        suspended_detail=detail,
        suspended_reason=reason,
    )


def shown_state(flight: Flight) -> str:
    """The word for operators and applications: whether a copy is under way is no matter of
    theirs, whether one ever was is."""
    if flight.state is FlightState.READY:
        return "in_flight" if flight.attempt else "queued"
    return "in_flight" if flight.state is FlightState.WAITING else flight.state
