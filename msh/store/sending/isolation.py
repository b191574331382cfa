"""What raised an unexpected error is taken out of the work, so that it stops nothing else.

Written without what may have raised it: no step of a table, no stored value is decoded.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.protocol.lane import LaneState
from msh.store import history
from msh.store.clock import CLOCK, read_clock
from msh.store.engine import Call, Key, Order, Statement, Write, run
from msh.store.history import LINK, MESSAGE, HistoryRow
from msh.store.incidents import NewIncident, open_incident, processing_failed
from msh.wire.text import prose

from . import best_effort_sql, link_sql, party_events
from .best_effort import end_calls
from .best_effort_sql import BestEffortCopy
from .queue_sql import HEAD
from .signals import SignalCopy, end_signal
from .unit import end_attempt

DETAIL_LIMIT = 1000
"""Characters: an error may quote the whole statement and its values."""

Attempts = Iterable[tuple[int, int, AttemptResult]]
"""Attempts whose outcome is not written yet: row id of the message, number, result."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The message in flight, or the one that would be next: what failed is one of them."""

    state: str
    in_flight_id: int | None
    message_id: str | None
    forwards_id: int | None
    now: datetime


@dataclass(frozen=True, slots=True)
class _Stopped:
    """A conversation, and the number of the message that stops it: None if it has none yet."""

    conversation_id: str
    number: int | None


_FIND = Statement(
    f"""
    SELECT link.state, link.in_flight_id, message.message_id, message.forwards_id,
           clock_timestamp() AS now
    FROM msh_outboundlink link
    LEFT JOIN LATERAL ({HEAD.format("id")}) head ON link.in_flight_id IS NULL
    LEFT JOIN msh_outboundmessage message ON message.id = COALESCE(link.in_flight_id, head.id)
    WHERE link.partner_id = %(partner_id)s
    """,
    _Subject,
)
_SUSPEND = Write(
    """
    UPDATE msh_outboundlink
    SET state = 'suspended', due = NULL, unsent = false, promised = false,
        suspended_since = %(at)s, suspended_for = %(kind)s, suspended_detail = %(why)s,
        suspended_reason = ''
    WHERE partner_id = %(partner_id)s AND state <> 'suspended'
    """,
    order=Order.LINK,
)


_HOLD = Statement(
    """
    UPDATE msh_flight
    SET state = 'held', due = NULL, ends_at = NULL, under_way = false, held_for = %(kind)s
    WHERE message_id = %(key)s AND state <> 'held'
    RETURNING message_id AS id
    """,
    Key,
    order=Order.FLIGHT,
)
# What waits behind it, with a number or without one, does not start.
_STOP_CONVERSATION = Statement(
    """
    UPDATE msh_outboundconversation conversation
    SET head = CASE WHEN head <> %(key)s THEN head END,
        state = CASE WHEN flight.number IS NULL THEN conversation.state ELSE 'stopped' END,
        stopped_by = CASE WHEN flight.number IS NULL OR %(message_id)s = ANY(stopped_by)
                          THEN stopped_by ELSE stopped_by || %(message_id)s::varchar END
    FROM msh_flight flight
    WHERE flight.message_id = %(key)s AND conversation.id = flight.ordered_in_id
    RETURNING conversation.conversation_id, flight.number
    """,
    _Stopped,
    order=Order.CONVERSATION,
)


def one_line(text: str) -> str:
    return prose(text)[:DETAIL_LIMIT]


def describe(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")


def isolate_link(partner_id: int, why: str, ended: Attempts) -> None:
    """Suspend the link to this partner until an operator resumes it, and open an incident. `ended`
    are its attempts. Needs the caller's transaction, as all that follow."""
    _, (row,) = run(link_sql.LOCK(partner_ids=[partner_id]), _FIND(partner_id=partner_id))
    calls = _end_attempts(ended, row.now)
    if row.state != LaneState.SUSPENDED:
        to = {"partner_id": partner_id, "at": row.now, "why": why}
        calls.append(_SUSPEND(**to, kind=IncidentKind.PROCESSING_FAILED))
        calls.append(_failed(partner_id, "", (row.state, LaneState.SUSPENDED), why, row.now))
        if row.in_flight_id and not row.forwards_id:
            calls.append(_tell(row.in_flight_id, why, row.now))
    run(*calls, *processing_failed(partner_id, "out", row.message_id or "", why, row.now))


def isolate_flight(
    partner_id: int, key: int, message_id: str, why: str, ended: Attempts = ()
) -> None:
    """Hold it until an operator decides, and open an incident. `ended` are its attempts."""
    kind = IncidentKind.PROCESSING_FAILED
    about = {"key": key, "message_id": message_id}
    held, stopped, (clock,) = run(_HOLD(key=key, kind=kind), _STOP_CONVERSATION(**about), CLOCK())
    calls = _end_attempts(ended, clock.now)
    if held:
        calls.append(_tell(key, why, clock.now))
        calls.append(_failed(partner_id, message_id, ("in_flight", "held"), why, clock.now))
    for one in stopped:
        if one.number is not None:
            of = f"conversation {one.conversation_id}"
            detail = f"{of}: message {message_id}, number {one.number}, is held"
            stops = (IncidentKind.CONVERSATION_STOPPED, message_id, detail)
            calls.append(open_incident(NewIncident(partner_id, "out", *stops, clock.now)))
    run(*calls, *processing_failed(partner_id, "out", message_id, why, clock.now))


def isolate_best_effort(copy: BestEffortCopy, ended: AttemptResult | None, why: str) -> None:
    rows, (clock,) = run(best_effort_sql.LOCK_OPEN(key=copy.key), CLOCK())
    result = _writable(ended) if ended else _not_sent(why)
    calls = end_calls(copy, result, clock.now) if rows else []
    run(*calls, *processing_failed(copy.partner_id, "out", copy.message_id, why, clock.now))


def isolate_signal(copy: SignalCopy, why: str) -> None:
    """Send this signal no more, and open an incident. A further copy of the message that it is
    about queues another."""
    now = read_clock()
    incident = processing_failed(copy.partner_id, "in", copy.ref_to_message_id, why, now)
    run(*end_signal(copy, _not_sent(why), now), *incident)


def _failed(
    partner_id: int, message_id: str, states: tuple[str, str], why: str, now: datetime
) -> Call[None]:
    """Return the row of the history: of the message if one is named, otherwise of the link."""
    row = HistoryRow(
        partner_id,
        "out",
        "ProcessingFailed",
        message_id,
        from_state=states[0],
        to_state=states[1],
        detail=why,
        subject=MESSAGE if message_id else LINK,
        at=now,
    )
    return history.insert(row)


def _tell(key: int, why: str, now: datetime) -> Call[None]:
    what = (key, PartyEventKind.SUSPENDED, why, now)
    return party_events.insert_event(*what, code=IncidentKind.PROCESSING_FAILED)


def _end_attempts(ended: Attempts, now: datetime) -> list[Call[object]]:
    return [end_attempt(key, number, _writable(result), now) for key, number, result in ended]


def _not_sent(why: str) -> AttemptResult:
    return AttemptResult(AttemptOutcome.REFUSED, detail=why, body_sent=False)


def _writable(result: AttemptResult) -> AttemptResult:
    return replace(result, detail=one_line(result.detail))
