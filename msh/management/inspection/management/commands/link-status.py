"""`manage.py link-status NAME`: what the partner's MSH says of the pair."""

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from msh.flows.receiving import link_status
from msh.management.cli import NameCommand
from msh.protocol.link_status import LinkStatus


class Command(NameCommand):
    help = "Query a partner's MSH: the last number it accepted, and the next number it will send."

    def handle(self, *args: object, name: str, **options: Any) -> None:
        try:
            status = link_status.enquire(self.partner(name), options["message_id"])
        except link_status.NoStatus as problem:
            raise CommandError(str(problem)) from None
        last = status.accepted_number
        lines = [
            f"{name} accepted number {last} last, MessageId {status.accepted_message_id}."
            if last is not None
            else f"{name} has not accepted any message from us yet.",
            f"Its next number to us is {status.coming}."
            if status.coming is not None
            else "It did not report its next number to us.",
            *(f"{message_id}: {_standing(status, message_id)}" for message_id in status.known),
        ]
        answer = {"partner": name, **asdict(status)}
        self.answer(answer, "\n".join(lines))

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--message-id", action="append", default=[], help="query whether it has this message"
        )


def _standing(status: LinkStatus, message_id: str) -> str:
    if message_id in status.withheld:
        return "accepted, being forwarded, not acknowledged yet"
    return "accepted" if status.has(message_id) else "not accepted"
