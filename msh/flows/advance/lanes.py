"""The Sender's lanes: lock them, step them, write what the steps ask for, in one transaction.

It holds the new state, its history and every effect that must not be lost: incident, event to the
From-Party, due time. Only nudges follow the commit.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from django.conf import settings

from msh.flows.nudge import Nudge
from msh.models import hot
from msh.models.link import LaneRow
from msh.protocol import effects as do
from msh.protocol import sender
from msh.protocol.attempt import AttemptResult
from msh.protocol.events import LaneLooked, SenderEvent, Verdict
from msh.protocol.lane import OPERATOR, Lane, LaneState
from partners.models import Partner

from . import relay

_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)

FEW = 6
"""Rows of one write that are cheaper one by one: most often they are one statement."""
SYSTEM = "msh"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it, and why: for the history."""

    name: str = SYSTEM
    reason: str = ""


@dataclass(slots=True)
class _Locked:
    """A locked lane while this transaction steps it."""

    row: LaneRow
    lane: Lane
    head: tuple[int, LaneLooked] | None
    keys: dict[str, int]
    """MessageId → row id, of every message that the steps may name."""
    relays: dict[str, int] = field(default_factory=dict)
    """MessageId → row id of the inbound message that is sent on as this one."""
    changed: bool = False
    suspended: tuple[datetime | None, str, str] = (None, "", "")


@dataclass(slots=True)
class Lanes:
    """Lanes locked in this transaction, by partner id. `write` ends it."""

    now: datetime
    _locked: dict[int, _Locked] = field(default_factory=dict)
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

    def step(self, partner_id: int, event: SenderEvent, actor: Actor = Actor()) -> Lane:
        """Let `event` happen. Raises IllegalTransition with nothing changed."""
        locked = self._locked[partner_id]
        before = locked.lane
        after, effects = sender.step(before, event, now=self.now)
        locked.lane = after
        locked.changed = locked.changed or after != before
        if _is_worth_telling(before, after) or actor.name != SYSTEM:
            name = type(event).__name__
            self.record(partner_id, "", name, before.state, after.state, actor=actor)
        self._suspension(locked, before, after, effects, actor)
        for effect in effects:
            _APPLY[type(effect)](self, locked, effect, event, actor)
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
        actor: Actor = Actor(),
    ) -> None:
        """One history row: of the message if one is named, else of the link."""
        subject = "message" if message_id else "link"
        text = "; ".join(part for part in (detail, actor.reason) if part)
        row = (self.now, actor.name, partner_id, "out", subject)
        self.add(hot.WRITE_HISTORY, (*row, message_id, event, from_state, to_state, text))

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
        ordered = sorted(self._writes, key=_ORDER.index)
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
        steps = sorted(self._writes, key=_ORDER.index)
        statement = hot.IF_UNCHANGED.get(tuple(step for step in steps for _ in self._writes[step]))
        if statement is None:
            return False
        guard = (*_lane_parameters(locked), locked.row.version)
        values = (value for step in steps for row in self._writes[step] for value in row)
        (done,) = hot.run((statement, (*guard, *values)))
        return bool(done)

    def _suspension(
        self,
        locked: _Locked,
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
            detail = incidents[0].detail if incidents else actor.reason
            locked.suspended = (self.now, kind, detail)


def _is_worth_telling(before: Lane, after: Lane) -> bool:
    """A link's history is its troubles; idle and waiting alternate with every message's own."""
    ordinary = (LaneState.IDLE, LaneState.WAITING)
    return before.state is not after.state and not (
        before.state in ordinary and after.state in ordinary
    )


def _begin(row: LaneRow) -> _Locked:
    flying = row.lane.in_flight
    keys = {flying.message_id: row.in_flight_id} if flying else {}
    relays = {flying.message_id: row.in_flight_relays} if flying and row.in_flight_relays else {}
    return _Locked(row, row.lane, row.head, keys, relays, suspended=row.suspended)


def attempt_end(key: int, number: int, result: AttemptResult, now: datetime) -> Sequence[Any]:
    """Parameters of `hot.END_ATTEMPT`."""
    what = (result.outcome, result.status, result.detail, result.body_sent)
    return (now, *what, key, number)


def _lane_parameters(locked: _Locked) -> Sequence[Any]:
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


def _put_in_flight(
    lanes: Lanes, locked: _Locked, effect: do.PutInFlight, event: SenderEvent, actor: Actor
) -> None:
    terms = json.dumps(asdict(effect.terms))
    key = locked.keys[effect.message_id]
    lanes.add(hot.PUT_IN_FLIGHT, (effect.sequence_number, effect.epoch, terms, key))
    lanes.record(
        locked.row.partner_id,
        effect.message_id,
        "PutInFlight",
        "queued",
        "in_flight",
        f"number {effect.sequence_number}",
    )


def _transmit(lanes: Lanes, locked: _Locked, effect: Any, event: SenderEvent, actor: Actor) -> None:
    lanes.transmits = True


def _complete(
    lanes: Lanes, locked: _Locked, effect: do.Complete, event: SenderEvent, actor: Actor
) -> None:
    message_id = effect.message_id
    lanes.add(hot.COMPLETE_MESSAGE, ("acknowledged", lanes.now, locked.keys[message_id]))
    name = type(event).__name__
    lanes.record(locked.row.partner_id, message_id, name, "in_flight", "acknowledged")
    _tell_origin(lanes, locked, message_id, relay.OWE_WITHHELD_ACK)


def _tell_origin(
    lanes: Lanes, locked: _Locked, message_id: str, statement: str, *detail: str
) -> None:
    """Owe the MSH that a message came from what it waits for, if it does (D20)."""
    if message_id in locked.relays:
        lanes.add(statement, (locked.relays[message_id], lanes.now, *detail))
        lanes.transmits = True


def _cancel(
    lanes: Lanes, locked: _Locked, effect: do.Cancel, event: SenderEvent, actor: Actor
) -> None:
    key = locked.keys[effect.message_id]
    lanes.add(hot.CANCEL_MESSAGE, (lanes.now, effect.verdict, effect.free_number, key))
    partner_id = locked.row.partner_id
    lanes.record(
        partner_id,
        effect.message_id,
        "MessageCancelled",
        "in_flight",
        "cancelled",
        f"outcome {effect.verdict}",
        actor,
    )
    if effect.verdict is not Verdict.RECEIVED:
        text = f"cancelled by the operator of the router, outcome {effect.verdict}"
        _tell_origin(lanes, locked, effect.message_id, relay.OWE_DELIVERY_FAILURE, text)
    else:
        _tell_origin(lanes, locked, effect.message_id, relay.OWE_WITHHELD_ACK)


def _requeue(
    lanes: Lanes, locked: _Locked, effect: do.Requeue, event: SenderEvent, actor: Actor
) -> None:
    key, partner_id = locked.keys[effect.message_id], locked.row.partner_id
    lanes.add(hot.REQUEUE_MESSAGE, (key,))
    name = type(event).__name__
    lanes.record(partner_id, effect.message_id, name, "in_flight", "queued", actor=actor)


def _rewind(
    lanes: Lanes, locked: _Locked, effect: do.Rewind, event: SenderEvent, actor: Actor
) -> None:
    after = (locked.row.id, effect.last.epoch, effect.last.sequence_number)
    who = (lanes.now, actor.name, locked.row.partner_id, actor.reason)
    lanes.add(hot.REWIND_MESSAGES, (*after, *who))


def _late_verdict(
    lanes: Lanes, locked: _Locked, effect: do.RecordLateVerdict, event: SenderEvent, actor: Actor
) -> None:
    partner_id, message_id = locked.row.partner_id, effect.message_id
    lanes.add(hot.RECORD_LATE_VERDICT, (locked.keys[message_id],))
    text = "acknowledged after it was cancelled: received"
    lanes.add(hot.NOTE_ON_INCIDENTS, (f"; {text}", partner_id, message_id))
    lanes.record(partner_id, message_id, type(event).__name__, "cancelled", detail=text)
    _tell_origin(lanes, locked, effect.message_id, relay.OWE_WITHHELD_ACK)


def _open_incident(
    lanes: Lanes, locked: _Locked, effect: do.OpenIncident, event: SenderEvent, actor: Actor
) -> None:
    partner_id = locked.row.partner_id
    what = (partner_id, "out", effect.kind, effect.message_id, effect.detail)
    lanes.add(hot.OPEN_INCIDENT, (*what, lanes.now, lanes.now))
    name = type(event).__name__
    lanes.record(partner_id, effect.message_id, name, detail=f"{effect.kind}: {effect.detail}")
    if effect.kind in relay.REFUSED_ONWARD:
        _tell_origin(
            lanes,
            locked,
            effect.message_id,
            relay.OWE_DELIVERY_FAILURE,
            f"refused: {effect.detail}",
        )


def _resolve(
    lanes: Lanes, locked: _Locked, effect: do.ResolveIncidents, event: SenderEvent, actor: Actor
) -> None:
    who = (lanes.now, actor.name, actor.reason, locked.row.partner_id)
    lanes.add(hot.RESOLVE_INCIDENTS, who)


def _notify(
    lanes: Lanes, locked: _Locked, effect: do.NotifyFromParty, event: SenderEvent, actor: Actor
) -> None:
    if effect.message_id in locked.relays:
        return  # its From-Party is no application of ours
    lanes.notifies = True
    key = locked.keys[effect.message_id]
    lanes.add(hot.NOTIFY_FROM_PARTY, (key, effect.kind, effect.detail, lanes.now, lanes.now))


def _note(lanes: Lanes, locked: _Locked, effect: do.Note, event: SenderEvent, actor: Actor) -> None:
    name = type(event).__name__
    lanes.record(locked.row.partner_id, effect.message_id, name, detail=effect.detail)


def _count_duplicate_ack(
    lanes: Lanes, locked: _Locked, effect: do.CountDuplicateAck, event: SenderEvent, actor: Actor
) -> None:
    if effect.message_id in locked.keys:
        lanes.add(hot.COUNT_DUPLICATE_ACK, (locked.keys[effect.message_id],))


def _look(lanes: Lanes, locked: _Locked, effect: Any, event: SenderEvent, actor: Actor) -> None:
    lanes.look(locked.row.partner_id)


_APPLY: dict[type, Callable[[Lanes, _Locked, Any, SenderEvent, Actor], None]] = {
    do.PutInFlight: _put_in_flight,
    do.Transmit: _transmit,
    do.Complete: _complete,
    do.Cancel: _cancel,
    do.Requeue: _requeue,
    do.Rewind: _rewind,
    do.RecordLateVerdict: _late_verdict,
    do.OpenIncident: _open_incident,
    do.ResolveIncidents: _resolve,
    do.NotifyFromParty: _notify,
    do.Note: _note,
    do.CountDuplicateAck: _count_duplicate_ack,
    do.LookAtLane: _look,
}

# A message must have its number before the lane may point at it, and messages come before events.
_ORDER = [
    hot.LEASE_BEST_EFFORT,
    hot.COMPLETE_MESSAGE,
    hot.CANCEL_MESSAGE,
    hot.RECORD_LATE_VERDICT,
    hot.NOTE_ON_INCIDENTS,
    hot.COUNT_DUPLICATE_ACK,
    hot.PUT_IN_FLIGHT,
    hot.COMPOSE_MESSAGE,
    hot.WRITE_LANE,
    hot.REQUEUE_MESSAGE,
    hot.REWIND_MESSAGES,
    hot.CLAIM_ATTEMPT,
    hot.END_ATTEMPT,
    hot.OPEN_INCIDENT,
    hot.RESOLVE_INCIDENTS,
    hot.NOTIFY_FROM_PARTY,
    hot.CLAIM_SIGNAL,
    hot.SIGNAL_CARRIED,
    hot.SIGNAL_FAILED,
    hot.SIGNAL_REFUSED,
    relay.OWE_WITHHELD_ACK,
    relay.OWE_DELIVERY_FAILURE,
    hot.WRITE_HISTORY,
]
