"""Outbound links: lock them, step them, write what the steps ask for, in one transaction.

It holds the new state, its history and every effect that must not be lost: incident, event to the
From-Party, due time. Only wake-ups follow the commit.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from msh.models import OutboundLink
from msh.models.history import SYSTEM
from msh.protocol import effects as do
from msh.protocol import sender
from msh.protocol.events import SenderEvent
from msh.protocol.lane import OPERATOR, Lane, LaneState
from msh.protocol.reason import Reason
from msh.store import history
from msh.store.clock import read_clock
from msh.store.engine import Call, run, run_all
from msh.store.history import ITSELF, Actor

from . import fast_path, link_sql, message_sql
from .link_effects import LinkWriter, Locked, Suspension
from .link_sql import LinkRow
from .message_sql import SentMessage
from .unit import BEFORE_ALL, UnitOfWork


@dataclass(slots=True)
class OutboundLinks(UnitOfWork):
    """Links locked in this transaction, by partner id."""

    _locked: dict[int, Locked] = field(default_factory=dict)
    forwards: bool = False
    """There is something to be forwarded."""

    @classmethod
    def none(cls) -> Self:
        return cls(read_clock())

    @classmethod
    def lock(cls, partner_ids: Iterable[int]) -> Self:
        """Lock these partners' links, in the order of their ids, waiting at most lock_timeout."""
        ids = list(partner_ids)
        _, rows = run(link_sql.LOCK(partner_ids=ids), link_sql.LOAD(partner_ids=ids))
        return cls.of(rows)

    @classmethod
    def load(cls, partner_ids: Iterable[int], now: datetime) -> Self:
        ids = list(partner_ids)
        (rows,) = run(link_sql.LOAD(partner_ids=ids)) if ids else ([],)
        links = cls.of(rows)
        links.now = max(links.now, now)
        return links

    @classmethod
    def lock_with_sent(cls, partner_id: int, message_id: str) -> tuple[Self, SentMessage | None]:
        _, rows, sent = run(
            link_sql.LOCK(partner_ids=[partner_id]),
            link_sql.LOAD(partner_ids=[partner_id]),
            message_sql.FIND_SENT(partner_id=partner_id, message_id=message_id),
        )
        links = cls.of(rows)
        if sent and partner_id in links:
            locked, message = links.locked(partner_id), sent[0]
            locked.keys[message.message_id] = message.id
            if message.forwards_id:
                locked.forwards[message.message_id] = message.forwards_id
        return links, sent[0] if sent else None

    @classmethod
    def of(cls, rows: Iterable[LinkRow]) -> Self:
        locked = {row.partner_id: Locked.of(row) for row in rows}
        now = max((one.row.now for one in locked.values()), default=BEFORE_ALL)
        return cls(now, _locked=locked)

    def __contains__(self, partner_id: object) -> bool:
        return partner_id in self._locked

    def __iter__(self) -> Iterator[int]:
        return iter(tuple(self._locked))

    def locked(self, partner_id: int) -> Locked:
        """Raises OutboundLink.DoesNotExist, as all that is asked of a link that is not there."""
        locked = self._locked.get(partner_id)
        if locked is None:  # its partner was deleted after somebody had read the link
            raise OutboundLink.DoesNotExist(f"Partner {partner_id} has no link any more.")
        return locked

    def lane(self, partner_id: int) -> Lane:
        """Return the lane; raises as `locked`."""
        return self.locked(partner_id).lane

    def step(self, partner_id: int, event: SenderEvent, actor: Actor = ITSELF) -> Lane:
        """Let `event` happen. Raises IllegalTransition with nothing changed."""
        locked = self.locked(partner_id)
        before = locked.lane
        after, effects = sender.step(before, event, now=self.now)
        locked.lane = after
        locked.changed = locked.changed or after != before
        name = type(event).__name__
        # A link's history is its troubles; idle and waiting alternate with every message's own.
        is_ordinary = {before.state, after.state} <= {LaneState.IDLE, LaneState.WAITING}
        if (before.state is not after.state and not is_ordinary) or actor.name != SYSTEM:
            states = (before.state, after.state)
            self.record(partner_id, "", name, states, _changed_numbers(before, after), actor)
        self._note_suspension(locked, before, after, effects, actor)
        writer = LinkWriter(
            self, partner_id, locked.keys, name, actor, locked=locked, begin_next=self.start_next
        )
        writer.write(effects)
        return after

    def start_next(self, partner_id: int) -> None:
        locked = self.locked(partner_id)
        if locked.head is None:
            return
        head_id, polled = locked.head
        if polled.message_id is not None:
            locked.keys[polled.message_id] = head_id
        self.step(partner_id, polled)
        locked.head = None

    def touch(self, partner_id: int) -> None:
        """Write the link although it is the same: who has read its queue has to read it again."""
        self.locked(partner_id).changed = True

    def store_head(
        self, key: int, head: bytes, body_sha256: bytes, sealed: Sequence[bytes] | None = None
    ) -> None:
        """Store the head of a message, composed once (D36), and its parts if they are encrypted."""
        self.add(message_sql.STORE_HEAD(key=key, head=head, body_sha256=body_sha256, at=self.now))
        if sealed:
            self.add(message_sql.SEAL(key=key, parts=sealed))

    def leave_out_notes(self) -> None:
        """Write nothing to the history that only says what came. What was asked for besides, such
        as an incident, is written."""
        self._calls = [call for call in self._calls if call.statement is not history.COUNT]

    def write(self, *, last: bool = False) -> None:
        calls = self.calls()
        self._calls.clear()
        run_all(fast_path.merge(calls), last=last)

    @property
    def has_writes(self) -> bool:
        return bool(self._calls) or any(locked.changed for locked in self._locked.values())

    def _states(self) -> Iterable[Call[object]]:
        changed = (locked for locked in self._locked.values() if locked.changed)
        return [link_sql.WRITE.of(locked.state()) for locked in changed]

    def _note_suspension(
        self,
        locked: Locked,
        before: Lane,
        after: Lane,
        effects: Sequence[do.SenderEffect],
        actor: Actor,
    ) -> None:
        if after.state is not LaneState.SUSPENDED:
            locked.suspended = Suspension(None, "", "", Reason.NONE)
        elif before.state is not LaneState.SUSPENDED:
            incidents = [e for e in effects if isinstance(e, do.OpenIncident)]
            kind = incidents[0].kind if incidents else OPERATOR
            detail = incidents[0].detail if incidents else f"{actor.name}: {actor.reason}"
            reason = incidents[0].reason if incidents else Reason.NONE
            locked.suspended = Suspension(self.now, kind, detail, reason)


def _changed_numbers(before: Lane, after: Lane) -> str:
    numbers = [
        ("next number", before.next_number, after.next_number),
        ("epoch", before.epoch, after.epoch),
    ]
    was, now = before.in_flight, after.in_flight
    if was and now and was.message_id == now.message_id:
        numbers.append(("retries spent", was.retries_spent, now.retries_spent))
    return ", ".join(f"{name} {old} → {new}" for name, old, new in numbers if old != new)
