"""What the commands for scripts share: `--data`, `--json`, and the form of their output.

Scripts call them by the hundred, so nothing is imported here that a command which only reads does
without: the flows that write, and with them Celery, Redis and HTTP clients.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from msh import checks
from msh.flows.errors import SecondPersonNeeded
from msh.flows.operations import guard
from msh.store import server
from partners.models import Partner

Row = Mapping[str, Any]
NOT_YET = 3
"""Exit status: not done, a second person must confirm it."""


class MshCommand(BaseCommand):
    """A command on one MSH: the one of `--data FOLDER`, or of the environment."""

    requires_system_checks = ()
    as_json = False

    def execute(self, *args: object, **options: Any) -> str | None:
        self.as_json = options["json"]
        try:
            if not server.has_tables():
                raise CommandError(f"{checks.NOT_PREPARED} Run manage.py prepare.")
            return super().execute(*args, **options)
        except SecondPersonNeeded as needed:
            raise CommandError(guard.ask(needed).text, returncode=NOT_YET) from None
        except OperationalError as error:
            problem = str(error).strip().partition("\n")[0]
            raise CommandError(
                f"The database of the MSH cannot be used: {problem}. Specify the MSH with --data"
                " FOLDER, MSH_DATA or DATABASE_URL."
            ) from None

    def add_arguments(self, parser: ArgumentParser) -> None:
        # manage.py has read --data already; it is here for --help and so that it is accepted.
        parser.add_argument("--data", metavar="FOLDER", help="the folder of the MSH")
        parser.add_argument("--json", action="store_true", help="answer in JSON")

    def answer(self, value: object, text: str) -> None:
        """Print `value` as JSON, or `text` for a person."""
        self.stdout.write(json.dumps(value, default=str) if self.as_json else text)

    def answer_rows(self, rows: Iterable[Row], columns: Sequence[str]) -> None:
        """Print rows as a JSON list, or as aligned columns."""
        listed = list(rows)
        self.answer(listed, _table(listed, columns))

    def partner(self, name: str) -> Partner:
        """The partner called `name`, or an error that lists the names there are."""
        partner = Partner.objects.filter(name=name).first()
        if partner is None:
            names = ", ".join(Partner.objects.values_list("name", flat=True)) or "none yet"
            raise CommandError(f"No partner {name!r}. Partners: {names}.")
        return partner


def reason(text: str) -> str:
    """Why, as `--reason` has it, for the history. Raises ArgumentTypeError if it says nothing."""
    if not text.strip():
        raise ArgumentTypeError("a reason is required: it is recorded in the history")
    return text.strip()


class NameCommand(MshCommand):
    """A command on one partner: NAME."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="the partner")


def _table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    lines = [columns, *cells]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None else str(value)
