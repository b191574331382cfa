"""A flight whose processing raised an unexpected error is held, so that it stops no other.

Written without what may have raised it: no step of a table, no stored value is decoded.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from msh.protocol.attempt import AttemptResult
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.store import history
from msh.store.clock import CLOCK
from msh.store.engine import Call, Key, Order, Statement, run
from msh.store.history import HistoryRow
from msh.store.incidents import NewIncident, open_incident, processing_failed
from msh.store.sending import party_events
from msh.store.sending.isolation import one_line
from msh.store.sending.unit import end_attempt


@dataclass(frozen=True, slots=True)
class _Stopped:
    conversation_id: str
    number: int | None


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


def isolate_flight(
    key: int,
    message_id: str,
    partner_id: int,
    why: str,
    ended: tuple[int, AttemptResult] | None = None,
) -> None:
    """Hold it until an operator decides, and open an incident. `ended`: number and result of an
    attempt that is not written yet. Needs the caller's transaction."""
    kind = IncidentKind.PROCESSING_FAILED
    about = {"key": key, "message_id": message_id}
    held, stopped, (clock,) = run(_HOLD(key=key, kind=kind), _STOP_CONVERSATION(**about), CLOCK())
    calls: list[Call[object]] = []
    if ended:
        number, result = ended
        written = replace(result, detail=one_line(result.detail))
        calls.append(end_attempt(key, number, written, clock.now))
    if held:
        event = HistoryRow(
            partner_id,
            "out",
            "ProcessingFailed",
            message_id,
            from_state="in_flight",
            to_state="held",
            detail=why,
            at=clock.now,
        )
        suspended = PartyEventKind.SUSPENDED
        calls += [
            party_events.insert_event(key, suspended, why, clock.now),
            history.insert(event),
        ]
    calls += [
        _conversation_stopped(partner_id, message_id, one, clock.now)
        for one in stopped
        if one.number is not None
    ]
    run(*calls, *processing_failed(partner_id, "out", message_id, why, clock.now))


def _conversation_stopped(
    partner_id: int, message_id: str, one: _Stopped, now: datetime
) -> Call[object]:
    detail = f"conversation {one.conversation_id}: message {message_id}, number {one.number}, is"
    kind = IncidentKind.CONVERSATION_STOPPED
    return open_incident(NewIncident(partner_id, "out", kind, message_id, f"{detail} held", now))
