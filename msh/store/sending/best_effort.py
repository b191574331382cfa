"""BestEffort messages from claim to end: one attempt each, outside the order of the link."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from msh.protocol import effects as do
from msh.protocol.attempt import AttemptOutcome, AttemptResult
from msh.protocol.flight.answers import after_error_of_best_effort
from msh.protocol.kinds import PartyEventKind
from msh.protocol.message import ErrorReport
from msh.store import history
from msh.store.clock import CLOCK
from msh.store.engine import Call, run
from msh.store.history import HistoryRow

from . import best_effort_sql, message_sql, party_events
from .best_effort_sql import BestEffortCopy
from .effects import COMMON, Method, Writer
from .unit import UnitOfWork, end_attempt


def end_best_effort(ended: Iterable[tuple[BestEffortCopy, AttemptResult | None]]) -> None:
    """End each as SENT or FAILED; the From-Party is notified of the failure (D25). Without a result
    the worker was lost."""
    by_key = {copy.key: (copy, result) for copy, result in ended}
    if not by_key:
        return
    rows, (clock,) = run(best_effort_sql.LOCK_UNDER_WAY(keys=list(by_key)), CLOCK())
    calls: list[Call[object]] = []
    for row in rows:
        end = end_calls if row.state == "in_flight" else _attempt_calls
        calls += end(*by_key[row.id], clock.now)
    if calls:
        run(*calls)


def end_calls(
    copy: BestEffortCopy, result: AttemptResult | None, now: datetime
) -> list[Call[object]]:
    transmitted = result is not None and result.outcome is AttemptOutcome.TRANSMITTED
    state = "sent" if transmitted else "failed"
    detail = result.detail if result else "the worker was lost, outcome unknown"
    about = (copy.partner_id, "out", "AttemptEnded", copy.message_id)
    row = HistoryRow(*about, from_state="in_flight", to_state=state, detail=detail, at=now)
    calls: list[Call[object]] = [message_sql.COMPLETE(key=copy.key, state=state, at=now)]
    calls += _attempt_calls(copy, result, now)
    if not transmitted:
        what = (copy.key, PartyEventKind.FAILED, detail, now)
        calls.append(party_events.insert_event(*what, code=result.reason if result else ""))
    return [*calls, history.insert(row)]


def _attempt_calls(
    copy: BestEffortCopy, result: AttemptResult | None, now: datetime
) -> list[Call[object]]:
    return [] if result is None else [end_attempt(copy.key, 1, result, now)]


def add_errors(
    unit: UnitOfWork,
    partner_id: int,
    agreement_id: int,
    message_id: str,
    errors: Iterable[ErrorReport],
) -> bool:
    """Have `unit` write what Errors ask for that the partner reports about a BestEffort message,
    which is locked here. False, with nothing to be written, if there is none of this MessageId."""
    about = {"partner_id": partner_id, "agreement_id": agreement_id, "message_id": message_id}
    rows, (clock,) = run(best_effort_sql.LOCK_ANSWERED(**about), CLOCK())
    unit.now = max(unit.now, clock.now)
    for row in rows:
        keys = {message_id: row.id}
        writer = _ErrorWriter(unit, partner_id, keys, "ErrorReceived", was=row.state)
        is_open = row.state in ("in_flight", "sent")
        for report in errors:
            effects = after_error_of_best_effort(message_id, report, is_open=is_open)
            is_open = is_open and not any(isinstance(one, do.Fail) for one in effects)
            writer.write(effects)
    return bool(rows)


@dataclass(slots=True)
class _ErrorWriter(Writer):
    METHODS: ClassVar[Mapping[type, Method]]

    was: str = field(kw_only=True)

    def fail(self, effect: do.Fail) -> None:
        key = self.keys[effect.message_id]
        self.unit.add(message_sql.COMPLETE(key=key, state="failed", at=self.unit.now))
        detail = f"{effect.severity}: {effect.code}: {effect.detail}"
        self.record(effect.message_id, (self.was, "failed"), detail)


_ErrorWriter.METHODS = {
    **COMMON,
    do.Fail: _ErrorWriter.fail,
    do.OpenIncident: _ErrorWriter.open_incident,
}
