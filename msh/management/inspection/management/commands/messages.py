"""`manage.py messages`: what went out, what came in, what was refused."""

from argparse import ArgumentParser
from collections.abc import Iterable

from django.db.models import Exists, OuterRef, QuerySet

from msh.flows.operations.inspection.trace import message_counts
from msh.management.cli import MshCommand, Row
from msh.models import InboundMessage, OutboundMessage, Signal, SignalKind, shown_state
from msh.protocol.vocabulary import ErrorCode

COLUMNS = ("message_id", "partner", "direction", "state", "sequence_number")


class Command(MshCommand):
    help = "List messages: MessageId, partner, direction, state, SequenceNumber. Or count them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--partner", help="only messages of this partner")
        parser.add_argument(
            "--counts", action="store_true", help="print the number of each event instead"
        )

    def handle(self, *args: object, partner: str | None, **options: object) -> None:
        name = self.partner(partner).name if partner else ""
        if options["counts"]:
            counts = message_counts(partner=name)
            rows: list[Row] = [{"event": event, "count": n} for event, n in counts.items()]
            self.answer_rows(rows, ("event", "count"))
            return
        rows = [row for row in messages() if name in ("", row["partner"])]
        self.answer_rows(rows, COLUMNS)


def messages() -> Iterable[Row]:
    """Outbound, accepted and refused messages, each kind in its order."""
    outbound = OutboundMessage.objects.order_by("pk").values_list(
        "message_id", "link__partner__name", shown_state(), "sequence_number"
    )
    for message_id, partner, state, number in outbound.iterator():
        yield _row(message_id, partner, "out", state, number)
    inbound = InboundMessage.objects.order_by("pk").values_list(
        "message_id", "link__partner__name", "state", "sequence_number"
    )
    for message_id, partner, state, number in inbound.iterator():
        yield _row(message_id, partner, "in", state, number)
    for message_id, partner, number in _refused().iterator():
        yield _row(message_id, partner, "in", "refused", number)


def _row(message_id: str, partner: str, direction: str, state: str, number: int | None) -> Row:
    values = (message_id, partner, direction, state, number)
    return dict(zip(COLUMNS, values, strict=True))


def _refused() -> QuerySet[Signal, tuple[str, str, int | None]]:
    """Messages that we answered with an Error and have not accepted since."""
    accepted = InboundMessage.objects.filter(
        link=OuterRef("link"), message_id=OuterRef("ref_to_message_id")
    )
    refused = Signal.objects.filter(~Exists(accepted), kind=SignalKind.ERROR)
    refused = refused.exclude(code=ErrorCode.TRANSIENT_ERROR).order_by("pk")
    return refused.values_list("ref_to_message_id", "link__partner__name", "sequence_number")
