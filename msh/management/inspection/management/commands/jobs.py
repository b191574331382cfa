"""`manage.py jobs`: bulk jobs, the latest first. `manage.py jobs JOB`: its rows."""

from argparse import ArgumentParser, ArgumentTypeError

from django.core.management.base import CommandError

from msh.management.cli import MshCommand
from msh.models import BulkItem, BulkJob, BulkState

JOB = (
    *("id", "state", "action", "total", "done", "refused", "actor", "started_at", "ended_at"),
    "reason",
)
ROW = ("key", "done", "label", "detail")
LIMIT = 1000


class Command(MshCommand):
    help = "List bulk jobs, the latest first; or the rows of one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("job", nargs="?", type=int, help="list the rows of this job")
        parser.add_argument("--state", choices=BulkState.values, help="only jobs in this state")
        parser.add_argument(
            "--limit",
            type=_limit,
            help=f"at most so many jobs (default: {LIMIT}), or rows of a job (default: all)",
        )

    def handle(self, *args: object, job: int | None, **options: object) -> None:
        if job is not None:
            if not BulkJob.objects.filter(pk=job).exists():
                raise CommandError(f"There is no bulk job {job}.")
            rows = BulkItem.objects.filter(job=job).order_by("pk").values(*ROW)
            rows = rows[: options["limit"]]
            self.answer_rows(rows.iterator(), ROW)
            return
        found = BulkJob.objects.order_by("-pk").values(*JOB)
        if options["state"]:
            found = found.filter(state=options["state"])
        self.answer_rows(found[: options["limit"] or LIMIT], JOB)


def _limit(text: str) -> int:
    """Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number of lines: give 1 or more")
    return int(text)
