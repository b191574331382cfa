"""What one transaction writes about messages to partners, gathered until it is written."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from msh.protocol.attempt import AttemptResult
from msh.store import history
from msh.store.engine import Call, gather, in_order, run_all
from msh.store.history import ITSELF, Actor, HistoryRow

from . import message_sql

BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class UnitOfWork:
    """The new state of rows that it holds, their history and every effect that must not be lost:
    incident, event to the From-Party, due time. `write` ends it; only wake-ups follow the commit.

    A subclass adds the rows, and says with `_states` what has become of them.
    """

    now: datetime = BEFORE_ALL
    """By the database's clock."""
    _calls: list[Call[object]] = field(default_factory=list)
    transmits: set[int] = field(default_factory=set)
    """Partners to whom something may be sent now."""
    notifies: bool = False
    """There is an event for a From-Party."""
    has_signals: bool = False
    """A signal is pending to another partner."""

    def record(
        self,
        partner_id: int,
        message_id: str,
        event: str,
        states: tuple[str, str] = ("", ""),
        detail: str = "",
        actor: Actor = ITSELF,
        *,
        code: str = "",
        counts: bool = False,
    ) -> None:
        """Write one row of the history: of the message if one is named, otherwise of the link. With
        `counts` a repetition within a minute is counted in the row of the first one."""
        row = HistoryRow(
            partner_id,
            "out",
            event,
            message_id,
            from_state=states[0],
            to_state=states[1],
            code=code,
            detail=history.with_reason(detail, actor),
            subject=history.MESSAGE if message_id else history.LINK,
            actor=actor.name,
            at=self.now,
        )
        self.add((history.COUNT if counts else history.INSERT).of(row))

    def insert_attempt(self, key: int, number: int) -> None:
        self.add(message_sql.INSERT_ATTEMPT(key=key, number=number, at=self.now))

    def end_attempt(self, key: int, number: int, result: AttemptResult) -> None:
        self.add(end_attempt(key, number, result, self.now))

    def add(self, call: Call[object]) -> None:
        self._calls.append(call)

    def add_all(self, calls: Iterable[Call[object]]) -> None:
        self._calls.extend(calls)

    def calls(self) -> list[Call[object]]:
        """Return what `write` writes, in its order."""
        return in_order([*self._calls, *self._states()])

    def write(self, *, last: bool = False) -> None:
        """Write everything. `last`: nothing else follows in a `short_transaction`, COMMIT goes with
        the writes."""
        calls = self.calls()
        self._calls.clear()
        run_all(calls, last=last)

    def write_together(self) -> None:
        """Write everything, what is alike of many rows by one statement."""
        calls = self.calls()
        self._calls.clear()
        run_all(list(gather(calls)))

    def _states(self) -> Iterable[Call[object]]:
        return ()


def end_attempt(key: int, number: int, result: AttemptResult, now: datetime) -> Call[None]:
    return message_sql.END_ATTEMPT(
        key=key,
        number=number,
        at=now,
        outcome=result.outcome,
        status=result.status,
        detail=result.detail,
        reason=result.reason,
        body_sent=result.body_sent,
    )
