"""`manage.py cancel-queue NAME --reason TEXT`: cancel what is queued to a partner, as a job."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import link_actions
from msh.flows.operations.many.cancel_queue import queue_of
from msh.management.actions import actor_of, add_alone, add_reason, begun, require_reason
from msh.management.cli import NameCommand
from msh.models import OutboundLink

_COUNTED = ("count", "later", "oldest", "last")


class Command(NameCommand):
    help = link_actions.CANCEL_QUEUE.summary

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="only say what would be cancelled"
        )
        parser.add_argument(
            "--last",
            type=int,
            metavar="ROW",
            help="`last` as --dry-run --json says it: what was queued later is not cancelled",
        )
        add_reason(parser, required=False)
        add_alone(parser)

    def handle(self, *args: object, name: str, **options: Any) -> None:
        links = OutboundLink.objects.select_related("partner")
        link = links.filter(partner=self.partner(name)).first()
        if link is None:
            raise CommandError(f"Partner {name} has no link yet.")
        answer, text = self._act(link, options)
        self.answer({"partner": name, **answer}, f"{name}: {text}")

    def _act(self, link: OutboundLink, options: dict[str, Any]) -> tuple[dict[str, object], str]:
        if options["dry_run"]:
            queue = queue_of(link)
            stay = f" {queue.later} later ones would stay queued." if queue.later else ""
            text = f"{queue.count} messages would be cancelled, --last {queue.last}.{stay}"
            return {name: getattr(queue, name) for name in _COUNTED}, text
        require_reason(options)
        try:
            return begun(link_actions.CANCEL_QUEUE.flow(link, actor_of(options), options["last"]))
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
