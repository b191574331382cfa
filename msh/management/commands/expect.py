"""`manage.py expect NAME --number N --reason TEXT`: give up missing numbers of a partner."""

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import resynchronise
from msh.management.cli import NameCommand, reason
from msh.store.history import Actor


class Command(NameCommand):
    help = "Take this number next from a partner. The ones before it are given up as lost."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--number", required=True, type=int, help="1 to 999999999")
        parser.add_argument("--reason", type=reason, required=True, help="why: kept in the history")

    def handle(self, *args: Any, name: str, number: int, reason: str, **options: Any) -> None:
        actor = Actor(getpass.getuser(), reason)
        try:
            lost = resynchronise.expect(self.partner(name), number, actor)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        answer = {"partner": name, "expected": number, "given_up": lost}
        text = f"{name}: number {number} is taken next. Given up as lost: {lost}."
        self.answer(answer, text, as_json=options["json"])
