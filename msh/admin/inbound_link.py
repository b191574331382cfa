"""Links from partners: the last message accepted, and the number that is expected next."""

from typing import Any

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from unfold.decorators import display

from msh.models import Direction, InboundLink, InboundMessage, InboundState
from msh.protocol import sequence

from . import cells, inbound_verbs, switches
from .base import ReadOnlyAdmin
from .history import history_of_link
from .tables import Table

FIRST_ROWS = 10


@admin.register(InboundLink)
class InboundLinkAdmin(ReadOnlyAdmin):
    list_display = ("partner", "last_number", "last_message", "expected", "undelivered")
    list_select_related = ("partner",)
    search_fields = ("partner__name", "partner__uri")
    search_help_text = "Partner or its URI"
    ordering = ("partner__name",)
    sortable_by = ()
    fields = (("partner", "epoch"), ("last_number", "expected"), ("last_message", "undelivered"))

    verbs = (*inbound_verbs.VERBS, *switches.DELIVERING)

    def get_queryset(self, request: HttpRequest) -> QuerySet[InboundLink]:
        links: QuerySet[InboundLink] = super().get_queryset(request)
        waiting = InboundMessage.objects.filter(link=OuterRef("pk"), state=InboundState.ACCEPTED)
        counted = waiting.order_by().values("link").annotate(count=Count("pk")).values("count")
        return links.annotate(waiting=Coalesce(Subquery(counted), 0))

    @display(description="Last MessageId")
    def last_message(self, link: InboundLink) -> str:
        return cells.find_message(link.last_message_id, Direction.IN)

    @display(description="Expected next")
    def expected(self, link: InboundLink) -> int:
        if link.last_number is None:
            return sequence.FIRST
        return sequence.following(link.last_number)

    @display(description="Not delivered yet")
    def undelivered(self, link: Any) -> int:
        return int(link.waiting)

    def tables(self, request: HttpRequest, row: InboundLink) -> list[Table]:
        return [_last_messages(row), history_of_link(row.partner_id, Direction.IN)]


def _last_messages(link: InboundLink) -> Table:
    messages = InboundMessage.objects.filter(link=link).defer("header")
    rows = [
        (
            cells.link_to(message),
            message.sequence_number or cells.DASH,
            cells.state_badge(message),
            f"{message.service_interface} / {message.action}",
            cells.time_of(message.received_at),
        )
        for message in messages[:FIRST_ROWS]
    ]
    return Table(
        "Messages, the last first",
        ("MessageId", "Number", "State", "ServiceInterface / Action", "Received"),
        rows,
        "None was accepted yet.",
        cells.list_url(InboundMessage, link__partner__id__exact=link.partner_id),
    )
