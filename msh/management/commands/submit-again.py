"""`manage.py submit-again MESSAGE_ID --reason TEXT [--verdict …]`: a new message with the payloads
of one that failed or was cancelled."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import actions, cancel
from msh.flows.operations.operator_action import VERDICT
from msh.management.actions import actor_of, add_alone, add_parameter, add_reason
from msh.management.cli import MshCommand
from msh.protocol.kinds import Verdict


class Command(MshCommand):
    help = actions.SUBMIT_AGAIN.summary

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("message_id")
        parser.add_argument("--partner", help="its partner, if several have this MessageId")
        add_parameter(parser, VERDICT, required=False)
        add_reason(parser)
        add_alone(parser)

    def handle(self, *args: object, message_id: str, verdict: str | None, **options: Any) -> None:
        name = options["partner"]
        actor = actor_of(options)
        try:
            message = cancel.find(message_id, self.partner(name) if name else None)
            copy = actions.SUBMIT_AGAIN.flow(message, actor, Verdict(verdict) if verdict else None)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        answer = {
            "message_id": message.message_id,
            "partner": message.link.partner.name,
            "submitted_as": copy.message_id,
        }
        self.answer(answer, f"{message_id}: submitted again as {copy}.")
