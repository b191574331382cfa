"""Actions on conversations in order: start, restart, deliver past what lacks, or give up."""

from typing import TypeVar

from unfold.widgets import UnfoldAdminIntegerFieldWidget

from msh.admin.framework.actions import ActionDialog, ReasonForm
from msh.flows.operations import conversation_actions
from msh.flows.operations.operator_action import OperatorAction
from msh.models import InboundConversation, InboundState, OutboundConversation
from msh.protocol.flight.numbering import NumberingState
from msh.store.history import Actor

from .inbound_actions import number_field

Conversation = TypeVar("Conversation", InboundConversation, OutboundConversation)


class ConversationDialog(ActionDialog[Conversation]):
    def __init__(self, action: OperatorAction, icon: str) -> None:
        self.action, self.icon = action, icon

    def consequence(self, row: Conversation) -> str:
        return self.action.effect.format(partner=row.link.partner)

    def version(self, row: Conversation) -> str:
        return f"next number {row.next_number}"

    def conflict(self, row: Conversation) -> str:
        return "the conversation has changed in the meantime. Check it again."

    def act(self, row: Conversation, actor: Actor, form: ReasonForm) -> str:
        entered = form.action_fields.values()
        self.action.flow(row.agreement, row.conversation_id, *entered, actor)
        return f"Conversation {row}: {self.action.done}."


class OnHeld(ConversationDialog[InboundConversation]):
    """It is about the messages that are held."""

    def why_not(self, row: InboundConversation) -> str:
        held = row.messages.filter(state=InboundState.HELD)
        return "" if held.exists() else "no message of the conversation is held."


class Restart(ConversationDialog[OutboundConversation]):
    def why_not(self, row: OutboundConversation) -> str:
        """Whether all is accounted for, the flow knows."""
        match row.state:
            case NumberingState.BEGINNING:
                return "its next message has Reset already."
            case NumberingState.CONFIRMING:
                return "its message with Reset is not acknowledged yet."
        return ""


class LastOfOrderForm(ReasonForm):
    last = number_field(
        conversation_actions.START_ORDER_IN.parameters[0],
        UnfoldAdminIntegerFieldWidget(),
        label="Last number",
    )


class StartOrder(ConversationDialog[Conversation]):
    form = LastOfOrderForm


OUT = (
    Restart(conversation_actions.RESTART_CONVERSATION, "restart_alt"),
    StartOrder[OutboundConversation](conversation_actions.START_ORDER_OUT, "start"),
)
IN = (
    OnHeld(conversation_actions.WAIT_ON, "schedule"),
    OnHeld(conversation_actions.SKIP_MISSING, "skip_next"),
    OnHeld(conversation_actions.DROP_HELD, "delete"),
    StartOrder[InboundConversation](conversation_actions.START_ORDER_IN, "start"),
)
