"""`manage.py trace MESSAGE_ID`: what happened to a message and why it waits, on one screen."""

from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import fields

from django.core.management.base import CommandError

from msh.flows.operations.inspection.trace import (
    Moment,
    folded,
    found_by_value,
    trace_of,
    whole_trace_of,
)
from msh.flows.operations.inspection.why_not_sent import explanation_of
from msh.management.cli import MshCommand, Row
from msh.models import OutboundMessage

COLUMNS = [
    one.name for one in fields(Moment) if one.name not in ("times", "since", "number", "answered")
]
"""Of what happened several times, the detail says how often and since when. JSON has all fields."""


class Command(MshCommand):
    help = (
        "Print why a message is not sent or not acknowledged yet, and its history. Repetitions are"
        " one line; the middle of a long history is only counted."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("message_id", help="a MessageId or a business key")
        parser.add_argument("--all", action="store_true", help="the complete history")

    def handle(self, *args: object, message_id: str, **options: object) -> None:
        moments = list(whole_trace_of(message_id)) if options["all"] else trace_of(message_id)
        if not moments and (found := _with_value(message_id)):
            if len({row["message_id"] for row in found}) > 1:
                self.answer_rows(found, list(found[0]))
                return
            message_id = found[0]["message_id"]
            moments = list(whole_trace_of(message_id)) if options["all"] else trace_of(message_id)
        if not moments:
            raise CommandError(
                f"Unknown message {message_id!r}: it was never stored here, or it was pruned. No"
                " business key has this value."
            )
        whole = options["all"] or self.as_json
        rows = list(map(Moment.document, moments if whole else folded(moments)))
        messages = list(_explanations(message_id))
        if self.as_json:
            self.answer({"messages": messages, "history": rows}, "")
            return
        for message in messages:
            self.stdout.write(f"To {message['partner']}: {message['explanation']}")
        self.answer_rows(rows, COLUMNS)


def _with_value(value: str) -> list[Row]:
    return [row for find in found_by_value for row in find(value)]


def _explanations(message_id: str) -> Iterable[Row]:
    """Each partner may have a message with this MessageId."""
    messages = OutboundMessage.objects.with_message_id(message_id).order_by("pk")
    for key, partner, state in messages.values_list("pk", "link__partner__name", "state"):
        yield {"partner": partner, "state": state, "explanation": explanation_of(key)}
