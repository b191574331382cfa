"""`manage.py export-partner NAME FILE --to MSH --reason TEXT`: docs/scale.md."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import move_partner
from msh.management.actions import actor_of, add_reason
from msh.management.cli import NameCommand


class Command(NameCommand):
    help = "Export a suspended partner to a file for another MSH, and stop serving it here."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("file", nargs="?", type=Path, help="with credentials and payloads")
        parser.add_argument("--to", metavar="MSH", help="your name for the other MSH")
        text = "serve it here again; only if the file was not imported anywhere"
        parser.add_argument("--undo", action="store_true", help=text)
        add_reason(parser)

    def handle(self, *args: object, name: str, file: Path | None, **options: Any) -> None:
        partner, actor = self.partner(name), actor_of(options)
        try:
            if options["undo"]:
                move_partner.reopen(partner, actor)
                text = f"Partner {name} is served here again. Its link is still suspended."
            elif file and options["to"]:
                move_partner.export(partner, file, options["to"], actor)
                text = f"Partner {name} was exported to {file} and is no longer served here."
            else:
                raise CommandError("Specify a file, and the other MSH with --to.")
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        self.answer({"partner": name, "file": file}, text)
