"""`manage.py report NAME [--month YYYY-MM]`: the monthly report of a partner."""

import re
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.utils import timezone

from msh.management.cli import NameCommand
from msh.statistics.flows.periods import month_before
from msh.statistics.flows.report import report_of, send


class Command(NameCommand):
    help = (
        "Write the monthly report of a partner: how many messages, how fast they were"
        " acknowledged, when sending was suspended. Prints the text, or writes an HTML page."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--month", type=_month, help=("YYYY-MM; default: the last complete month")
        )
        parser.add_argument(
            "--output", type=Path, metavar="FILE", help=("write the HTML page to this file")
        )
        parser.add_argument(
            "--mail",
            nargs="+",
            default=[],
            metavar="ADDRESS",
            help=("send the report to these addresses"),
        )

    def handle(self, *args: object, name: str, **options: Any) -> None:
        month = options["month"] or month_before(timezone.now())
        try:
            report = report_of(self.partner(name), *month)
        except ValueError:
            raise CommandError(f"There is no month {month[0]}-{month[1]}.") from None
        if options["output"]:
            try:
                options["output"].write_text(report.html(), encoding="utf-8")
            except OSError as error:
                file = options["output"]
                raise CommandError(f"{file} cannot be written: {error.strerror}.") from None
        if options["mail"]:
            try:
                send(report, options["mail"])
            except OSError as error:
                raise CommandError(f"The report was not sent: {error}") from None
        value = {
            "partner": name,
            "month": f"{report.begin:%Y-%m}",
            "complete": report.is_complete,
            "sentences": report.sentences,
        }
        self.answer(value, report.text())


def _month(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{4})-(\d{2})", text)
    if not found:
        raise ArgumentTypeError("enter the month as YYYY-MM")
    return int(found[1]), int(found[2])
