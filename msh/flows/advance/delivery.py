"""Deliveries: locked, stepped and written, with the state of their message."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Self

from msh.models import Consumer, Delivery, InboundState, handover, hot
from msh.models.delivery import OPEN_TO_OPERATORS
from msh.protocol import delivery as table
from msh.protocol import delivery_events as do
from msh.protocol.delivery_events import (
    AttemptFailed,
    AttemptRejected,
    DeliveryEvent,
    DeliveryState,
)
from msh.protocol.effects import IncidentKind, Note, OpenIncident

from .actor import ITSELF, SYSTEM, Actor

# An incident, and the states of deliveries that keep it open. One step writes what it opens first
# and what it ends after it: rejected, failed, in doubt. `LOCK_INCIDENTS` has the same order.
_CAUSES = {
    IncidentKind.DELIVERY_IN_DOUBT: (DeliveryState.IN_DOUBT,),
    IncidentKind.DELIVERY_FAILED: (DeliveryState.BLOCKED, DeliveryState.PARKED),
}


@dataclass(slots=True)
class Handover:
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
    best_effort: bool = False

    @classmethod
    def of_new(cls, row: Any, consumer: Consumer) -> Self:
        """From a record of LOAD_NEW."""
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
    def of_row(cls, row: Any, consumer: Consumer) -> Self:
        """From a record of LOCK."""
        made = cls.of_new(row, consumer)
        made.key = row.id
        made.started_at, made.external_id, made.detail = (
            row.started_at,
            row.external_id,
            row.detail,
        )
        aside = row.message_state == InboundState.PARKED
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
        before = self.value
        policy = self.consumer.policy
        if self.best_effort:  # 004-03: nothing is promised, so nothing is in doubt
            policy = replace(policy, doubtful=False)
        self.value, effects = table.step(before, event, policy, now=self.now)
        self._note(before, event, effects)
        statements = self._row() if keep and (self.value != before or not self.key) else []
        for effect in effects:
            statements += self._statements(effect, before, event, actor)
        if _is_worth_telling(before, self.value, effects):
            statements.append(self._history(type(event).__name__, before, "", actor))
        statements += self._resolutions(before, actor)
        self._run(statements)
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
            self.detail = f"attempt {before.attempt} did not end, or left nothing"
        for effect in effects:
            if isinstance(effect, OpenIncident):
                self.detail = effect.detail

    def _row(self) -> list[hot.Statement]:
        value = self.value
        ended = None if value.state is DeliveryState.PROCESSING else self.now
        row = (
            *(value.state, value.attempt, value.failures, value.due),
            *(self.started_at, ended, self.external_id, self.detail),
        )
        if not self.key:
            return [(handover.INSERT, (self.consumer.pk, self.message_key, *row))]
        return [(handover.UPDATE, (*row, self.key))]

    def _run(self, statements: list[hot.Statement]) -> None:
        if statements:
            results = hot.run(*statements)
            if statements[0][0] is handover.INSERT:
                self.key = results[0][0].id

    def _statements(
        self,
        effect: do.DeliveryEffect,
        before: do.Delivery,
        event: DeliveryEvent,
        actor: Actor,
    ) -> list[hot.Statement]:
        match effect:
            case do.Leave():
                state = InboundState.REJECTED if effect.rejected else InboundState.DELIVERED
                name = "MessageRejected" if effect.rejected else "MessageDelivered"
                text = f"{self.consumer.name}, attempt {self.value.attempt}"
                text = f"{text}: {self.detail}" if self.detail else text
                return [
                    (handover.LEAVE, (state.value, self.now, self.message_key)),
                    self._history(name, before, text, actor, to_state=state.value),
                ]
            case do.SetAside():
                return [(handover.SET_ASIDE, (self.message_key,))]
            case OpenIncident():
                what = (self.partner_id, "in", effect.kind, self.message_id, effect.detail)
                return [(hot.OPEN_INCIDENT, (*what, self.now, self.now))]
            case Note():
                return [self._history(type(event).__name__, before, effect.detail, actor)]
        return []

    def _history(
        self,
        event: str,
        before: do.Delivery,
        detail: str,
        actor: Actor,
        *,
        to_state: str = "",
    ) -> hot.Statement:
        parts = (detail or f"{self.consumer.name}: {self.detail}", actor.reason)
        text = "; ".join(part for part in parts if part)
        row = (self.now, actor.name, self.partner_id, "in", "message", self.message_id)
        was = InboundState.ACCEPTED if before.state is DeliveryState.NEW else before.state
        return hot.WRITE_HISTORY, (*row, event, was, to_state or self.value.state, text)

    def _resolutions(self, before: do.Delivery, actor: Actor) -> list[hot.Statement]:
        """The incident is over with the last delivery that it was opened for."""
        who = (self.now, actor.name, actor.reason, self.partner_id)
        over = [
            (kind, list(states))
            for kind, states in _CAUSES.items()
            if before.state in states and self.value.state not in states
        ]
        return [
            statement
            for kind, states in over
            for statement in (
                (handover.LOCK_INCIDENT, (self.partner_id, kind)),
                (handover.RESOLVE_IF_LAST, (*who, kind, self.partner_id, states)),
            )
        ]


def _is_worth_telling(
    before: do.Delivery, after: do.Delivery, effects: tuple[do.DeliveryEffect, ...]
) -> bool:
    """What goes well is told once, when the message leaves the order of its pair."""
    if before.state is after.state or any(isinstance(effect, do.Leave) for effect in effects):
        return False
    return after.state not in _ORDINARY or before.state in OPEN_TO_OPERATORS


_ORDINARY = (DeliveryState.PROCESSING, DeliveryState.COMPLETED, DeliveryState.REJECTED)


def lock_new(message_key: int, consumer: Consumer) -> Handover | None:
    """Hold a message that has no delivery yet; None if another worker has it."""
    (had,) = hot.run((handover.TRY_LOCK_NEW, (handover.LOCK_SPACE, _folded(message_key))))
    if not had[0].had:
        return None
    (rows,) = hot.run((handover.LOAD_NEW, (message_key,)))  # what its last holder committed is seen
    return Handover.of_new(rows[0], consumer) if rows else None


def lock(keys: Collection[int], consumers: "Consumers", *, wait: bool = False) -> list[Handover]:
    """Lock deliveries by row id. Without `wait`, those that others hold are left out."""
    if not keys:
        return []
    (rows,) = hot.run((handover.LOCK if wait else handover.LOCK_FREE, (sorted(keys),)))
    return [Handover.of_row(row, consumers[row.consumer_id]) for row in rows]


def lock_to_decide(keys: Collection[int], consumers: "Consumers") -> list[Handover]:
    """Lock deliveries that are stepped in one transaction, with their messages and with the
    incidents that may end: else two such transactions could each wait for the other."""
    held = lock(keys, consumers, wait=True)
    if held:
        messages, partners = ({one.message_key for one in held}, {one.partner_id for one in held})
        hot.run(
            (handover.LOCK_MESSAGES, (list(messages),)),
            (handover.LOCK_INCIDENTS, (list(partners), list(_CAUSES))),
        )
    return held


def begin(held: Handover) -> bool:
    """Begin an attempt of a delivery that is new or failed, if it is due. It writes no other row
    than its own, so that many can begin in one transaction."""
    if held.value.state not in (DeliveryState.NEW, DeliveryState.FAILED):
        return False
    return any(isinstance(effect, do.Run) for effect in held.step(do.DeliveryLooked()))


def _folded(key: int) -> int:
    """A row id as the second half of an advisory lock. Two messages that share one only wait."""
    return key % 2**31


def undecided(partner_id: int, kind: str) -> int:
    """Deliveries of this partner's messages that keep an incident of this kind open."""
    states = _CAUSES.get(IncidentKind(kind), ())
    return Delivery.objects.filter(message__link__partner=partner_id, state__in=states).count()


class Consumers(dict[int, Consumer]):
    """Consumers by row id, each read once: for the time of one look."""

    def __missing__(self, key: int) -> Consumer:
        self[key] = Consumer.objects.get(pk=key)
        return self[key]


def report_failure(partner_id: int, why: str) -> None:
    """Open an incident for what keeps a delivery from beginning."""
    now = hot.run((hot.CLOCK, ()))[0][0].now
    what = (partner_id, "in", IncidentKind.DELIVERY_FAILED, "", why)
    hot.run((hot.OPEN_INCIDENT, (*what, now, now)))


def alarm_unclaimed() -> int:
    """Open an incident for each pair whose head no consumer takes; how many were opened. Those of
    pairs whose head one takes now are resolved."""
    rows, clock, _ = hot.run(
        (handover.FIND_UNCLAIMED, ()),
        (hot.CLOCK, ()),
        (handover.RESOLVE_CLAIMED, (SYSTEM, "a consumer takes it now")),
    )
    now = clock[0].now
    text = "no consumer takes this partner, ServiceInterface and Action: add one"
    for row in rows:
        what = (row.partner_id, "in", IncidentKind.NO_CONSUMER, "", text)
        hot.run((hot.OPEN_INCIDENT, (*what, now, now)))
    return len(rows)
