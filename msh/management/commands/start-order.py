"""`manage.py start-order TPA_ID CONVERSATION --direction in|out --last N`: taking over from another
MSH, for one conversation, or letting one begin with another number than 0."""

from argparse import ArgumentParser
from typing import Any

from msh.flows.operations import conversation_actions
from msh.management.actions import ConversationCommand
from msh.store.history import Actor
from partners.models import Agreement

ACTIONS = {
    "in": conversation_actions.START_ORDER_IN,
    "out": conversation_actions.START_ORDER_OUT,
}


class Command(ConversationCommand):
    action = conversation_actions.START_ORDER_OUT  # its texts and parameters are those of both
    has_to_say_why = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--direction", required=True, choices=list(ACTIONS))

    def act(
        self, agreement: Agreement, conversation: str, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        direction, last = options["direction"], options["last"]
        ACTIONS[direction].flow(agreement, conversation, last=last, actor=actor)
        return {"direction": direction, "last": last}, f"the last number {direction} was {last}."
