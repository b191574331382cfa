"""BestEffort messages from claim to end: one attempt each, outside the order of the link."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.kinds import PartyEventKind
from msh.store import history
from msh.store.clock import CLOCK
from msh.store.engine import Call, run
from msh.store.history import HistoryRow

from . import best_effort_sql, message_sql, party_events
from .links import end_attempt


@dataclass(frozen=True, slots=True)
class BestEffortResult:
    """How the one attempt of a BestEffort message ended; None: its worker was lost."""

    key: int
    message_id: str
    partner_id: int
    result: AttemptResult | None


def lock_lost(limit: int) -> list[BestEffortResult]:
    (rows,) = run(best_effort_sql.LOCK_LOST(limit=limit))
    return [BestEffortResult(row.id, row.message_id, row.partner_id, None) for row in rows]


def end_best_effort(ended: Iterable[BestEffortResult]) -> None:
    """SENT or FAILED; the From-Party is notified of the failure (D25)."""
    by_key = {one.key: one for one in ended}
    if not by_key:
        return
    rows, (clock,) = run(best_effort_sql.LOCK_IN_FLIGHT(keys=list(by_key)), CLOCK())
    calls = [call for row in rows for call in end_calls(by_key[row.id], clock.now)]
    if calls:
        run(*calls)


def end_calls(one: BestEffortResult, now: datetime) -> list[Call[object]]:
    transmitted = one.result is not None and one.result.outcome is AttemptOutcome.TRANSMITTED
    state = "sent" if transmitted else "failed"
    detail = one.result.detail if one.result else "the worker was lost, outcome unknown"
    row = HistoryRow(
        one.partner_id,
        "out",
        "AttemptEnded",
        one.message_id,
        from_state="in_flight",
        to_state=state,
        detail=detail,
        at=now,
    )
    calls: list[Call[object]] = [message_sql.COMPLETE(key=one.key, state=state, at=now)]
    if one.result is not None:
        calls.append(end_attempt(one.key, 1, one.result, now))
    if not transmitted:
        calls.append(party_events.insert_event(one.key, PartyEventKind.FAILED, detail, now))
    return [*calls, history.insert(row)]
