"""`manage.py prune`: remove what is older than it has to be kept."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations.prune import (
    ClockDoubtful,
    Progress,
    PruningAlready,
    prunable,
    prune_by_hand,
    unfinished,
)
from msh.management.actions import actor_of, add_alone, add_reason
from msh.management.cli import MshCommand
from partners.retention import kept_longer

REPORT_EVERY = 5.0
"""Seconds."""


class Command(MshCommand):
    help = (
        "Remove finished messages and payloads that are older than MSH_KEEP_MESSAGES and"
        " MSH_KEEP_PAYLOADS."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="only list what would be removed"
        )
        parser.add_argument(
            "--the-clock-is-right",
            action="store_true",
            help="remove even if the last run was more than 35 days ago by this clock",
        )
        add_reason(parser, required=False)
        add_alone(parser)

    def handle(self, *args: object, dry_run: bool, **options: Any) -> None:
        right = options["the_clock_is_right"]
        try:
            if dry_run:
                counts = prunable()
            else:
                actor = actor_of(options)
                counts = prune_by_hand(actor, self._progress(), clock_is_right=right)
        except (PruningAlready, ClockDoubtful, NotPossible) as refused:
            raise CommandError(str(refused)) from None
        verb = "would be removed" if dry_run else "removed"
        lines = [f"{count} {kind} {verb}" for kind, count in counts.items()]
        for why in (*kept_longer().values(), *unfinished()):
            self.stderr.write(why)
        self.answer(counts, "\n".join(lines))

    def _progress(self) -> Progress:
        """A line every few seconds on standard error, apart from the answer."""
        printed_at = time.monotonic()

        def report(kind: str, count: int) -> None:
            nonlocal printed_at
            if time.monotonic() - printed_at >= REPORT_EVERY:
                printed_at = time.monotonic()
                self.stderr.write(f"{count} {kind} removed so far")

        return report
