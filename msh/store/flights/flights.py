"""Flights: lock them, step them, write what the steps ask for, in one transaction.

The only writer of `msh_flight`, and of what the gate of a partner has in its link. Who claims
copies or records how they ended holds the link too, so that one process at a time counts the
window of a partner. An Acknowledgment and an operator need the flight alone, and after it the
conversation of a message that is sent in order.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from msh.protocol.events import MessageCancelled
from msh.protocol.flight import Flight, FlightEvent, gate, numbering, step
from msh.protocol.flight.gate import Gate, GateEvent, GateState, Leave
from msh.protocol.flight.numbering import MessageStarted
from msh.protocol.flight.serial import Order
from msh.protocol.reason import Reason
from msh.store.engine import Call, run
from msh.store.history import ITSELF, SYSTEM, Actor
from msh.store.sending import link_sql, message_sql
from msh.store.sending.effects import text_of
from msh.store.sending.unit import UnitOfWork

from . import conversation_sql, flight_sql, gate_sql
from .conversations import LockedConversation, lock_conversations
from .effects import FlightWriter, GateWriter, code_of, detail_of, reason_of
from .locked_flight import (
    LockedFlight,
    LockedGate,
    flight_of,
    gate_of,
    gate_state,
    shown_state,
    written,
)
from .rows import FlightRow, GateRow


@dataclass(slots=True)
class Flights(UnitOfWork):
    """Locked in this transaction: gates by partner id, flights by row id of their message."""

    _gates: dict[int, LockedGate] = field(default_factory=dict)
    _flights: dict[int, LockedFlight] = field(default_factory=dict)
    _conversations: dict[int, LockedConversation] = field(default_factory=dict)
    missed: set[int] = field(default_factory=set)
    """Partners whose attempts have ended and whose gate others hold: for a later round."""

    @classmethod
    def of(
        cls,
        gates: Iterable[GateRow],
        flights: Iterable[FlightRow],
        longest_attempt: float,
        queued: int = 0,
    ) -> Self:
        """Locks the conversations of these flights, too, and reads so many messages of each that
        wait for their turn. Raises UnreadableTermsError."""
        locked = cls()
        for row in gates:
            since = (row.suspended_since, row.suspended_detail, row.suspended_reason)
            shut = LockedGate(row, gate_of(row, longest_attempt), row.under_way, since)
            locked._gates[row.partner_id] = shut
            locked.now = max(locked.now, row.now)
        for one in flights:
            locked._flights[one.id] = LockedFlight(one, flight_of(one))
            locked.now = max(locked.now, one.now)
        in_order = [one.row.ordered_in_id for one in locked._flights.values()]
        locked._conversations = lock_conversations(filter(None, in_order), queued)
        return locked

    @classmethod
    def lock_one(
        cls,
        partner_id: int,
        message_id: str,
        agreement_id: int | None = None,
        *,
        refused: bool = False,
    ) -> tuple[Self, int | None]:
        """The flight of a message to this partner, or the message if it has ended; and its row id.
        None for a MessageId that no flight had, or under another agreement. The gate too, if it
        counts refusals or the message is `refused`."""
        about = {"partner_id": partner_id, "message_id": message_id}
        locked, rows = run(
            flight_sql.LOCK_ONE(**about, refused=refused),
            flight_sql.LOAD_ONE(**about, agreement_id=agreement_id),
        )
        link_ids = [one.gate for one in locked if one.gate is not None]
        gates = run(gate_sql.LOAD_GATES(link_ids=link_ids))[0] if link_ids else []
        return cls.of(gates, rows, 0), rows[0].id if rows else None

    @classmethod
    def lock_named(cls, partner_ids: Iterable[int], keys: Iterable[int]) -> Self:
        """The flights of these messages to these partners, or the messages that have ended, waiting
        at most lock_timeout. The links are locked, too, but not read: no act of an operator on a
        message changes a gate."""
        wanted = list(keys)
        if not wanted:
            return cls()
        _, _, rows = run(
            link_sql.LOCK(partner_ids=list(partner_ids)),
            flight_sql.LOCK_NAMED(keys=wanted),
            flight_sql.LOAD_NAMED(keys=wanted),
        )
        return cls.of((), rows, 0)

    @classmethod
    def lock_gate(cls, partner_id: int) -> Self:
        """The gate alone: nothing if the partner has none."""
        (held,) = run(link_sql.LOCK(partner_ids=[partner_id]))
        (gates,) = run(gate_sql.LOAD_GATES(link_ids=[row.id for row in held]))
        return cls.of(gates, (), 0)

    def load_ended(self, partner_id: int, message_id: str, agreement_id: int) -> None:
        """Add a message whose flight has ended: what is answered to it now is late."""
        about = {"partner_id": partner_id, "message_id": message_id, "agreement_id": agreement_id}
        (rows,) = run(flight_sql.LOAD_ONE(**about))
        for row in rows:
            self._flights[row.id] = LockedFlight(row, flight_of(row))

    def __contains__(self, key: int) -> bool:
        return key in self._flights

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._flights))

    def flight(self, key: int) -> Flight:
        return self._flights[key].flight

    def locked(self, key: int) -> LockedFlight:
        return self._flights[key]

    def gate(self, partner_id: int) -> Gate | None:
        """None: its link is not held by this transaction."""
        held = self._gates.get(partner_id)
        return held.gate if held else None

    def under_way(self) -> Iterator[tuple[int, int]]:
        """Partners whose links are held, and how many slots of its window each has taken."""
        for partner_id, held in self._gates.items():
            yield partner_id, held.under_way

    def may_leave(self, key: int) -> Leave | None:
        """As what a copy of this flight may be claimed now."""
        one = self._flights[key]
        held = self._gates.get(one.row.partner_id)
        if held is None or not self._is_its_turn(one):
            return None
        return gate.may_leave(
            held.gate,
            one.flight,
            under_way=held.under_way,
            window=held.row.window,
            in_maintenance=held.row.in_maintenance,
            now=self.now,
        )

    def _is_its_turn(self, one: LockedFlight) -> bool:
        if not self.waits_turn(one.key):
            return True
        held = self._conversation(one)
        return held is not None and held.may_start(one.key)

    def waits_turn(self, key: int) -> bool:
        """Whether it is sent in order, and has no number yet."""
        one = self._flights[key]
        return one.row.waits_turn and one.flight.number is None

    def give_number(self, key: int) -> None:
        """Once, to the message whose turn it is. Raises IllegalTransition with nothing changed."""
        one = self._flights[key]
        held = self._conversations[one.row.ordered_in_id or 0]
        number = held.numbering.order.number
        event = MessageStarted(one.flight.message_id)
        after = numbering.step(held.numbering, event)
        for call in held.step(event, after, "", ITSELF, self.now):
            self.add(call)
        held.queue.remove(key)
        one.flight = replace(one.flight, number=number)
        self.add(conversation_sql.GIVE_NUMBER(key=key, number=number))

    def order_of(self, key: int) -> Order | None:
        """What its MessageOrder says; None: it has none."""
        one = self._flights[key]
        held, number = self._conversation(one), one.flight.number
        if held is None or number is None:
            return None
        return Order(number, resets=held.numbering.unconfirmed == one.flight.message_id)

    def _conversation(self, one: LockedFlight) -> LockedConversation | None:
        return self._conversations.get(one.row.ordered_in_id or 0)

    def step(self, key: int, event: FlightEvent, actor: Actor = ITSELF) -> Flight:
        """Let `event` happen. Raises IllegalTransition with nothing changed."""
        one = self._flights[key]
        before = one.flight
        after, effects = step(before, event, now=self.now)
        self._step_conversation(one, after, event, detail_of(effects), actor)
        one.flight = after
        one.changed = one.changed or after != before
        if held := self._gates.get(one.row.partner_id):
            held.under_way += after.under_way - before.under_way
        name = type(event).__name__
        was, now = shown_state(before), shown_state(after)
        if was != now or actor.name != SYSTEM:
            about = (one.row.partner_id, one.row.message_id, name, (was, now))
            self.record(*about, detail_of(effects), actor, code=code_of(effects))
        keys = {one.row.message_id: one.key}
        writer = FlightWriter(
            self, one.row.partner_id, keys, name, actor, one=one, step_gate=self.step_gate
        )
        writer.write(effects)
        if held and (told := gate.event_of(before, after, event)):
            self.step_gate(one.row.partner_id, told)
        return after

    def _step_conversation(
        self, one: LockedFlight, after: Flight, event: FlightEvent, detail: str, actor: Actor
    ) -> None:
        held = self._conversation(one)
        if held is None or one.flight.state is after.state:
            return
        held.changed = True  # another may be its head
        verdict = event.verdict if isinstance(event, MessageCancelled) else None
        told = numbering.event_of(one.flight, after, verdict)
        if told is None:
            self.transmits.add(one.row.partner_id)
            return
        why = f"message {after.message_id}, number {after.number}, is {shown_state(after)}"
        why = f"{why}: {detail}" if detail else why
        numbered = numbering.step(held.numbering, told)
        for call in held.step(told, numbered, why, actor, self.now):
            self.add(call)

    def step_gate(self, partner_id: int, event: GateEvent) -> None:
        """Raises IllegalTransition with nothing changed."""
        held = self._gates[partner_id]
        before = held.gate
        after, effects = gate.step(before, event, now=self.now)
        held.gate = after
        held.changed = held.changed or after != before
        name = type(event).__name__
        if (before.state, before.suspended_for) != (after.state, after.suspended_for):
            detail = detail_of(effects)
            is_shut = after.state is GateState.SUSPENDED
            shut = (self.now, detail, reason_of(effects))
            held.suspended = shut if is_shut else (None, "", Reason.NONE)
            was, now = (
                "suspended" if one.state is GateState.SUSPENDED else "idle"
                for one in (before, after)
            )
            self.record(partner_id, "", name, (was, now), detail, code=code_of(effects))
        GateWriter(self, partner_id, {}, name).write(effects)

    def store_head(
        self, key: int, head: bytes, body_sha256: bytes, sealed: Sequence[bytes] | None = None
    ) -> None:
        """What was composed once, with the terms that the message is sent under from then on."""
        terms = text_of(self._flights[key].flight.terms)
        self.add(
            flight_sql.COMPOSE(
                key=key, head=head, body_sha256=body_sha256, at=self.now, terms=terms
            )
        )
        if sealed:
            self.add(message_sql.SEAL(key=key, parts=sealed))

    def _states(self) -> Iterable[Call[object]]:
        gates = [
            gate_sql.WRITE_GATE.of(gate_state(held))
            for held in self._gates.values()
            if held.changed
        ]
        changed = [self._flights[key] for key in self if self._flights[key].changed]
        flights = [call for one in changed for call in written(one)]
        conversations = [one.written() for one in self._conversations.values() if one.changed]
        return [*gates, *flights, *conversations]
