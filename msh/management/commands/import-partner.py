"""`manage.py import-partner FILE --reason TEXT`: docs/scale.md."""

from argparse import ArgumentParser
from pathlib import Path

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import move_partner
from msh.management.actions import actor_of, add_reason
from msh.management.cli import MshCommand


class Command(MshCommand):
    help = (
        "Import a partner that another MSH has exported to a file, and serve it here. It stays"
        " suspended."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", type=Path)
        add_reason(parser)

    def handle(self, *args: object, file: Path, **options: object) -> None:
        try:
            moved = move_partner.load(file, actor_of(options))
        except (NotPossible, OSError) as refused:
            raise CommandError(str(refused)) from None
        text = (
            f"Partner {moved.partner} is served here. Resume it when its traffic is routed to"
            " this MSH."
        )
        if moved.again:
            text = f"Partner {moved.partner} was imported before: nothing was changed."
        value = {"partner": moved.partner, "again": moved.again}
        self.answer(value, text)
