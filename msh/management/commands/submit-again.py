"""`manage.py submit-again MESSAGE_ID --reason TEXT [--verdict …]`: a new message with the payloads
of one that failed or was cancelled."""

from msh.flows.operations import actions
from msh.management.actions import VerdictCommand
from msh.models import OutboundMessage
from msh.protocol.kinds import Verdict
from msh.store.history import Actor


class Command(VerdictCommand):
    action = actions.SUBMIT_AGAIN

    def act(
        self, message: OutboundMessage, verdict: Verdict | None, actor: Actor
    ) -> tuple[dict[str, object], str]:
        copy = self.action.flow(message, actor, verdict)
        return {"submitted_as": copy.message_id}, f"submitted again as {copy}."
