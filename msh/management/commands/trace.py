"""`manage.py trace MESSAGE_ID`: what happened to a message, on one screen."""

from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import astuple
from typing import Any

from django.core.management.base import CommandError

from msh.flows.operations.trace import Moment, folded, trace_of, whole_trace_of
from msh.management.cli import MshCommand, Row

COLUMNS = ("at", "direction", "partner", "event", "from", "to", "actor", "detail")
COUNTED = (*COLUMNS, "times", "since")


class Command(MshCommand):
    help = (
        "Print the history of a message. Repetitions are one line; the middle of a long history"
        " is only counted."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("message_id")
        parser.add_argument("--all", action="store_true", help="the complete history")

    def handle(self, *args: object, message_id: str, **options: Any) -> None:
        moments = list(whole_trace_of(message_id)) if options["all"] else trace_of(message_id)
        if not moments:
            raise CommandError(f"Unknown message {message_id!r}.")
        whole = options["all"] or options["json"]
        self.answer_rows(
            _rows(moments if whole else folded(moments)), COLUMNS, as_json=options["json"]
        )


def _rows(moments: Iterable[Moment]) -> Iterable[Row]:
    for moment in moments:
        yield dict(zip(COUNTED, astuple(moment), strict=True))
