"""What the pages of outbound and inbound messages share."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from unfold.decorators import display

from msh.models import InboundMessage, OutboundMessage

from . import cells
from .base import EndlessAdmin
from .search import NumberFilter, PartnerFilter, StateFilter, TpaFilter, moments
from .tables import Table
from .timeline import timeline

Message = OutboundMessage | InboundMessage


def searched_by(time: str, what: str) -> tuple[Any, ...]:
    """The filters of a list, of which `time` is the field that its rows are in the order of."""
    return (
        ("state", StateFilter),
        ("link__partner", PartnerFilter),
        TpaFilter,
        NumberFilter,
        *moments(time, what),
    )


class MessageAdmin(EndlessAdmin):
    """Found by its ids; told from submit to the end; its payloads named, not shown."""

    list_filter_submit = True
    search_fields = ("message_id", "conversation_id")
    search_help_text = "MessageId or ConversationId, whole"

    def get_search_results(
        self, request: HttpRequest, queryset: Any, search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (queryset.with_id(term) if term else queryset), False

    def payloads(self, message: Any) -> Iterable[Any]:
        """Its payload rows without their content, annotated with `size` in bytes."""
        raise NotImplementedError

    def tables(self, request: HttpRequest, row: Message) -> list[Table]:
        return [timeline(row), _payloads(self.payloads(row))]

    @display(description="Partner")
    def partner(self, message: Message) -> str:
        return cells.link_to(message.link, message.link.partner)

    @display(description="Number", empty_value=cells.DASH)
    def number(self, message: Message) -> int | None:
        return message.sequence_number

    @display(description="State")
    def status(self, message: Message) -> str:
        return cells.state_badge(message)

    @display(description="ServiceInterface / Action")
    def purpose(self, message: Message) -> str:
        return f"{message.service_interface} / {message.action}"


def _payloads(parts: Iterable[Any]) -> Table:
    headers = ("Part", "Label", "Content type", "Content-ID", "Description", "Size")
    rows = [
        (
            part.position,
            part.label or cells.DASH,
            part.content_type,
            part.content_id,
            part.description or cells.DASH,
            filesizeformat(part.size),
        )
        for part in parts
    ]
    return Table("Payloads", headers, rows, "It has no payload.")
