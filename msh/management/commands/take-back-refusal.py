"""`manage.py take-back-refusal NAME --message ID --reason TEXT`: judge a refused message anew."""

from typing import Any

from msh.flows.operations import actions
from msh.management.actions import ActionCommand
from msh.store.history import Actor
from partners.models import Partner


class Command(ActionCommand):
    action = actions.TAKE_BACK_REFUSAL

    def act(
        self, partner: Partner, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        message_id = options["message"]
        said = self.action.flow(partner, message_id, actor)
        text = f"{self.action.done} It was refused: {said}"
        return {"message_id": message_id, "refused": said}, text
