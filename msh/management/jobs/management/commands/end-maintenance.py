"""`manage.py end-maintenance WINDOW --reason TEXT`: cancel a window, or end it early."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import actions
from msh.management.actions import actor_of, add_reason
from msh.management.cli import MshCommand
from msh.models import MaintenanceWindow


class Command(MshCommand):
    help = actions.END_MAINTENANCE.summary

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("window", type=int, help="number as listed by `maintenance`")
        add_reason(parser)

    def handle(self, *args: object, window: int, **options: object) -> None:
        row = MaintenanceWindow.objects.select_related("partner").filter(pk=window).first()
        if row is None:
            raise CommandError(f"There is no maintenance window {window}.")
        try:
            actions.END_MAINTENANCE.flow(row, actor_of(options))
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        row.refresh_from_db()
        answer = {"window": row.pk, "partner": row.partner.name, "state": row.state}
        text = f"Maintenance window {row.pk} is {row.state}. {row.outcome}".strip()
        self.answer({**answer, "outcome": row.outcome}, text)
