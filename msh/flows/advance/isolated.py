"""What raised an unexpected error is taken out of the work, so that it stops nothing else.

Written without what may have raised it: no step of a table, no stored value is decoded.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from msh.models import hot
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.effects import IncidentKind, PartyEventKind
from msh.protocol.lane import LaneState
from msh.wire.text import prose

from .actor import SYSTEM
from .lanes import attempt_end
from .outbound import BestEffortResult, end_of_best_effort
from .signals import SignalResult, signal_end

DETAIL_LIMIT = 1000

# The message in flight, or the head of the queue: what failed is one of them.
_FIND = """
    SELECT link.state, link.in_flight_id, message.message_id, message.relays_id,
           clock_timestamp() AS now
    FROM msh_outboundlink link
    LEFT JOIN LATERAL (
        SELECT id, message_id, relays_id FROM msh_outboundmessage
        WHERE link_id = link.id AND state = 'queued' AND semantics = 'OnceAndOnlyOnce'
          AND link.in_flight_id IS NULL
        ORDER BY id LIMIT 1) head ON true
    LEFT JOIN msh_outboundmessage message ON message.id = COALESCE(link.in_flight_id, head.id)
    WHERE link.partner_id = %s
"""
_SUSPEND = """
    UPDATE msh_outboundlink
    SET state = 'suspended', due = NULL, unsent = false, suspended_since = %s, suspended_for = %s,
        suspended_detail = %s
    WHERE partner_id = %s AND state <> 'suspended'
"""


def one_line(text: str) -> str:
    """`text` as every table can hold it."""
    return prose(text)[:DETAIL_LIMIT]


def describe(error: Exception) -> str:
    """The name and the words of an error, in one line."""
    return one_line(f"{type(error).__name__}: {error}")


def isolate_lane(
    partner_id: int, why: str, ended: Iterable[tuple[int, int, AttemptResult]]
) -> None:
    """Suspend the lane to this partner until an operator resumes it, and open an incident.

    `ended` are its attempts whose outcome is not written yet: row id of the message, number of the
    attempt, result. Needs the caller's transaction.
    """
    _, (row,) = hot.run((hot.LOCK_LANES, ([partner_id],)), (_FIND, (partner_id,)))
    message_id = row.message_id or ""
    statements: list[hot.Statement] = [
        (hot.END_ATTEMPT, attempt_end(key, number, _writable(result), row.now))
        for key, number, result in ended
    ]
    if row.state != LaneState.SUSPENDED:
        cause = IncidentKind.PROCESSING_FAILED
        statements.append((_SUSPEND, (row.now, cause, why, partner_id)))
        note = (row.now, SYSTEM, partner_id, "out", "link", "", "ProcessingFailed")
        statements.append((hot.WRITE_HISTORY, (*note, row.state, LaneState.SUSPENDED, why)))
        if row.in_flight_id and not row.relays_id:
            event = (row.in_flight_id, PartyEventKind.SUSPENDED, why, row.now, row.now)
            statements.append((hot.NOTIFY_FROM_PARTY, event))
    hot.run(*statements, *processing_failed(partner_id, "out", message_id, why, row.now))


def isolate_best_effort(one: BestEffortResult, why: str) -> None:
    """End a BestEffort message, as failed unless it is known to be sent, and open an incident."""
    rows, clock = hot.run((hot.LOCK_OPEN_BEST_EFFORT, (one.key,)), (hot.CLOCK, ()))
    now = clock[0].now
    result = _writable(one.result) if one.result else _not_sent(why)
    ended = BestEffortResult(one.key, one.message_id, one.partner_id, result)
    statements = end_of_best_effort(ended, now) if rows else []
    hot.run(*statements, *processing_failed(one.partner_id, "out", one.message_id, why, now))


def isolate_signal(key: int, kind: str, ref_to_message_id: str, partner_id: int, why: str) -> None:
    """Owe this signal no more, and open an incident. A further copy of the message that it is
    about owes another."""
    ((clock,),) = hot.run((hot.CLOCK, ()))
    ended = SignalResult(key, kind, ref_to_message_id, partner_id, _not_sent(why))
    told = processing_failed(partner_id, "in", ref_to_message_id, why, clock.now)
    hot.run(*signal_end(ended, clock.now), *told)


def processing_failed(
    partner_id: int, direction: str, message_id: str, why: str, now: datetime
) -> list[hot.Statement]:
    """What tells an operator that this message, or the signal about it, raised an error."""
    kind = IncidentKind.PROCESSING_FAILED
    subject = "message" if message_id else "link"
    note = (now, SYSTEM, partner_id, direction, subject, message_id, "ProcessingFailed", "", "")
    return [
        (hot.OPEN_INCIDENT, (partner_id, direction, kind, message_id, why, now, now)),
        (hot.WRITE_HISTORY, (*note, why)),
    ]


def _not_sent(why: str) -> AttemptResult:
    return AttemptResult(AttemptOutcome.REFUSED, detail=why, body_sent=False)


def _writable(result: AttemptResult) -> AttemptResult:
    """The same outcome, with a detail that every table can hold."""
    return replace(result, detail=one_line(result.detail))
