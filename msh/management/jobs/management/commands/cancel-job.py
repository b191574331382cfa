"""`manage.py cancel-job JOB --reason TEXT`: start no more rows of a bulk job."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import actions
from msh.management.actions import actor_of, add_reason
from msh.management.cli import MshCommand
from msh.models import BulkJob


class Command(MshCommand):
    help = actions.CANCEL_JOB.summary

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("job", type=int, help="number as listed by `jobs`")
        add_reason(parser)

    def handle(self, *args: object, job: int, **options: object) -> None:
        row = BulkJob.objects.filter(pk=job).first()
        if row is None:
            raise CommandError(f"There is no bulk job {job}.")
        try:
            actions.CANCEL_JOB.flow(row, actor_of(options))
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        row.refresh_from_db()
        finished = row.done + row.refused
        answer = {"job": row.pk, "state": row.state, "total": row.total, "finished": finished}
        text = f"Bulk job {row.pk} is {row.state}: {finished} of {row.total} rows were finished."
        self.answer(answer, text)
