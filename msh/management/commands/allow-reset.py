"""`manage.py allow-reset NAME --reason TEXT`: let the partner's next number 1 in."""

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import resynchronise
from msh.management.cli import NameCommand, reason
from msh.store.history import Actor


class Command(NameCommand):
    help = "Let a partner start its numbers again at 1, whatever the agreement says of it. Once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", type=reason, required=True, help="why: kept in the history")

    def handle(self, *args: Any, name: str, reason: str, **options: Any) -> None:
        try:
            resynchronise.allow_reset(self.partner(name), Actor(getpass.getuser(), reason))
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        answer = {"partner": name, "reset_allowed": True}
        self.answer(answer, f"{name}: its next number 1 is accepted.", as_json=options["json"])
