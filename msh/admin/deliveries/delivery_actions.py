"""The decisions of an operator on a delivery."""

from django.utils import timezone

from msh.admin.framework import markup
from msh.admin.framework.actions import ActionDialog
from msh.flows.operations import actions, change_delivery
from msh.flows.operations.operator_action import OperatorAction
from msh.models import Delivery, InboundState
from msh.protocol.delivery import step
from msh.protocol.delivery.events import Delivery as Value
from msh.protocol.errors import IllegalTransition
from msh.protocol.kinds import DeliveryState

ACKNOWLEDGED = "The partner does not have to do anything: it has its Acknowledgement."
_LEFT = "Messages behind it have been delivered already: it is delivered out of order."

ICONS = {
    "run_again": "replay",
    "mark_completed": "done_all",
    "ask_resolver": "help",
    "park": "inventory_2",
    "reject": "block",
}


class Decide(ActionDialog[Delivery]):
    """A decision of `flows.operations.change_delivery`."""

    def __init__(self, action: OperatorAction) -> None:
        super().__init__(action, ICONS[action.name])
        self.decision = action.hyphenated

    def why_not(self, row: Delivery) -> str:
        before = Value(
            DeliveryState(row.state), row.attempt, row.failures, row.due, _is_parked(row)
        )
        event = change_delivery.DECISIONS[self.decision]
        try:
            step(before, event, row.consumer.policy, now=timezone.now())
        except IllegalTransition:
            resolver = self.decision == "ask-resolver" and not row.consumer.resolver
            without = f" and consumer {row.consumer} has no resolver" if resolver else ""
            return f"the delivery is {row.get_state_display()}{without}."
        return ""

    def consequence(self, row: Delivery) -> str:
        message = row.message
        number = f"Message {message.sequence_number or ''}".strip()
        which = f"{number} of {message.link.partner}, {markup.escape_invisible(message.message_id)}"
        late = [_LEFT] if self.decision == "run-again" and _is_parked(row) else []
        tries = f"attempt {row.attempt}: {row.get_state_display()}"
        about = f"{which}, to consumer {row.consumer} ({tries})."
        return " ".join((about, self.action.effect, *late, ACKNOWLEDGED))

    def version(self, row: Delivery) -> str:
        return f"attempt {row.attempt}"


def _is_parked(row: Delivery) -> bool:
    """Whether the messages behind it no longer wait for it."""
    return bool(row.replay_of_id) or bool(row.message.state == InboundState.PARKED)


def consequence_of_many(dialog: Decide) -> str:
    late = f" If parked: {_LEFT[0].lower()}{_LEFT[1:]}" if dialog.decision == "run-again" else ""
    return f"{dialog.action.effect}{late}"


REPLAY: ActionDialog[Delivery] = ActionDialog(actions.REPLAY, "event_repeat")
DECISIONS = {action.hyphenated: Decide(action) for action in actions.DECISIONS}
