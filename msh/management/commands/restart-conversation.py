"""`manage.py restart-conversation TPA_ID CONVERSATION --reason TEXT`: its next message is Reset."""

from typing import Any

from msh.flows.operations import conversation_actions
from msh.management.actions import ConversationCommand
from msh.store.history import Actor
from partners.models import Agreement


class Command(ConversationCommand):
    action = conversation_actions.RESTART_CONVERSATION

    def act(
        self, agreement: Agreement, conversation: str, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        self.action.flow(agreement, conversation, actor)
        return {}, f"{self.action.done}."
