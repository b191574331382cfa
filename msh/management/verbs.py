"""What the commands share that are an operator's verb on one partner."""

import getpass
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import change_link
from msh.management.cli import NameCommand, reason
from msh.store.history import Actor


def _moment(text: str) -> datetime:
    """A time as `links --json` gives it; without a zone it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class VerbCommand(NameCommand):
    """An operator's verb on one partner: NAME --reason TEXT, and what must be so still."""

    verb: Any
    done = ""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--reason", type=reason, required=True, help="why: kept in the history")
        parser.add_argument(
            "--if-message",
            metavar="ID",
            help="only while this message is in flight (links --json: in_flight); '': none",
        )
        parser.add_argument(
            "--if-suspended-since",
            metavar="TIME",
            type=_moment,
            help="only while it is this suspension (links --json: suspended_since)",
        )

    def handle(self, *args: Any, name: str, reason: str, **options: Any) -> None:
        partner = self.partner(name)
        seen = change_link.Seen(options["if_message"], options["if_suspended_since"])
        try:
            done = type(self).verb(partner, Actor(getpass.getuser(), reason), seen)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        answer = {"partner": name, "state": done.state, "text": done.text}
        text = ": ".join(part for part in (name, self.done, done.text) if part)
        self.answer(answer, f"{text}. Its link is {done.state}.", as_json=options["json"])
