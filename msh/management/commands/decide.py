"""`manage.py decide VERB DELIVERY… --reason TEXT`, or `--all-in STATE`."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.operations import actions
from msh.flows.operations.change_delivery import decide
from msh.management.actions import actor_of, add_reason
from msh.management.cli import MshCommand
from msh.models import Delivery
from msh.models.delivery import OPEN_TO_OPERATORS


class Command(MshCommand):
    help = "Decide deliveries: the given ones, or all in one state."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("action", choices=[action.hyphenated for action in actions.DECISIONS])
        parser.add_argument(
            "delivery", nargs="*", type=int, help="numbers as listed by `deliveries`"
        )
        parser.add_argument("--all-in", choices=[state.value for state in OPEN_TO_OPERATORS])
        parser.add_argument("--consumer", help="with --all-in: only deliveries of this consumer")
        add_reason(parser)

    def handle(self, *args: object, action: str, **options: Any) -> None:
        keys = options["delivery"] or self._all_in(options["all_in"], options["consumer"])
        decided = decide(keys, action, actor_of(options))
        answer = {"done": decided.done, "refused": decided.refused}
        lines = [f"{action}: {len(decided.done)} done.", *decided.refused]
        self.answer(answer, "\n".join(lines))
        if decided.refused:
            raise CommandError(f"{len(decided.refused)} of {len(keys)} were refused.")

    def _all_in(self, state: str | None, consumer: str | None) -> list[int]:
        if state is None:
            raise CommandError("Specify deliveries, or --all-in with a state.")
        found = Delivery.objects.filter(state=state)
        if consumer:
            found = found.filter(consumer__name=consumer)
        return list(found.values_list("pk", flat=True))
