"""`manage.py resynchronise NAME`: compare both sides; `--apply` brings them together."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from msh.flows.errors import NotPossible
from msh.flows.operations import link_actions, resynchronise
from msh.flows.operations.resynchronise import Comparison
from msh.management.actions import actor_of, add_alone
from msh.management.cli import NameCommand, reason
from msh.protocol import sequence
from msh.protocol.link_status import LinkStatus
from partners.models import Partner


class Command(NameCommand):
    help = (
        "Compare our sequence numbers with the partner's and show what may be lost or duplicated."
        " Changes nothing without --apply."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--apply", action="store_true", help="repair, then resume")
        parser.add_argument("--reason", type=reason, help="reason, required with --apply")
        add_alone(parser)
        typed = parser.add_argument_group(
            "information from the partner's operator, if its MSH cannot be queried"
        )
        typed.add_argument("--last", type=int, help="the last number it accepted, 0: none")
        typed.add_argument("--last-id", default="", help="the MessageId it accepted last")
        typed.add_argument("--has", action="append", default=[], help="a MessageId it has")
        typed.add_argument(
            "--lacks", action="append", default=[], help="a MessageId it does not have"
        )

    def handle(self, *args: object, name: str, **options: object) -> None:
        partner = self.partner(name)
        if options["apply"] and not options["reason"]:
            raise CommandError("--apply needs a --reason, which is recorded in the history.")
        try:
            theirs = _typed(options) or resynchronise.ask(partner)
            compared = _compared(partner, theirs, options)
        except NotPossible as refused:
            raise CommandError(str(refused)) from None
        applied = bool(options["apply"])
        text = "\n".join(_lines(compared, applied=applied))
        self.answer(_answer(name, compared, applied=applied), text)


def _typed(options: dict[str, Any]) -> LinkStatus | None:
    """What the operator was told by the partner, None if the partner's MSH is to be asked."""
    last = options["last"]
    if last is None:
        return None
    if not 0 <= last <= sequence.LAST:
        raise CommandError(f"The last number is 0 to {sequence.LAST}, not {last}.")
    if last and not options["last_id"]:
        raise CommandError("--last needs --last-id: a number alone proves nothing.")
    known = dict.fromkeys(options["has"], True) | dict.fromkeys(options["lacks"], False)
    return LinkStatus(last or None, options["last_id"], known=known)


def _compared(partner: Partner, theirs: LinkStatus, options: dict[str, Any]) -> Comparison:
    if not options["apply"]:
        return resynchronise.compare(partner, theirs)
    compared: Comparison = link_actions.RESYNCHRONISE.flow(partner, theirs, actor_of(options))
    return compared


def _lines(compared: Comparison, *, applied: bool) -> list[str]:
    made, ours, theirs = compared.plan, compared.ours, compared.theirs
    none = "nothing" if made.is_known else "not known yet"
    return [
        f"To the partner: we send {ours.coming} next; it accepted"
        f" {theirs.accepted_number or 'nothing'} last {theirs.accepted_message_id}".rstrip()
        + ".",
        made.text,
        f"May be lost: {made.lost or none}.",
        f"May be duplicated: {made.duplicated or none}.",
        *(f"The partner has it already: {message_id}" for message_id in compared.received),
        f"From the partner: {compared.arriving_text}",
        "Done and resumed."
        if applied
        else "Nothing was changed. Use --apply to repair and resume.",
    ]


def _answer(name: str, compared: Comparison, *, applied: bool) -> dict[str, object]:
    made, theirs = compared.plan, compared.theirs
    return {
        "partner": name,
        "repair": made.repair,
        "text": made.text,
        "lost": made.lost,
        "duplicated": made.duplicated,
        "verdict": made.verdict,
        "completes": made.completes,
        "received": list(compared.received),
        "next_number": compared.ours.coming,
        "accepted_number": theirs.accepted_number,
        "accepted_message_id": theirs.accepted_message_id,
        "arriving": compared.arriving,
        "arriving_text": compared.arriving_text,
        "applied": applied,
    }
