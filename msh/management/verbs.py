"""What the commands share that are an operator's verb on one partner."""

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows import operate
from msh.flows.advance import Actor
from msh.management.cli import NameCommand, reason


class VerbCommand(NameCommand):
    """An operator's verb on one partner: NAME --reason TEXT."""

    verb: Any
    done = ""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", type=reason, required=True, help="why: kept in the history")

    def handle(self, *args: Any, name: str, reason: str, **options: Any) -> None:
        partner = self.partner(name)
        try:
            done = type(self).verb(partner, Actor(getpass.getuser(), reason))
        except operate.NotPossible as refused:
            raise CommandError(str(refused)) from None
        answer = {"partner": name, "state": done.state, "text": done.text}
        text = ": ".join(part for part in (name, self.done, done.text) if part)
        self.answer(answer, f"{text}. Its link is {done.state}.", as_json=options["json"])
