"""A conversation whose messages we deliver in order: read, stepped by its callers, written."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from msh.protocol import effects as do
from msh.protocol.flight.conversation import Conversation
from msh.store import history, incidents
from msh.store.clock import read_clock
from msh.store.engine import Call, Write, run
from msh.store.history import ITSELF, Actor
from partners.models import Agreement

from . import conversation_sql
from .conversation_sql import ConversationRow, ConversationState
from .pairs import LOCK_LINK

SHOWN = 100
"""Characters of a ConversationId in a text for operators."""


@dataclass(frozen=True, slots=True)
class HeldConversation:
    """One that this transaction holds, for it holds the link. `key` is its row id, 0 while it has
    no row. `undelivered`: messages of it wait for their consumer."""

    link_id: int
    partner_id: int
    agreement_id: int
    conversation_id: str
    horizon: int
    now: datetime
    key: int = 0
    value: Conversation = field(default_factory=Conversation)
    undelivered: bool = False

    @property
    def name(self) -> str:
        return f"conversation {self.conversation_id[:SHOWN]}"

    def insert_if_new(self) -> "HeldConversation":
        """Return the conversation with a row, which is inserted if it is new."""
        if self.key:
            return self
        (rows,) = run(
            conversation_sql.INSERT(
                link_id=self.link_id,
                agreement_id=self.agreement_id,
                conversation_id=self.conversation_id,
                **vars(self._state(self.value, released=False)),
            )
        )
        return replace(self, key=rows[0].id)

    def calls(
        self,
        after: Conversation,
        effects: Iterable[do.ConversationEffect],
        actor: Actor = ITSELF,
    ) -> Iterator[Call[object]]:
        """Return the statements that write the step to `after`, except the arrived message and its
        answer. The conversation must have a row, and the message must be stored before."""
        asked = list(effects)
        released = any(isinstance(effect, do.Release) for effect in asked)
        state = self._state(after, released=released)
        yield conversation_sql.UPDATE(key=self.key, **vars(state))
        for effect in asked:
            yield from self._calls_of(effect, actor)

    def _state(self, value: Conversation, *, released: bool) -> ConversationState:
        return ConversationState(
            next_number=value.next_number,
            due=value.due,
            called=value.called,
            released=released,
            at=self.now,
        )

    def _calls_of(self, effect: do.ConversationEffect, actor: Actor) -> Iterator[Call[object]]:
        match effect:
            case do.Release():
                for number in effect.numbers:
                    yield self._left(conversation_sql.RELEASE, "MessageReleased", number, actor)
            case do.Drop():
                for number in effect.numbers:
                    yield self._left(conversation_sql.DROP, "MessageDropped", number, actor)
            case do.OpenIncident():
                what = (effect.kind, effect.message_id, f"{self.name}: {effect.detail}", self.now)
                new = incidents.NewIncident(self.partner_id, "in", *what)
                yield incidents.open_incident(new)
            case do.ResolveIncident():
                yield conversation_sql.RESOLVE_IF_LAST(
                    key=self.key,
                    link_id=self.link_id,
                    partner_id=self.partner_id,
                    kind=effect.kind,
                    at=self.now,
                    actor=actor.name,
                    resolution=actor.reason or "no conversation lacks a number any more",
                )

    def _left(self, statement: Write, event: str, number: int, actor: Actor) -> Call[None]:
        return statement(
            key=self.key,
            number=number,
            partner_id=self.partner_id,
            event=event,
            detail=history.with_reason(f"number {number}", actor),
            actor=actor.name,
            at=self.now,
        )


def find_due_links() -> list[int]:
    """Links with a conversation whose missing message an operator is to be called about."""
    (rows,) = run(conversation_sql.FIND_DUE_LINKS())
    return [row.id for row in rows]


def lock_due(link_id: int) -> list[HeldConversation]:
    """Lock the link and return those conversations; none while another process holds it."""
    (locked,) = run(conversation_sql.LOCK_FREE_LINK(link_id=link_id))
    if not locked:
        return []
    (rows,) = run(conversation_sql.LOAD_DUE(link_id=link_id))
    return [held(row) for row in rows]


def lock_conversation(agreement: Agreement, conversation_id: str) -> HeldConversation:
    """Lock its link, which there has to be."""
    lock = LOCK_LINK(partner_id=agreement.partner_id)
    load = conversation_sql.LOAD(agreement_id=agreement.pk, conversation_id=conversation_id)
    (link,), rows = run(lock, load)
    if rows:
        return held(rows[0])
    horizon = agreement.retry_interval * (agreement.retries + 1)
    about = (link.id, agreement.partner_id, agreement.pk, conversation_id)
    return HeldConversation(*about, horizon, read_clock())


def step_conversation(
    held: HeldConversation, after: Conversation, effects: Iterable[do.ConversationEffect]
) -> None:
    """Write one that has a row."""
    run(*held.calls(after, effects))


def change_conversation(
    held: HeldConversation,
    after: Conversation,
    effects: Iterable[do.ConversationEffect],
    event: str,
    actor: Actor,
) -> None:
    """Write what an operator has done to it, with its history."""
    stored = held.insert_if_new()
    row = history.link_row(
        held.partner_id,
        "in",
        event,
        actor,
        detail=f"{held.name}: next number {held.value.lacks} → {after.lacks},"
        f" held {len(held.value.held)} → {len(after.held)}",
    )
    run(*stored.calls(after, effects, actor), history.insert(row))


def held(row: ConversationRow) -> HeldConversation:
    """Return the conversation of a row. The caller must hold the lock of its link."""
    return HeldConversation(
        row.link_id,
        row.partner_id,
        row.agreement_id,
        row.conversation_id,
        row.horizon,
        row.now,
        row.id,
        row.value,
        row.undelivered,
    )
