"""`manage.py cancel MESSAGE_ID --reason TEXT [--verdict …]`: end a message that is not done."""

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import cancel
from msh.management.cli import MshCommand, reason
from msh.protocol.events import Verdict
from msh.store.history import Actor


class Command(MshCommand):
    help = "Cancel a queued message; or the one in flight, with a verdict. Its sender is told."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("message_id")
        parser.add_argument("--partner", help="its partner, if several have this MessageId")
        parser.add_argument(
            "--verdict",
            choices=[verdict.value for verdict in Verdict],
            help="in flight: did the partner receive it? unknown starts the numbers again at 1",
        )
        parser.add_argument("--reason", type=reason, required=True, help="why: kept in the history")

    def handle(self, *args: Any, message_id: str, verdict: str | None, **options: Any) -> None:
        name = options["partner"]
        actor = Actor(getpass.getuser(), options["reason"])
        try:
            message = cancel.find(message_id, self.partner(name) if name else None)
            cancel.cancel(message, Verdict(verdict) if verdict else None, actor)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        message.refresh_from_db()
        answer = {
            "message_id": message.message_id,
            "partner": message.link.partner.name,
            "state": message.state,
            "outcome": message.outcome,
        }
        text = f"{message_id}: cancelled, {message.outcome}. Its sender is told."
        self.answer(answer, text, as_json=options["json"])
