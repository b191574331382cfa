"""`manage.py start-link NAME --direction in|out --last N`: taking over from another MSH (D50)."""

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import change_link
from msh.management.cli import MshCommand
from msh.store.history import Actor


class Command(MshCommand):
    help = "Set the last number of an unused link; the next message gets the following number."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="the partner")
        parser.add_argument("--direction", required=True, choices=["in", "out"])
        parser.add_argument("--last", required=True, type=int, help="1 to 999999999")

    def handle(self, *args: Any, name: str, direction: str, last: int, **options: Any) -> None:
        try:
            change_link.start_link(self.partner(name), direction, last, Actor(getpass.getuser()))
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        answer = {"partner": name, "direction": direction, "last": last}
        text = f"{name}: the last number {direction} was {last}."
        self.answer(answer, text, as_json=options["json"])
