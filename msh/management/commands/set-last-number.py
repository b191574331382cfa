"""`manage.py set-last-number NAME --direction in|out --last N --reason TEXT`: taking over from
another MSH (D50)."""

from argparse import ArgumentParser
from typing import Any

from msh.flows.operations import link_actions
from msh.management.actions import ActionCommand
from msh.store.history import Actor
from partners.models import Partner

ACTIONS = {"in": link_actions.SET_LAST_NUMBER_IN, "out": link_actions.SET_LAST_NUMBER_OUT}


class Command(ActionCommand):
    action = link_actions.SET_LAST_NUMBER_OUT  # its texts and parameters are those of both

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--direction", required=True, choices=list(ACTIONS))

    def act(
        self, partner: Partner, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        direction, last = options["direction"], options["last"]
        ACTIONS[direction].flow(partner, last=last, actor=actor)
        return {"direction": direction, "last": last}, f"the last number {direction} was {last}."
