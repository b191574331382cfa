"""`manage.py decide VERB DELIVERY… --reason TEXT`, or `--all-in STATE`."""

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.operations.change_delivery import VERBS, decide
from msh.management.cli import MshCommand, reason
from msh.models import Delivery
from msh.models.delivery import OPEN_TO_OPERATORS
from msh.store.history import Actor


class Command(MshCommand):
    help = "Decide what becomes of deliveries: of those named, or of all in one state."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("verb", choices=list(VERBS))
        parser.add_argument("delivery", nargs="*", type=int, help="numbers of `deliveries`")
        parser.add_argument("--all-in", choices=[state.value for state in OPEN_TO_OPERATORS])
        parser.add_argument("--consumer", help="with --all-in: only of this consumer")
        parser.add_argument("--reason", type=reason, required=True, help="why: kept in the history")

    def handle(self, *args: Any, verb: str, reason: str, **options: Any) -> None:
        keys = options["delivery"] or self._all_in(options["all_in"], options["consumer"])
        decided = decide(keys, verb, Actor(getpass.getuser(), reason))
        answer = {"done": decided.done, "refused": decided.refused}
        lines = [f"{verb}: {len(decided.done)} done.", *decided.refused]
        self.answer(answer, "\n".join(lines), as_json=options["json"])
        if decided.refused:
            raise CommandError(f"{len(decided.refused)} of {len(keys)} were refused.")

    def _all_in(self, state: str | None, consumer: str | None) -> list[int]:
        if state is None:
            raise CommandError("Name deliveries, or --all-in a state.")
        found = Delivery.objects.filter(state=state)
        if consumer:
            found = found.filter(consumer__name=consumer)
        return list(found.values_list("pk", flat=True))
