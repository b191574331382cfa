"""Deliveries: locked, stepped and written, with the state of their message."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from msh.models import Consumer, Delivery, InboundState
from msh.models.delivery import OPEN_TO_OPERATORS
from msh.protocol import delivery as table
from msh.protocol.delivery import events as do
from msh.protocol.delivery.events import AttemptFailed, AttemptRejected, DeliveryEvent
from msh.protocol.effects import Note, OpenIncident
from msh.protocol.kinds import DeliveryState, IncidentKind
from msh.store import history, incidents
from msh.store.engine import Call, gather, in_order, run, run_all
from msh.store.history import ITSELF, Actor, HistoryRow

from . import delivery_sql
from .delivery_sql import DeliveryRow, LockedDelivery, Subject

# An incident, and the states of deliveries that keep it open.
_CAUSES = {
    IncidentKind.DELIVERY_IN_DOUBT: (DeliveryState.IN_DOUBT,),
    IncidentKind.DELIVERY_FAILED: (DeliveryState.BLOCKED, DeliveryState.PARKED),
}
# One step writes what it opens first and what it ends after it, in this order.
_ORDER = [
    IncidentKind.DELIVERY_REJECTED,
    IncidentKind.DELIVERY_FAILED,
    IncidentKind.DELIVERY_IN_DOUBT,
]


@dataclass(slots=True)
class HeldDelivery:
    """A delivery that this transaction holds. `key` is its row id, 0 while it has no row."""

    key: int
    consumer: Consumer
    message_key: int
    message_id: str
    partner_id: int
    value: do.Delivery
    now: datetime
    started_at: datetime | None = None
    external_id: str = ""
    detail: str = ""
    rejected_at: datetime | None = None
    best_effort: bool = False
    is_replay: bool = False
    gathered: list[Call[object]] | None = None
    """What `write_together` writes. None: each step writes at once."""

    @classmethod
    def of_new(cls, row: Subject, consumer: Consumer) -> Self:
        return cls(
            key=0,
            consumer=consumer,
            message_key=row.message_key,
            message_id=row.message_id,
            partner_id=row.partner_id,
            value=do.Delivery(),
            now=row.now,
            best_effort=row.semantics == "BestEffort",
        )

    @classmethod
    def of_row(cls, row: LockedDelivery, consumer: Consumer) -> Self:
        made = cls.of_new(row, consumer)
        made.key = row.id
        made.started_at, made.external_id, made.detail = (
            row.started_at,
            row.external_id,
            row.detail,
        )
        made.is_replay = row.replay_of_id is not None
        made.rejected_at = row.rejected_at
        aside = made.is_replay or row.message_state == InboundState.PARKED
        state = DeliveryState(row.state)
        made.value = do.Delivery(state, row.attempt, row.failures, row.due, aside)
        return made

    @property
    def attempt(self) -> int:
        return self.value.attempt

    def took(self, seconds: float) -> None:
        """So long ago was `now` read, in the same transaction."""
        self.now += timedelta(seconds=seconds)

    def step(
        self, event: DeliveryEvent, actor: Actor = ITSELF, *, keep: bool = True
    ) -> tuple[do.DeliveryEffect, ...]:
        """Let `event` happen and write what it says. Raises IllegalTransition.

        Without `keep` the row itself is written by a later step of the same transaction.
        """
        before, rejected_at = self.value, self.rejected_at
        policy = self.consumer.policy
        if self.best_effort:  # 004-03: nothing is promised, so nothing is in doubt
            policy = replace(policy, doubtful=False)
        self.value, effects = table.step(before, event, policy, now=self.now)
        self._note(before, event, effects)
        calls = self._row() if keep and (self.value != before or not self.key) else []
        for effect in effects:
            calls += self._calls(effect, before, event, actor)
        if _is_recorded(before, self.value, effects):
            calls.append(self._history(type(event).__name__, before, "", actor))
        if rejected_at and not self.rejected_at:
            calls += self._resolution_of_rejection(actor)
        calls += self._resolutions(before, actor)
        self._run(calls)
        return effects

    def _note(
        self,
        before: do.Delivery,
        event: DeliveryEvent,
        effects: tuple[do.DeliveryEffect, ...],
    ) -> None:
        if self.value.attempt != before.attempt:
            self.started_at, self.detail = self.now, ""
        elif isinstance(event, AttemptRejected | AttemptFailed):
            self.detail = event.reason
        elif before.state is DeliveryState.PROCESSING and self.value.state is DeliveryState.FAILED:
            self.detail = f"the lease of attempt {before.attempt} ended without a result"
        for effect in effects:
            if isinstance(effect, OpenIncident):
                self.detail = effect.detail
        if self.value.state is not before.state and self.value.state in _ENDED:
            self.rejected_at = self.now if isinstance(event, AttemptRejected) else None

    def _row(self) -> list[Call[object]]:
        value = self.value
        row = DeliveryRow(
            state=value.state,
            attempt=value.attempt,
            failures=value.failures,
            due=value.due,
            started_at=self.started_at,
            ended_at=None if value.state is DeliveryState.PROCESSING else self.now,
            external_id=self.external_id,
            detail=self.detail,
            rejected_at=self.rejected_at,
        )
        if self.key:
            return [delivery_sql.UPDATE(key=self.key, **vars(row))]
        keys = {"consumer_id": self.consumer.pk, "message_key": self.message_key}
        return [delivery_sql.INSERT(**keys, **vars(row))]

    def _run(self, calls: list[Call[object]]) -> None:
        if self.gathered is not None:
            self.gathered += calls
        elif calls:
            results = run(*calls)
            if calls[0].statement is delivery_sql.INSERT:
                # The id that INSERT returned: later steps of this transaction update the row.
                self.key = results[0][0].id

    def _calls(
        self,
        effect: do.DeliveryEffect,
        before: do.Delivery,
        event: DeliveryEvent,
        actor: Actor,
    ) -> list[Call[object]]:
        match effect:
            case do.Leave() if self.is_replay:  # its message has left before
                name = "ReplayRejected" if effect.rejected else "ReplayCompleted"
                return [self._history(name, before, f"{self.consumer.name}: {self.key}", actor)]
            case do.Leave():
                state = InboundState.REJECTED if effect.rejected else InboundState.DELIVERED
                name = "MessageRejected" if effect.rejected else "MessageDelivered"
                text = f"{self.consumer.name}, attempt {self.value.attempt}"
                if self.detail and actor is ITSELF:  # else it is an error from before the decision
                    text = f"{text}: {self.detail}"
                return [
                    delivery_sql.LEAVE(key=self.message_key, state=state.value, at=self.now),
                    self._history(name, before, text, actor, to_state=state.value),
                ]
            case do.SetAside():
                return [] if self.is_replay else [delivery_sql.PARK(key=self.message_key)]
            case OpenIncident():
                what = (effect.kind, self.message_id, effect.detail)
                name = self.consumer.name
                new = incidents.NewIncident(self.partner_id, "in", *what, self.now, name)
                return [incidents.open_incident(new)]
            case Note():
                name = type(event).__name__
                return [self._history(name, before, effect.detail, actor, code=effect.code)]
        return []

    def _history(
        self,
        event: str,
        before: do.Delivery,
        detail: str,
        actor: Actor,
        *,
        to_state: str = "",
        code: str = "",
    ) -> Call[None]:
        decided = self.consumer.name if actor is not ITSELF else ""
        row = HistoryRow(
            self.partner_id,
            "in",
            event,
            self.message_id,
            from_state=(
                InboundState.ACCEPTED if before.state is DeliveryState.NEW else before.state
            ),
            to_state=to_state or self.value.state,
            code=code,
            detail=history.with_reason(
                detail or decided or f"{self.consumer.name}: {self.detail}", actor
            ),
            actor=actor.name,
            at=self.now,
        )
        return history.insert(row)

    def _resolution_of_rejection(self, actor: Actor) -> list[Call[object]]:
        incident = {"partner_id": self.partner_id, "kind": IncidentKind.DELIVERY_REJECTED}
        how = f"{self.consumer.name}: {self.value.state} by attempt {self.attempt}"
        who = {"at": self.now, "actor": actor.name, "resolution": actor.reason or how}
        return [
            delivery_sql.LOCK_INCIDENT(**incident),
            delivery_sql.RESOLVE_IF_NOT_REJECTED(
                **incident, **who, key=self.key, message_id=self.message_id
            ),
        ]

    def _resolutions(self, before: do.Delivery, actor: Actor) -> list[Call[object]]:
        who = {"at": self.now, "actor": actor.name, "resolution": actor.reason}
        last = {"message_id": self.message_id}
        ended = [
            ({"partner_id": self.partner_id, "kind": kind}, list(states))
            for kind, states in _CAUSES.items()
            if before.state in states and self.value.state not in states
        ]
        return [
            call
            for incident, states in ended
            for call in (
                delivery_sql.LOCK_INCIDENT(**incident),
                delivery_sql.RESOLVE_IF_LAST(**incident, **who, **last, states=states),
            )
        ]


def _is_recorded(
    before: do.Delivery, after: do.Delivery, effects: tuple[do.DeliveryEffect, ...]
) -> bool:
    """Whether the history has a row for this step. A success is recorded once, when the message
    leaves the order of its pair."""
    if before.state is after.state or any(isinstance(effect, do.Leave) for effect in effects):
        return False
    return after.state not in _ORDINARY or before.state in OPEN_TO_OPERATORS


_ENDED = (DeliveryState.COMPLETED, DeliveryState.REJECTED)
_ORDINARY = (DeliveryState.PROCESSING, *_ENDED)


def lock_new(message_key: int, consumer: Consumer, *, wait: bool = False) -> HeldDelivery | None:
    """Hold a message that has no delivery yet; None if it has one, or without `wait` if another
    worker holds it."""
    statement = delivery_sql.LOCK_NEW if wait else delivery_sql.TRY_LOCK_NEW
    ((lock,),) = run(statement(space=delivery_sql.LOCK_SPACE, key=_folded(message_key)))
    if not lock.had:
        return None
    # A statement of its own: what its last holder committed is seen.
    (rows,) = run(delivery_sql.LOAD_NEW(message_key=message_key))
    return HeldDelivery.of_new(rows[0], consumer) if rows else None


def lock(
    keys: Collection[int], consumers: "Consumers", *, wait: bool = False
) -> list[HeldDelivery]:
    """Lock deliveries by row id. Without `wait`, those that others hold are left out."""
    if not keys:
        return []
    statement = delivery_sql.LOCK if wait else delivery_sql.LOCK_FREE
    (rows,) = run(statement(keys=sorted(keys)))
    return [HeldDelivery.of_row(row, consumers[row.consumer_id]) for row in rows]


def lock_to_decide(keys: Collection[int], consumers: "Consumers") -> list[HeldDelivery]:
    """Lock deliveries that are stepped in one transaction and written by `write_together`, with
    their messages and with the incidents that may end: else two such transactions could each wait
    for the other."""
    held = lock(keys, consumers, wait=True)
    for one in held:
        one.gathered = []
    if held:
        messages, partners = ({one.message_key for one in held}, {one.partner_id for one in held})
        run(
            delivery_sql.LOCK_MESSAGES(keys=list(messages)),
            delivery_sql.LOCK_INCIDENTS(partner_ids=list(partners), kinds=_ORDER),
        )
    return held


def write_together(held: Iterable[HeldDelivery]) -> None:
    """Write what steps of different deliveries have gathered: what is alike by one statement, and
    of what asks whether an incident is over only the last, which knows of all."""
    calls = in_order([call for one in held for call in one.gathered or ()])
    last = {_incident_of(call): call for call in calls if call.statement in _RESOLVING}
    run_all(list(gather([call for call in calls if last.get(_incident_of(call), call) is call])))


_RESOLVING = (
    delivery_sql.LOCK_INCIDENT,
    delivery_sql.RESOLVE_IF_LAST,
    delivery_sql.RESOLVE_IF_NOT_REJECTED,
)


def _incident_of(call: Call[object]) -> tuple[object, object, object]:
    return call.statement, call.values.get("partner_id"), call.values.get("kind")


def begin(held: HeldDelivery) -> bool:
    """Begin an attempt of a delivery that is new or failed, if it is due. It writes no other row
    than its own, so that many can begin in one transaction."""
    if held.value.state not in (DeliveryState.NEW, DeliveryState.FAILED):
        return False
    return any(isinstance(effect, do.Run) for effect in held.step(do.DeliveryPolled()))


def _folded(key: int) -> int:
    """A row id as the second half of an advisory lock. Two messages that share one only wait."""
    return key % 2**31


def undecided(partner_id: int, kind: str) -> int:
    states = _CAUSES.get(IncidentKind(kind), ())
    return Delivery.objects.filter(message__link__partner=partner_id, state__in=states).count()


class Consumers(dict[int, Consumer]):
    """Consumers by row id, each read once: for the time of one poll."""

    def __missing__(self, key: int) -> Consumer:
        self[key] = Consumer.objects.get(pk=key)
        return self[key]


def report_failure(partner_id: int, why: str) -> None:
    incidents.open_now(partner_id, "in", IncidentKind.DELIVERY_FAILED, "", why)
