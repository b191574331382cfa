"""`manage.py links`: every partner, both directions."""

from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from django.core.management.base import CommandError
from django.db.models import Count, Q

from msh.flows.operations.inspection.trace import Moment, folded, whole_history_of_link
from msh.management.cli import MshCommand, Row
from msh.models import Flight, InboundLink, OutboundLink, OutboundMessage
from msh.protocol import sequence
from msh.protocol.lane import LaneState
from partners.models import Partner

COLUMNS = ("partner", "direction", "state", "late_ack", "next_number", "queued")
MOMENT = [one.name for one in fields(Moment)]


class Command(MshCommand):
    help = (
        "List links: partner, direction, state, whether the message it is suspended for was"
        " acknowledged late, next number, messages queued. With --history PARTNER: what happened to"
        " the links with this partner, and what was refused of it before it was a message."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--history", metavar="PARTNER", help="of its links, oldest first")

    def handle(self, *args: object, history: str | None = None, **options: object) -> None:
        if history is None:
            self.answer_rows(links(), COLUMNS)
            return
        partner = Partner.objects.filter(name=history).first()
        if partner is None:
            raise CommandError(f"No partner is named {history!r}.")
        moments = whole_history_of_link(partner.pk)
        rows = moments if self.as_json else folded(moments)
        self.answer_rows(map(asdict, rows), MOMENT)


def links() -> Iterable[Row]:
    """Two rows a partner. Inbound: `next_number` is the one expected; nothing waits there. Besides
    the COLUMNS: which message is in flight, and since when it is suspended."""
    queue = OutboundMessage.objects.queued().order_by().values("link__partner")
    queued = dict(queue.annotate(n=Count("pk")).values_list("link__partner", "n"))
    flying = dict(
        OutboundLink.objects.exclude(in_flight=None).values_list("pk", "in_flight__message_id")
    )
    flights = {row["link"]: row for row in _flights()}
    partners = Partner.objects.select_related("outbound_link", "inbound_link")
    for partner in partners.order_by("name"):
        out: OutboundLink | None = getattr(partner, "outbound_link", None)
        into: InboundLink | None = getattr(partner, "inbound_link", None)
        state = out.state if out else LaneState.IDLE.value
        late = out.late_ack if out else False
        next_out = out.next_number if out else sequence.FIRST
        last = into.last_number if into else None
        next_in = sequence.FIRST if last is None else sequence.following(last)
        key = out.pk if out else 0
        of_flights = flights.get(key, _NO_FLIGHTS)
        waiting = queued.get(partner.pk, 0) + of_flights["ready"]
        row = _row(partner.name, "out", state, late, next_out, waiting)
        since = out.suspended_since if out else None
        yield {
            **row,
            "in_flight": flying.get(key),
            "suspended_since": since,
            "under_way": of_flights["under_way_now"],
            "held": of_flights["held"],
        }
        yield _row(partner.name, "in", LaneState.IDLE.value, False, next_in, 0)


_NO_FLIGHTS = {"ready": 0, "under_way_now": 0, "held": 0}


def _flights() -> list[dict[str, Any]]:
    under_way = Q(under_way=True)
    counted = Flight.objects.values("link").annotate(
        ready=Count("pk", filter=Q(state="ready") & ~under_way),
        under_way_now=Count("pk", filter=under_way),
        held=Count("pk", filter=Q(state="held")),
    )
    return [dict(row) for row in counted]


def _row(*values: object) -> Row:
    return dict(zip(COLUMNS, values, strict=True))
