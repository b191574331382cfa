"""`manage.py story MESSAGE_ID`: the life of a message, on one screen."""

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError

from msh.management.cli import MshCommand, Row
from msh.models import Attempt, History

COLUMNS = ("at", "direction", "partner", "event", "from", "to", "actor", "detail")


class Command(MshCommand):
    help = "Print everything that happened to a message, in order."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("message_id")

    def handle(self, *args: Any, message_id: str, **options: Any) -> None:
        rows = story(message_id)
        if not rows:
            raise CommandError(f"Nothing is known of a message {message_id!r}.")
        self.answer_rows(rows, COLUMNS, as_json=options["json"])


def story(message_id: str) -> list[Row]:
    """History and attempts of every message with this MessageId, by time."""
    return sorted([*_history(message_id), *_attempts(message_id)], key=lambda row: row["at"])


def _history(message_id: str) -> Iterable[Row]:
    for row in History.objects.filter(message_id=message_id).select_related("partner"):
        values = (row.at, row.direction, row.partner.name, row.event, row.from_state)
        yield _row(*values, row.to_state, row.actor, row.detail)


def _attempts(message_id: str) -> Iterable[Row]:
    attempts = Attempt.objects.filter(message__message_id=message_id)
    for attempt in attempts.select_related("message__link__partner"):
        name = attempt.message.link.partner.name
        what = f"Attempt {attempt.number}"
        yield _row(attempt.claimed_at, "out", name, what, "", "", "msh", "claimed")
        if attempt.ended_at:
            status = f"{attempt.status} " if attempt.status else ""
            detail = f"{status}{attempt.detail}".strip()
            yield _row(attempt.ended_at, "out", name, what, "", attempt.outcome, "msh", detail)


def _row(*values: Any) -> Row:
    return dict(zip(COLUMNS, values, strict=True))
