"""A locked link, and what each effect of the Sender's table writes of it, beyond what all messages
have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, NamedTuple, Self

from msh.models.link import lane_of, terms_of
from msh.protocol import effects as do
from msh.protocol.events import LanePolled, Numbered
from msh.protocol.kinds import Verdict
from msh.protocol.lane import Lane
from msh.store import incidents

from . import link_sql, message_sql, upstream
from .effects import COMMON, Method, Writer, text_of
from .link_sql import LinkRow


class Suspension(NamedTuple):
    """A suspension of a link: since when, for what, and why in words and as a Reason."""

    since: datetime | None
    kind: str
    detail: str
    reason: str


@dataclass(slots=True)
class Locked:
    """A locked link while this transaction steps it."""

    row: LinkRow
    """As it was read."""
    lane: Lane
    head: tuple[int, LanePolled] | None
    """Row id and event of the head of the queue."""
    keys: dict[str, int]
    """MessageId → row id, of every message that the steps may name."""
    forwards: dict[str, int]
    """MessageId → row id of the inbound message that is forwarded as this one."""
    suspended: Suspension
    changed: bool = False

    @classmethod
    def of(cls, row: LinkRow) -> Self:
        lane = lane_of(row, row if row.in_flight_id else None)
        keys, forwards, head = {}, {}, None
        if row.in_flight_id and row.message_id:
            keys[row.message_id] = row.in_flight_id
            if row.forwards_id:
                forwards[row.message_id] = row.forwards_id
        if row.head_id:
            number, epoch = row.head_sequence_number, row.head_epoch
            # One that has a number is rewound and keeps it.
            again = None if number is None or epoch is None else Numbered(number, epoch)
            earlier = row.head_earlier_attempts or 0
            head = row.head_id, LanePolled(row.head_message_id, terms_of(row), again, earlier)
        why = (row.suspended_for, row.suspended_detail, row.suspended_reason)
        return cls(row, lane, head, keys, forwards, Suspension(row.suspended_since, *why))

    def state(self) -> link_sql.LinkState:
        """What is written of it."""
        lane, flying, suspended = self.lane, self.lane.in_flight, self.suspended
        return link_sql.LinkState(
            link_id=self.row.id,
            state=lane.state,
            next_number=lane.next_number,
            epoch=lane.epoch,
            in_flight_id=self.keys[flying.message_id] if flying else None,
            due=lane.due,
            unsent=lane.unsent,
            promised=lane.promised,
            attempt=flying.attempt if flying else 0,
            retries_spent=flying.retries_spent if flying else 0,
            transients=flying.transients if flying else 0,
            transient_since=flying.transient_since if flying else None,
            late_ack=lane.late_ack,
            suspended_since=suspended.since,
            suspended_for=suspended.kind,
            suspended_detail=suspended.detail,
            suspended_reason=suspended.reason,
        )


@dataclass(slots=True)
class LinkWriter(Writer):
    METHODS: ClassVar[Mapping[type, Method]]

    locked: Locked = field(kw_only=True)
    begin_next: Callable[[int], None] = field(kw_only=True)
    """Puts the first message of a partner's queue in flight."""

    def put_in_flight(self, effect: do.PutInFlight) -> None:
        self.unit.add(
            message_sql.PUT_IN_FLIGHT(
                key=self.keys[effect.message_id],
                sequence_number=effect.sequence_number,
                epoch=effect.epoch,
                terms=text_of(effect.terms),
            )
        )
        about = (self.partner_id, effect.message_id, "PutInFlight", ("queued", "in_flight"))
        self.unit.record(*about, f"number {effect.sequence_number}")

    def complete(self, effect: do.Complete) -> None:
        message_id, now = effect.message_id, self.unit.now
        key = self.keys[message_id]
        self.unit.add(message_sql.COMPLETE(key=key, state="acknowledged", at=now))
        self.record(message_id, ("in_flight", "acknowledged"))
        self._acknowledge_upstream(message_id)

    def cancel(self, effect: do.Cancel) -> None:
        message_id, verdict = effect.message_id, effect.verdict
        self.unit.add(
            message_sql.CANCEL(
                key=self.keys[message_id],
                at=self.unit.now,
                outcome=verdict,
                free_number=effect.free_number,
            )
        )
        about = (self.partner_id, message_id, "MessageCancelled", ("in_flight", "cancelled"))
        self.unit.record(*about, f"outcome {verdict}", self.actor)
        if verdict is Verdict.RECEIVED:
            self._acknowledge_upstream(message_id)
        else:
            why = f"cancelled by the operator of the router, outcome {verdict}"
            self._fail_upstream(message_id, why)

    def requeue(self, effect: do.Requeue) -> None:
        self.unit.add(message_sql.REQUEUE(key=self.keys[effect.message_id]))
        about = (self.partner_id, effect.message_id, self.event, ("in_flight", "queued"))
        self.unit.record(*about, actor=self.actor)

    def rewind(self, effect: do.Rewind) -> None:
        self.unit.add(
            message_sql.REWIND(
                link_id=self.locked.row.id,
                epoch=effect.last.epoch,
                sequence_number=effect.last.sequence_number,
                at=self.unit.now,
                actor=self.actor.name,
                partner_id=self.partner_id,
                reason=self.actor.reason,
            )
        )

    def record_late_verdict(self, effect: do.RecordLateVerdict) -> None:
        Writer.record_late_verdict(self, effect)
        self._acknowledge_upstream(effect.message_id)

    def explain_suspension(self, effect: do.ExplainSuspension) -> None:
        detail, reason = effect.detail, effect.reason
        self.locked.suspended = self.locked.suspended._replace(detail=detail, reason=reason)
        self.locked.changed = True
        about = {"partner_id": self.partner_id, "message_id": effect.message_id}
        self.unit.add(incidents.EXPLAIN(text=effect.detail, reason=effect.reason, **about))

    def open_incident(self, effect: do.OpenIncident) -> None:
        Writer.open_incident(self, effect)
        self.record(effect.message_id, detail=effect.detail, code=effect.kind, counts=True)
        if effect.kind in upstream.REFUSED_BY_NEXT_HOP:
            self._fail_upstream(effect.message_id, f"refused: {effect.detail}")

    def resolve_incidents(self, effect: do.ResolveIncidents) -> None:
        self.unit.add(
            incidents.RESOLVE_OUTBOUND(
                partner_id=self.partner_id,
                at=self.unit.now,
                actor=self.actor.name,
                resolution=self.actor.reason,
            )
        )

    def notify_from_party(self, effect: do.NotifyFromParty) -> None:
        if effect.message_id not in self.locked.forwards:  # else it is no application of ours
            Writer.notify_from_party(self, effect)

    def start_next(self, effect: do.PollLane) -> None:
        self.begin_next(self.partner_id)

    def _acknowledge_upstream(self, message_id: str) -> None:
        if forwarded := self.locked.forwards.get(message_id):
            self.unit.add(upstream.QUEUE_WITHHELD_ACK(key=forwarded, at=self.unit.now))
            self.unit.has_signals = True

    def _fail_upstream(self, message_id: str, why: str) -> None:
        if forwarded := self.locked.forwards.get(message_id):
            self.unit.add(upstream.queue_delivery_failure(forwarded, self.unit.now, why))
            self.unit.has_signals = True


LinkWriter.METHODS = {
    **COMMON,
    do.PutInFlight: LinkWriter.put_in_flight,
    do.Complete: LinkWriter.complete,
    do.Cancel: LinkWriter.cancel,
    do.Requeue: LinkWriter.requeue,
    do.Rewind: LinkWriter.rewind,
    do.RecordLateVerdict: LinkWriter.record_late_verdict,
    do.OpenIncident: LinkWriter.open_incident,
    do.ResolveIncidents: LinkWriter.resolve_incidents,
    do.ExplainSuspension: LinkWriter.explain_suspension,
    do.NotifyFromParty: LinkWriter.notify_from_party,
    do.PollLane: LinkWriter.start_next,
}
