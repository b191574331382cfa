"""`manage.py expect NAME --number N --reason TEXT`: give up missing numbers of a partner."""

from typing import Any

from msh.flows.operations import link_actions
from msh.management.actions import ActionCommand
from msh.store.history import Actor
from partners.models import Partner


class Command(ActionCommand):
    action = link_actions.EXPECT

    def act(
        self, partner: Partner, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        number = options["number"]
        lost = self.action.flow(partner, number, actor)
        text = f"number {number} is taken next. Given up as lost: {lost}."
        return {"expected": number, "given_up": lost}, text
