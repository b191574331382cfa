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
from msh.store.engine import Call, Order, Statement, Write, run
from msh.store.history import LINK, HistoryRow
from msh.store.incidents import processing_failed
from msh.wire.text import prose

from . import best_effort_sql, link_sql, party_events
from .best_effort import BestEffortResult, end_calls
from .queue_sql import HEAD
from .signals import SignalResult, end_signal
from .unit import end_attempt

DETAIL_LIMIT = 1000
"""Characters: an error may quote the whole statement and its values."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The message in flight, or the one that would be next: what failed is one of them."""

    state: str
    in_flight_id: int | None
    message_id: str | None
    forwards_id: int | None
    now: datetime


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


def one_line(text: str) -> str:
    return prose(text)[:DETAIL_LIMIT]


def describe(error: Exception) -> str:
    return one_line(f"{type(error).__name__}: {error}")


def isolate_link(
    partner_id: int, why: str, ended: Iterable[tuple[int, int, AttemptResult]]
) -> None:
    """Suspend the link to this partner until an operator resumes it, and open an incident.

    `ended` are its attempts whose outcome is not written yet: row id of the message, number of the
    attempt, result. Needs the caller's transaction.
    """
    _, (row,) = run(link_sql.LOCK(partner_ids=[partner_id]), _FIND(partner_id=partner_id))
    calls: list[Call[object]] = [
        end_attempt(key, number, _writable(result), row.now) for key, number, result in ended
    ]
    if row.state != LaneState.SUSPENDED:
        calls += _suspend(partner_id, row, why)
    run(*calls, *processing_failed(partner_id, "out", row.message_id or "", why, row.now))


def _suspend(partner_id: int, row: _Subject, why: str) -> list[Call[object]]:
    event = HistoryRow(
        partner_id,
        "out",
        "ProcessingFailed",
        from_state=row.state,
        to_state=LaneState.SUSPENDED,
        detail=why,
        subject=LINK,
        at=row.now,
    )
    calls: list[Call[object]] = [
        _SUSPEND(partner_id=partner_id, at=row.now, kind=IncidentKind.PROCESSING_FAILED, why=why),
        history.insert(event),
    ]
    if row.in_flight_id and not row.forwards_id:
        kind = PartyEventKind.SUSPENDED
        calls.append(party_events.insert_event(row.in_flight_id, kind, why, row.now))
    return calls


def isolate_best_effort(one: BestEffortResult, why: str) -> None:
    rows, (clock,) = run(best_effort_sql.LOCK_OPEN(key=one.key), CLOCK())
    result = _writable(one.result) if one.result else _not_sent(why)
    ended = BestEffortResult(one.key, one.message_id, one.partner_id, result)
    calls = end_calls(ended, clock.now) if rows else []
    run(*calls, *processing_failed(one.partner_id, "out", one.message_id, why, clock.now))


def isolate_signal(key: int, kind: str, ref_to_message_id: str, partner_id: int, why: str) -> None:
    """Send this signal no more, and open an incident. A further copy of the message that it is
    about queues another."""
    now = read_clock()
    ended = SignalResult(key, kind, ref_to_message_id, partner_id, _not_sent(why))
    incident = processing_failed(partner_id, "in", ref_to_message_id, why, now)
    run(*end_signal(ended, now), *incident)


def _not_sent(why: str) -> AttemptResult:
    return AttemptResult(AttemptOutcome.REFUSED, detail=why, body_sent=False)


def _writable(result: AttemptResult) -> AttemptResult:
    return replace(result, detail=one_line(result.detail))
