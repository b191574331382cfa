"""`manage.py maintenance`: maintenance windows that are planned or running, or all."""

from argparse import ArgumentParser
from typing import Any

from msh.management.cli import MshCommand
from msh.models import MaintenanceWindow
from msh.protocol.maintenance import OPEN

COLUMNS = (*("id", "partner", "state", "starts_at", "ends_at", "planned_by", "reason", "outcome"),)


class Command(MshCommand):
    help = "List maintenance windows that are planned or running."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--partner", help="only windows of this partner")
        parser.add_argument("--all", action="store_true", help="also those that are over")

    def handle(self, *args: object, **options: Any) -> None:
        found = MaintenanceWindow.objects.order_by("starts_at", "pk")
        if not options["all"]:
            found = found.filter(state__in=OPEN)
        if options["partner"]:
            found = found.filter(partner=self.partner(options["partner"]))
        paths = ["partner__name" if name == "partner" else name for name in COLUMNS]
        rows = found.values_list(*paths).iterator()
        shown = (dict(zip(COLUMNS, row, strict=True)) for row in rows)
        self.answer_rows(shown, COLUMNS)
