"""`manage.py replay DELIVERY --reason TEXT`, or `--consumer NAME [--since TIME]`."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import actions
from msh.flows.operations.many import bulk_jobs
from msh.flows.operations.many.bulk_jobs import Limits
from msh.management.actions import actor_of, add_reason, begun, moment, require_reason
from msh.management.cli import MshCommand
from msh.models import EVER, BulkAction, BulkJob, Consumer, Delivery


class Command(MshCommand):
    help = (
        "Have messages that a consumer has completed delivered to it once more, as replays: one"
        " delivery, or all of a consumer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "delivery", nargs="?", type=int, help="number as listed by `deliveries`"
        )
        parser.add_argument("--consumer", help="all that this consumer has completed")
        parser.add_argument(
            "--since",
            metavar="TIME",
            type=moment,
            help="with --consumer: only messages received since then; UTC unless it says otherwise",
        )
        parser.add_argument("--partner", help="with --consumer: only messages from this partner")
        parser.add_argument(
            "--dry-run", action="store_true", help="with --consumer: only count the messages"
        )
        add_reason(parser, required=False)

    def handle(self, *args: object, delivery: int | None, **options: object) -> None:
        if (delivery is None) == (options["consumer"] is None):
            raise CommandError("Name a delivery, or a consumer by --consumer: one of both.")
        if delivery is not None and options["dry_run"]:
            raise CommandError("--dry-run counts what --consumer matches, not a delivery.")
        if not options["dry_run"]:
            require_reason(options)
        try:
            if delivery is not None:
                answer, text = begun(self._one(delivery, options))
            else:
                answer, text = self._all(options)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        self.answer(answer, f"{text[:1].upper()}{text[1:]}")

    def _one(self, key: int, options: dict[str, Any]) -> BulkJob:
        """Raises NotPossible."""
        row = Delivery.objects.select_related("message").filter(pk=key).first()
        if row is None:
            raise CommandError(f"There is no delivery {key}.")
        job: BulkJob = actions.REPLAY.flow(row, actor_of(options))
        return job

    def _all(self, options: dict[str, Any]) -> tuple[dict[str, object], str]:
        """Raises NotPossible."""
        since, limits = options["since"] or EVER, self._limits(options)
        if options["dry_run"]:
            count = bulk_jobs.rows_of(BulkAction.REPLAY, since, **limits).count()
            return {"count": count}, f"{count} messages would be delivered again."
        return begun(bulk_jobs.start(BulkAction.REPLAY, since, None, actor_of(options), **limits))

    def _limits(self, options: dict[str, Any]) -> Limits:
        consumer = Consumer.objects.filter(name=options["consumer"]).first()
        if consumer is None:
            names = ", ".join(Consumer.objects.values_list("name", flat=True)) or "none yet"
            raise CommandError(f"No consumer {options['consumer']!r}. Consumers: {names}.")
        partner = self.partner(options["partner"]).name if options["partner"] else ""
        return {"consumer": consumer.pk, "partner": partner}
