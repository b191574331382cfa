"""`manage.py links`: every partner, both directions."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Q

from msh.management.cli import MshCommand, Row
from msh.models import OutboundState
from msh.protocol import sequence
from msh.protocol.lane import LaneState
from partners.models import Partner

COLUMNS = ("partner", "direction", "state", "next_number", "queued")


class Command(MshCommand):
    help = "List links: partner, direction, state, next number, messages queued."

    def handle(self, *args: Any, **options: Any) -> None:
        self.answer_rows(links(), COLUMNS, as_json=options["json"])


def links() -> Iterable[Row]:
    """Two rows a partner. Inbound: `next_number` is the one expected; nothing waits there."""
    queued = Count(
        "outbound_link__messages",
        filter=Q(outbound_link__messages__state=OutboundState.QUEUED),
    )
    partners = Partner.objects.select_related("outbound_link", "inbound_link")
    counts = dict(Partner.objects.annotate(queued=queued).values_list("pk", "queued"))
    for partner in partners.order_by("name"):
        out, into = _link(partner, "outbound_link"), _link(partner, "inbound_link")
        state = out.state if out else LaneState.IDLE.value
        next_out = out.next_number if out else sequence.FIRST
        last = into.last_number if into else None
        next_in = sequence.FIRST if last is None else sequence.following(last)
        yield _row(partner.name, "out", state, next_out, counts[partner.pk])
        yield _row(partner.name, "in", LaneState.IDLE.value, next_in, 0)


def _link(partner: Partner, name: str) -> Any:
    return getattr(partner, name) if hasattr(partner, name) else None


def _row(*values: Any) -> Row:
    return dict(zip(COLUMNS, values, strict=True))
