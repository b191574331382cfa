"""`manage.py status MESSAGE_ID`: what the partner says of a message of ours."""

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import cancel
from msh.flows.receiving import questions
from msh.management.cli import MshCommand
from msh.store.history import Actor


class Command(MshCommand):
    help = (
        "Ask the partner's MSH for the status of a message that we sent, and wait at most 60 s."
        " The answer is recorded in the history of the message and completes nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("message_id")
        parser.add_argument("--partner", help="its partner, if several have this MessageId")

    def handle(self, *args: object, message_id: str, **options: Any) -> None:
        name = options["partner"]
        try:
            message = cancel.find(message_id, self.partner(name) if name else None)
            said = questions.ask_status(message, Actor(getpass.getuser()))
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        answer = {
            "message_id": message_id,
            "partner": message.agreement.partner.name,
            "message_status": said.answer,
            "detail": said.detail,
            "seconds": round(said.seconds, 3),
        }
        text = f"{message_id}: {said.answer}"
        self.answer(answer, f"{text}, {said.detail}" if said.detail else text)
