"""Actions on conversations in order: start, restart, deliver past what lacks, or give up."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from django.utils import timezone

from msh.admin.framework.actions import ActionDialog
from msh.flows.operations import conversation_actions
from msh.flows.operations.change_conversation import HoleChange
from msh.models import InboundConversation, OutboundConversation
from msh.protocol import effects as do
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import serial
from msh.protocol.flight.conversation import Conversation, Outcome

AnyConversation = TypeVar("AnyConversation", InboundConversation, OutboundConversation)


class ConversationDialog(ActionDialog[AnyConversation]):
    def version(self, row: AnyConversation) -> str:
        return f"{getattr(row, 'state', '')}, next number {row.next_number}"

    def preconditions(self, row: AnyConversation) -> Mapping[str, object]:
        return {"if_next_number": row.next_number or serial.FIRST}


class HoleDialog(ConversationDialog[InboundConversation]):
    """The dialog of an action for a missing number. The pure step decides whether it is possible.
    Rows are annotated with the held messages."""

    def step(self, row: InboundConversation) -> Outcome:
        change = cast("HoleChange", self.action.flow)
        return change.step(value_of(row), 0, timezone.now())

    def why_not(self, row: InboundConversation) -> str:
        try:
            self.step(row)
        except IllegalTransition as refused:
            return f"{refused.state}."
        return ""

    def consequence(self, row: InboundConversation) -> str:
        changes = _changes(value_of(row), *self.step(row))
        return " ".join([super().consequence(row), *changes])

    def version(self, row: InboundConversation) -> str:
        value = value_of(row)
        return f"next number {row.next_number}, {len(value.held)} held, first {value.in_order[:1]}"


class SkipMissing(HoleDialog):
    """It helps when the time for the missing message is over."""

    def is_recommended(self, row: InboundConversation) -> bool:
        return row.called


class DropHeld(HoleDialog):
    is_dangerous = True


class Restart(ConversationDialog[OutboundConversation]):
    recommended = True


def value_of(row: Any) -> Conversation:
    return Conversation(row.next_number, frozenset(row.held_numbers), row.due, row.called)


def count_of(messages: int) -> str:
    return f"{messages} message{'' if messages == 1 else 's'}"


def _changes(
    before: Conversation, after: Conversation, effects: tuple[do.ConversationEffect, ...]
) -> list[str]:
    """Return what happens to the numbers, as sentences."""
    said = []
    for effect in effects:
        if isinstance(effect, do.Release):
            lost = serial.distance(effect.numbers[0], before.lacks)
            given_up = f"from number {before.lacks} on, {count_of(lost)}"
            said.append(f"Given up: {given_up}. Delivered now: {count_of(len(effect.numbers))}.")
        if isinstance(effect, do.Drop):
            said.append(f"Given up: {count_of(len(effect.numbers))}.")
    if said:
        held = count_of(len(after.held))
        said.append(f"Then number {after.lacks} comes next; still held: {held}.")
    return said


OUT: tuple[ConversationDialog[OutboundConversation], ...] = (
    Restart(conversation_actions.RESTART_CONVERSATION, "restart_alt"),
    ConversationDialog(conversation_actions.START_ORDER_OUT, "start"),
)
IN: tuple[ConversationDialog[InboundConversation], ...] = (
    HoleDialog(conversation_actions.EXTEND_WAIT, "schedule"),
    SkipMissing(conversation_actions.SKIP_MISSING, "skip_next"),
    ConversationDialog(conversation_actions.START_ORDER_IN, "start"),
    DropHeld(conversation_actions.DROP_HELD, "delete"),
)
