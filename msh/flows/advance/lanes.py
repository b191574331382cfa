"""The Sender's lanes: lock them, step them, write what the steps ask for, in one transaction.

It holds the new state, its history and every effect that must not be lost: incident, event to the
From-Party, due time. Only nudges follow the commit.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from django.conf import settings

from msh.flows.nudge import Nudge
from msh.models import hot
from msh.models.link import LaneRow
from msh.protocol import effects as do
from msh.protocol import sender
from msh.protocol.attempt import AttemptResult
from msh.protocol.events import SenderEvent
from msh.protocol.lane import OPERATOR, Lane, LaneState
from partners.models import Partner

from .actor import ITSELF, SYSTEM, Actor
from .lane_effects import EFFECTS, ORDER, Locked

_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)

FEW = 6
"""Rows of one write that are cheaper one by one: most often they are one statement."""


@dataclass(slots=True)
class Lanes:
    """Lanes locked in this transaction, by partner id. `write` ends it."""

    now: datetime
    _locked: dict[int, Locked] = field(default_factory=dict)
    _writes: defaultdict[str, list[Sequence[Any]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    transmits: bool = False
    notifies: bool = False
    forwards: bool = False

    @classmethod
    def lock(cls, partner_ids: Iterable[int]) -> Self:
        """Lock these partners' lanes, in the order of their ids, waiting at most lock_timeout."""
        ids = list(partner_ids)
        if not ids:
            return cls.load((), hot.run((hot.CLOCK, ()))[0][0].now)
        _, rows = hot.run((hot.LOCK_LANES, (ids,)), (hot.LOAD_LANES, (ids,)))
        return cls._of(rows)

    @classmethod
    def load(cls, partner_ids: Iterable[int], now: datetime) -> Self:
        """The lanes of these partners, which are locked already."""
        ids = list(partner_ids)
        lanes = cls._of(hot.run((hot.LOAD_LANES, (ids,)))[0] if ids else [])
        lanes.now = max(lanes.now, now)
        return lanes

    @classmethod
    def lock_with_sent(cls, partner_id: int, message_id: str) -> tuple[Self, Any | None]:
        """Lock one lane; also the row (id, message_id, state) of a message of it, if known."""
        _, rows, sent = hot.run(
            (hot.LOCK_LANES, ([partner_id],)),
            (hot.LOAD_LANES, ([partner_id],)),
            (hot.FIND_SENT_MESSAGE, (partner_id, message_id)),
        )
        lanes = cls._of(rows)
        if sent and partner_id in lanes:
            lanes._knows(partner_id, sent[0])  # noqa: SLF001  its own
        return lanes, sent[0] if sent else None

    @classmethod
    def read_with_sent(cls, partner: Partner, message_id: str) -> tuple[Self, str | None]:
        """One lane, not locked, for `write_if_unchanged`; also the state of a message of it.

        Without the lane if `partner` is not as it is remembered any more.
        """
        (rows,) = hot.run((hot.READ_LANE, (partner.credential_id, message_id, partner.pk)))
        lanes = cls._of(row for row in rows if row.as_read == partner.as_read)
        return lanes, rows[0].sent_state if rows else None

    @classmethod
    def _of(cls, rows: Iterable[Any]) -> Self:
        locked = [LaneRow.of(row) for row in rows]
        now = max((row.now for row in locked), default=_BEFORE_ALL)
        return cls(now, {row.partner_id: _begin(row) for row in locked})

    def _knows(self, partner_id: int, message: Any) -> None:
        locked = self._locked[partner_id]
        locked.keys[message.message_id] = message.id
        if message.relays_id:
            locked.relays[message.message_id] = message.relays_id

    def __contains__(self, partner_id: int) -> bool:
        return partner_id in self._locked

    def __iter__(self) -> Any:
        return iter(tuple(self._locked))

    def lane(self, partner_id: int) -> Lane:
        return self._locked[partner_id].lane

    def in_flight_id(self, partner_id: int) -> int:
        """The row id of the message in flight."""
        locked = self._locked[partner_id]
        return locked.keys[locked.lane.flying.message_id]

    def suspended(self, partner_id: int) -> tuple[datetime | None, str, str]:
        """Since when, for what and why the lane was suspended when it was read."""
        return self._locked[partner_id].row.suspended

    def size(self, partner_id: int) -> int:
        """Bytes of payload of the message in flight, if it is the one that was read."""
        return self._locked[partner_id].row.size

    def step(self, partner_id: int, event: SenderEvent, actor: Actor = ITSELF) -> Lane:
        """Let `event` happen. Raises IllegalTransition with nothing changed."""
        locked = self._locked[partner_id]
        before = locked.lane
        after, effects = sender.step(before, event, now=self.now)
        locked.lane = after
        locked.changed = locked.changed or after != before
        if _is_worth_telling(before, after) or actor.name != SYSTEM:
            name = type(event).__name__
            states = (before.state, after.state)
            self.record(partner_id, "", name, *states, _numbers_told(before, after), actor)
        self._suspension(locked, before, after, effects, actor)
        for effect in effects:
            EFFECTS[type(effect)](self, locked, effect, event, actor)
        return after

    def look(self, partner_id: int) -> None:
        """Put the head of an idle lane's queue in flight."""
        locked = self._locked[partner_id]
        if locked.head is None:
            return
        head_id, looked = locked.head
        if looked.message_id is not None:
            locked.keys[looked.message_id] = head_id
        self.step(partner_id, looked)
        locked.head = None

    def touch(self, partner_id: int) -> None:
        """Write the lane although it is the same: who has read its queue has to read it anew."""
        self._locked[partner_id].changed = True

    def record(
        self,
        partner_id: int,
        message_id: str,
        event: str,
        from_state: str = "",
        to_state: str = "",
        detail: str = "",
        actor: Actor = ITSELF,
        *,
        counts: bool = False,
    ) -> None:
        """One history row: of the message if one is named, else of the link. With `counts` a
        repetition within a minute is none of its own."""
        subject = "message" if message_id else "link"
        text = "; ".join(part for part in (detail, actor.reason) if part)
        row = (self.now, actor.name, partner_id, "out", subject)
        statement = hot.COUNT_HISTORY if counts else hot.WRITE_HISTORY
        self.add(statement, (*row, message_id, event, from_state, to_state, text))

    def attempt_claimed(self, key: int, attempt: int) -> None:
        """This attempt of the message with row id `key` begins."""
        self.add(hot.CLAIM_ATTEMPT, (key, attempt, self.now))

    def attempt_ended(self, key: int, attempt: int, result: AttemptResult) -> None:
        """It ended like this: written whatever the lane makes of it."""
        self.add(hot.END_ATTEMPT, attempt_end(key, attempt, result, self.now))

    def best_effort_claimed(self, key: int, until: datetime) -> None:
        """The one attempt of a BestEffort message begins; after `until` its worker is lost."""
        self.add(hot.LEASE_BEST_EFFORT, (until, key))
        self.attempt_claimed(key, 1)

    def composed(self, key: int, head: bytes, body_sha256: bytes) -> None:
        """The head of a message, composed once (D36)."""
        self.add(hot.COMPOSE_MESSAGE, (head, body_sha256, self.now, key))

    def add(self, statement: str, parameters: Sequence[Any]) -> None:
        """Write this too, in the same round trip."""
        self._writes[statement].append(parameters)

    def add_all(self, statements: Iterable[hot.Statement]) -> None:
        for statement, parameters in statements:
            self.add(statement, parameters)

    def nudges(self) -> list[Nudge]:
        """What is to be looked at after the commit."""
        told = self.notifies and bool(settings.MSH_FROM_PARTY_HANDLER)  # else nobody is told
        wanted = {Nudge.CARRY: self.transmits, Nudge.FORWARD: self.forwards, Nudge.NOTIFY: told}
        return [kind for kind, wants in wanted.items() if wants]

    def write(self) -> None:
        """Write everything in one round trip."""
        for locked in self._locked.values():
            if locked.changed:
                self.add(hot.WRITE_LANE, _lane_parameters(locked))
        ordered = sorted(self._writes, key=ORDER.index)
        rows = [(statement, row) for statement in ordered for row in self._writes[statement]]
        if len(rows) <= FEW:
            hot.run(*rows)
        else:
            with hot.pipeline() as cursor:
                for statement in ordered:
                    cursor.executemany(statement, self._writes[statement])
        self._writes.clear()

    def write_if_unchanged(self, partner_id: int) -> bool:
        """Write in one statement, its own transaction, if the lane is still as it was read.

        False, with nothing written, if it is not, or if more than what is usual is to be written.
        """
        locked = self._locked[partner_id]
        steps = sorted(self._writes, key=ORDER.index)
        statement = hot.IF_UNCHANGED.get(tuple(step for step in steps for _ in self._writes[step]))
        if statement is None:
            return False
        guard = (*_lane_parameters(locked), locked.row.version)
        values = (value for step in steps for row in self._writes[step] for value in row)
        (done,) = hot.run((statement, (*guard, *values)))
        return bool(done)

    def _suspension(
        self,
        locked: Locked,
        before: Lane,
        after: Lane,
        effects: tuple[do.SenderEffect, ...],
        actor: Actor,
    ) -> None:
        if after.state is not LaneState.SUSPENDED:
            locked.suspended = (None, "", "")
        elif before.state is not LaneState.SUSPENDED:
            incidents = [e for e in effects if isinstance(e, do.OpenIncident)]
            kind = incidents[0].kind if incidents else OPERATOR
            detail = incidents[0].detail if incidents else f"{actor.name}: {actor.reason}"
            locked.suspended = (self.now, kind, detail)


def _is_worth_telling(before: Lane, after: Lane) -> bool:
    """A link's history is its troubles; idle and waiting alternate with every message's own."""
    ordinary = (LaneState.IDLE, LaneState.WAITING)
    return before.state is not after.state and not (
        before.state in ordinary and after.state in ordinary
    )


def _numbers_told(before: Lane, after: Lane) -> str:
    """Which numbers of a lane are others now, from what to what."""
    numbers = [
        ("next number", before.next_number, after.next_number),
        ("epoch", before.epoch, after.epoch),
    ]
    was, now = before.in_flight, after.in_flight
    if was and now and was.message_id == now.message_id:
        numbers.append(("retries spent", was.retries_spent, now.retries_spent))
    return ", ".join(f"{name} {old} → {new}" for name, old, new in numbers if old != new)


def _begin(row: LaneRow) -> Locked:
    flying = row.lane.in_flight
    keys = {flying.message_id: row.in_flight_id} if flying else {}
    relays = {flying.message_id: row.in_flight_relays} if flying and row.in_flight_relays else {}
    return Locked(row, row.lane, row.head, keys, relays, suspended=row.suspended)


def attempt_end(key: int, number: int, result: AttemptResult, now: datetime) -> Sequence[Any]:
    """Parameters of `hot.END_ATTEMPT`."""
    what = (result.outcome, result.status, result.detail, result.body_sent)
    return (now, *what, key, number)


def _lane_parameters(locked: Locked) -> Sequence[Any]:
    lane, flying = locked.lane, locked.lane.in_flight
    in_flight_id = locked.keys[flying.message_id] if flying else None
    counters = (
        (flying.attempt, flying.retries_spent, flying.transients, flying.transient_since)
        if flying
        else (0, 0, 0, None)
    )
    return (
        *(lane.state, lane.next_number, lane.epoch, in_flight_id, lane.due, lane.unsent),
        *(*counters, lane.late_ack, *locked.suspended, locked.row.id),
    )
