"""Actions on conversations in order: start, restart, deliver past what lacks, or give up."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.utils import timezone

from msh.admin.framework.actions import ActionDialog
from msh.flows.operations import conversation_actions
from msh.flows.operations.change_conversation import why_not_numbered
from msh.flows.operations.operator_action import OperatorAction
from msh.models import InboundConversation, OutboundConversation
from msh.protocol import effects as do
from msh.protocol.errors import IllegalTransition
from msh.protocol.flight import conversation, serial
from msh.protocol.flight.conversation import Conversation, Outcome
from msh.protocol.flight.numbering import ConversationRestarted, LastNumberSet, NumberingEvent
from msh.store.flights.conversations import count_outstanding

AnyConversation = TypeVar("AnyConversation", InboundConversation, OutboundConversation)


class ConversationDialog(ActionDialog[AnyConversation]):
    def version(self, row: AnyConversation) -> str:
        return f"next number {row.next_number}"

    def preconditions(self, row: AnyConversation) -> Mapping[str, object]:
        return {"if_next_number": row.next_number or serial.FIRST}


# --- sent in order --------------------------------------------------------------------------------


class NumberingDialog(ConversationDialog[OutboundConversation]):
    """One event of the numbering; its table says in which states it is possible."""

    def __init__(
        self, action: OperatorAction, icon: str, event: Callable[[int], NumberingEvent]
    ) -> None:
        super().__init__(action, icon)
        self.event = event

    def why_not(self, row: OutboundConversation) -> str:
        why = why_not_numbered(row, self.event(count_outstanding(row.pk)))
        return f"{why}." if why else ""

    def version(self, row: OutboundConversation) -> str:
        return f"{row.state}, next number {row.next_number}"


class StartOrderOut(NumberingDialog):
    def why_not(self, row: OutboundConversation) -> str:
        return _unless_ordered(row) or super().why_not(row)


# --- received in order ----------------------------------------------------------------------------


class HoleDialog(ConversationDialog[InboundConversation]):
    """What is done about a missing number; the pure step says whether it is possible. Rows are
    annotated with what is held."""

    def __init__(
        self, action: OperatorAction, icon: str, step: Callable[[Conversation], Outcome]
    ) -> None:
        super().__init__(action, icon)
        self.step = step

    def why_not(self, row: InboundConversation) -> str:
        try:
            self.step(value_of(row))
        except IllegalTransition as refused:
            return f"{refused.state}."
        return ""

    def consequence(self, row: InboundConversation) -> str:
        before = value_of(row)
        after, effects = self.step(before)
        return " ".join([super().consequence(row), *_changes(before, after, effects)])

    def version(self, row: InboundConversation) -> str:
        value = value_of(row)
        return f"next number {row.next_number}, {len(value.held)} held, first {value.in_order[:1]}"


class DropHeld(HoleDialog):
    is_dangerous = True


class StartOrderIn(ConversationDialog[InboundConversation]):
    def why_not(self, row: InboundConversation) -> str:
        return _unless_ordered(row)


def value_of(row: Any) -> Conversation:
    return Conversation(row.next_number, frozenset(row.held_numbers), row.due, row.called)


def count_of(messages: int) -> str:
    return f"{messages} message{'' if messages == 1 else 's'}"


def _changes(
    before: Conversation, after: Conversation, effects: tuple[do.ConversationEffect, ...]
) -> list[str]:
    """What becomes of the numbers, in sentences."""
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


def _unless_ordered(row: OutboundConversation | InboundConversation) -> str:
    return "" if row.agreement.ordered else f"agreement {row.agreement} is not ordered."


OUT = (
    NumberingDialog(
        conversation_actions.RESTART_CONVERSATION, "restart_alt", ConversationRestarted
    ),
    StartOrderOut(
        conversation_actions.START_ORDER_OUT,
        "start",
        lambda outstanding: LastNumberSet(serial.FIRST, outstanding),
    ),
)
IN = (
    HoleDialog(
        conversation_actions.EXTEND_WAIT,
        "schedule",
        lambda value: conversation.extend_wait(value, 0, now=timezone.now()),
    ),
    HoleDialog(
        conversation_actions.SKIP_MISSING,
        "skip_next",
        lambda value: conversation.skip(value, 0, now=timezone.now()),
    ),
    StartOrderIn(conversation_actions.START_ORDER_IN, "start"),
    DropHeld(conversation_actions.DROP_HELD, "delete", conversation.drop),
)
