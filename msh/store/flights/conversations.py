"""Conversations that are sent in order: locked after their flights, stepped, written.

The only writer of `msh_outboundconversation`, with `isolation.py`.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from msh.protocol.flight.numbering import (
    MessageLost,
    MessageStopped,
    Numbering,
    NumberingEvent,
    NumberingState,
)
from msh.protocol.kinds import IncidentKind
from msh.store import history, incidents
from msh.store.clock import read_clock
from msh.store.engine import USE_INDEX_ORDER, Call, run, run_all
from msh.store.history import SYSTEM, Actor
from partners.models import Agreement

from . import conversation_sql
from .conversation_sql import ConversationRow, ConversationState, Unsorted

_STOPPED = NumberingState.STOPPED


@dataclass(slots=True)
class LockedConversation:
    """`queue`: row ids of its oldest messages without a number."""

    row: ConversationRow
    numbering: Numbering
    queue: list[int] = field(default_factory=list)
    changed: bool = False

    def may_start(self, key: int) -> bool:
        """Whether it is the turn of this message, which has no number."""
        return self.queue[:1] == [key] and self.numbering.may_start

    @property
    def name(self) -> str:
        return f"conversation {self.row.conversation_id} of {self.row.tpa_id}"

    def step(
        self, event: NumberingEvent, after: Numbering, why: str, actor: Actor, now: datetime
    ) -> list[Call[None]]:
        """Take `after`, the value after `event`; what is to be written besides the row itself."""
        before, self.numbering = self.numbering.state, after
        self.changed = True
        detail = f"{self.name}: {why}" if why else self.name
        calls: list[Call[None]] = []
        if isinstance(event, MessageStopped | MessageLost):
            calls.append(self._open_incident(event, detail, now))
        elif before is _STOPPED and after.state is not _STOPPED:
            calls += self._resolve_incident(actor, now)
        stops_or_goes_on = before is not after.state and _STOPPED in (before, after.state)
        if stops_or_goes_on or actor.name != SYSTEM:
            states = {"from_state": before, "to_state": after.state, "detail": detail}
            name = type(event).__name__
            row = history.link_row(self.row.partner_id, "out", name, actor, **states)
            calls.append(history.insert(row))
        return calls

    def _open_incident(
        self, event: MessageStopped | MessageLost, detail: str, now: datetime
    ) -> Call[None]:
        kind = IncidentKind.CONVERSATION_STOPPED
        new = incidents.NewIncident(self.row.partner_id, "out", kind, event.message_id, detail, now)
        return incidents.open_incident(new)

    def _resolve_incident(self, actor: Actor, now: datetime) -> list[Call[None]]:
        partner_id = self.row.partner_id
        return [
            conversation_sql.LOCK_INCIDENT(partner_id=partner_id),
            conversation_sql.RESOLVE(
                partner_id=partner_id,
                at=now,
                actor=actor.name,
                resolution=actor.reason or "its messages are sent again",
            ),
        ]

    def written(self) -> Call[None]:
        return conversation_sql.WRITE.of(
            ConversationState(
                id=self.row.id,
                state=self.numbering.state,
                next_number=self.numbering.next_number,
                resets=self.numbering.resets,
                unconfirmed=self.numbering.unconfirmed,
                stopped_by=sorted(self.numbering.stopped_by),
                broken=self.numbering.broken,
            )
        )


def _locked(row: ConversationRow) -> LockedConversation:
    stopped_by = frozenset(row.stopped_by)
    value = Numbering(row.next_number, row.resets, row.unconfirmed, stopped_by, row.broken)
    return LockedConversation(row, value)


def sort(unsorted: Collection[Unsorted]) -> None:
    """New messages, whose flights are locked, get into the queues of their conversations."""
    keys = [one.key for one in unsorted]
    run(
        conversation_sql.OPEN(
            link_ids=[one.link_id for one in unsorted],
            agreement_ids=[one.agreement_id for one in unsorted],
            conversation_ids=[one.conversation_id for one in unsorted],
        ),
        conversation_sql.SORT(keys=keys),
        conversation_sql.FIND_HEADS(keys=keys),
    )


def lock_conversations(ids: Iterable[int], queued: int = 0) -> dict[int, LockedConversation]:
    """Lock these conversations, and read so many of their `queued` messages. Returns them by id.
    The flights of them that this transaction needs are locked before."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    _, rows, queues = run(
        USE_INDEX_ORDER(),
        conversation_sql.LOCK(ids=wanted),
        conversation_sql.LOAD_QUEUES(ids=wanted, limit=queued),
    )
    locked = {row.id: _locked(row) for row in rows}
    for queue in queues:
        if queue.id in locked:
            locked[queue.id].queue = list(queue.keys)
    return locked


def lock_conversation(agreement: Agreement, conversation_id: str) -> LockedConversation | None:
    """None if there is none. Its queue is not read."""
    named = {"agreement_id": agreement.pk, "conversation_id": conversation_id}
    (rows,) = run(conversation_sql.LOCK_NAMED(**named))
    return _locked(rows[0]) if rows else None


def change_conversation(
    held: LockedConversation, event: NumberingEvent, after: Numbering, actor: Actor
) -> None:
    """Write what an operator has done to it: `after`, the value after `event`, with its history."""
    why = f"the next number is {after.next_number}"
    calls = held.step(event, after, why, actor, read_clock())
    run_all([held.written(), *calls])


def count_outstanding(key: int) -> int:
    """Messages of it that were sent and are neither acknowledged nor cancelled; none of one that
    was removed meanwhile."""
    (rows,) = run(conversation_sql.COUNT_OUTSTANDING(id=key))
    return rows[0].messages if rows else 0


def open_conversation(link_id: int, agreement_id: int, conversation_id: str) -> None:
    """Add the row of a conversation in which nothing was submitted yet; one that is there stays as
    it is."""
    run(
        conversation_sql.OPEN(
            link_ids=[link_id],
            agreement_ids=[agreement_id],
            conversation_ids=[conversation_id],
        )
    )
