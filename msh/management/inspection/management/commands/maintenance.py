"""`manage.py maintenance`: maintenance windows that are planned or running, or all."""

from argparse import ArgumentParser
from typing import Any

from django.db.models import F

from msh.management.cli import MshCommand
from msh.models import MaintenanceWindow
from msh.protocol.alerts.maintenance import OPEN

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
        others = (name for name in COLUMNS if name != "partner")
        rows = found.annotate(name=F("partner__name")).values(*others, "name").iterator()
        shown = ({**row, "partner": row.pop("name")} for row in rows)
        self.answer_rows(shown, COLUMNS, as_json=options["json"])
