"""What the commands for scripts share: `--data`, `--json`, who acts, how they answer."""

import getpass
import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from msh.flows import operate
from msh.flows.advance import Actor
from partners.models import Partner

Row = Mapping[str, Any]


class MshCommand(BaseCommand):
    """A command on one MSH: the one of `--data FOLDER`, or of the environment."""

    requires_system_checks = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        try:
            return super().execute(*args, **options)
        except OperationalError as error:
            told = str(error).strip().partition("\n")[0]
            raise CommandError(
                f"The database of the MSH cannot be used: {told}. Name the MSH by --data FOLDER,"
                " MSH_DATA or DATABASE_URL."
            ) from None

    def add_arguments(self, parser: ArgumentParser) -> None:
        # manage.py has read --data already; it is here for --help and so that it is accepted.
        parser.add_argument("--data", metavar="FOLDER", help="the folder of the MSH")
        parser.add_argument("--json", action="store_true", help="answer in JSON")

    def answer(self, value: Any, text: str, *, as_json: bool) -> None:
        """Print `value` as JSON, or `text` for a person."""
        self.stdout.write(json.dumps(value, default=str) if as_json else text)

    def answer_rows(self, rows: Iterable[Row], columns: Sequence[str], *, as_json: bool) -> None:
        """Print rows as a JSON list, or as aligned columns."""
        listed = list(rows)
        self.answer(listed, _table(listed, columns), as_json=as_json)

    def partner(self, name: str) -> Partner:
        """The partner called `name`, or an error that lists the names there are."""
        partner = Partner.objects.filter(name=name).first()
        if partner is None:
            names = ", ".join(Partner.objects.values_list("name", flat=True)) or "none yet"
            raise CommandError(f"There is no partner {name!r}. Partners: {names}.")
        return partner


def reason(text: str) -> str:
    """Why, as `--reason` has it, for the history. Raises ArgumentTypeError if it says nothing."""
    if not text.strip():
        raise ArgumentTypeError("say why: it is kept in the history")
    return text.strip()


class NameCommand(MshCommand):
    """A command on one partner: NAME."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="the partner")


class VerbCommand(NameCommand):
    """An operator's verb on one partner: NAME --reason TEXT."""

    verb: Any
    done: str

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", type=reason, required=True, help="why: kept in the history")

    def handle(self, *args: Any, name: str, reason: str, **options: Any) -> None:
        partner = self.partner(name)
        try:
            state = type(self).verb(partner, Actor(getpass.getuser(), reason))
        except operate.NotPossible as refused:
            raise CommandError(str(refused)) from None
        answer = {"partner": name, "state": state}
        text = f"{name}: {self.done}. Its link is {state}."
        self.answer(answer, text, as_json=options["json"])


def _table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    lines = [columns, *cells]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
