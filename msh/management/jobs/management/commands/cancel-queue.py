"""`manage.py cancel-queue NAME --reason TEXT`: cancel what is queued to a partner, as a job."""

from argparse import ArgumentParser
from typing import Any

from msh.flows.errors import NotPossible
from msh.flows.operations import link_actions
from msh.flows.operations.many.cancel_queue import queue_of
from msh.management.actions import ActionCommand, require_reason
from msh.management.jobs.answers import begun
from msh.models import OutboundLink
from msh.store.history import Actor
from partners.models import Partner

_COUNTED = ("count", "later", "oldest", "last")


class Command(ActionCommand):
    action = link_actions.CANCEL_QUEUE
    has_to_say_why = False  # for --dry-run

    def add_parameters(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="only say what would be cancelled"
        )
        parser.add_argument(
            "--last",
            type=int,
            metavar="ROW",
            help="`last` as --dry-run --json says it: what was queued later is not cancelled",
        )

    def act(
        self, partner: Partner, actor: Actor, options: dict[str, Any]
    ) -> tuple[dict[str, object], str]:
        link = OutboundLink.objects.select_related("partner").filter(partner=partner).first()
        if link is None:
            raise NotPossible(f"Partner {partner.name} has no link yet.")
        queue = queue_of(link)
        if options["dry_run"]:
            stay = f" {queue.later} later ones would stay queued." if queue.later else ""
            text = f"{queue.count} messages would be cancelled, --last {queue.last}.{stay}"
            return {name: getattr(queue, name) for name in _COUNTED}, text
        require_reason(options)
        last = queue.last if options["last"] is None else options["last"]
        return begun(self.action.flow(link, actor, last))
