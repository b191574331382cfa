"""`manage.py allow-reset NAME --reason TEXT`: let the partner's next number 1 in."""

from typing import Any

from msh.flows.operations import link_actions
from msh.management.actions import ActionCommand
from msh.store.history import Actor
from partners.models import Partner


class Command(ActionCommand):
    action = link_actions.ALLOW_RESET

    def act(
        self, partner: Partner, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        self.action.flow(partner, actor)
        return {"reset_allowed": True}, "its next number 1 is accepted."
