"""A flight whose processing raised an unexpected error is held, so that it stops no other.

Written without what may have raised it: no step of a table, no stored value is decoded.
"""

from dataclasses import replace

from msh.protocol.attempt import AttemptResult
from msh.protocol.kinds import IncidentKind, PartyEventKind
from msh.store import history
from msh.store.clock import CLOCK
from msh.store.engine import Call, Key, Order, Statement, run
from msh.store.history import HistoryRow
from msh.store.incidents import processing_failed
from msh.store.sending import party_events
from msh.store.sending.isolation import one_line
from msh.store.sending.links import end_attempt

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
    held, (clock,) = run(_HOLD(key=key, kind=kind), CLOCK())
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
    run(*calls, *processing_failed(partner_id, "out", message_id, why, clock.now))
