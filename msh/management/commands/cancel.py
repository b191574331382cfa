"""`manage.py cancel MESSAGE_ID --reason TEXT [--verdict …]`: end a message that is not done."""

from msh.flows.operations import actions
from msh.management.actions import VerdictCommand
from msh.models import OutboundMessage
from msh.protocol.kinds import Verdict
from msh.store.history import Actor


class Command(VerdictCommand):
    action = actions.CANCEL

    def act(
        self, message: OutboundMessage, verdict: Verdict | None, actor: Actor
    ) -> tuple[dict[str, object], str]:
        self.action.flow(message, verdict, actor)
        message.refresh_from_db()
        answer: dict[str, object] = {"state": message.state, "outcome": message.outcome}
        return answer, f"cancelled, {message.outcome}. Its sender is notified."
