"""Base class of the pages of outbound and inbound messages."""

from collections.abc import Iterable
from typing import Any, TypeVar, cast

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.flows.operations.inspection.trace import Moment, folded, trace_of_row
from msh.models import InboundMessage, OutboundMessage
from msh.models.message import MessageQuerySet

from .content import ContentPages, Message
from .search import SEARCH_FILTERS

AnyMessage = TypeVar("AnyMessage", OutboundMessage, InboundMessage)
TIMELINE_HEADERS = ("Time", "Event", "State", "By", "Detail")


class MessageAdmin(ContentPages, LargeTableAdmin[AnyMessage]):
    """Search by ids and filters; a page with timeline and payloads; subpages with the content."""

    list_filter = SEARCH_FILTERS
    list_filter_submit = True
    search_fields = ("message_id", "conversation_id")
    search_help_text = "Complete MessageId or ConversationId"

    def search(self, rows: QuerySet[AnyMessage], term: str) -> QuerySet[AnyMessage]:
        return cast("MessageQuerySet[AnyMessage]", rows).with_id(term)

    def payloads(self, message: AnyMessage) -> Iterable[Any]:
        """Its payload rows without their content, annotated with `size` in bytes."""
        raise NotImplementedError

    def tables(self, request: HttpRequest, row: AnyMessage) -> list[Table]:
        return [_timeline(row), self._payloads(request, row)]

    def _payloads(self, request: HttpRequest, message: AnyMessage) -> Table:
        seen = self.can_view_payloads(request)
        headers = ("Part", "Label", "Content type", "Content-ID", "Description", "Size", "Content")
        rows = [
            (
                part.position,
                markup.isolated(part.label),
                markup.isolated(part.content_type),
                markup.isolated(part.content_id),
                markup.isolated(part.description),
                filesizeformat(part.size),
                self._content(message, part.position) if seen else "no permission",
            )
            for part in self.payloads(message)
        ]
        return Table("Payloads", headers, rows, "No payloads.")

    def _content(self, message: Message, position: int) -> SafeString:
        return format_html(
            '<a href="{}" class="text-link">view</a> <a href="{}" class="text-link">download</a>',
            self.content_url("payload", message.pk, position),
            self.content_url("payload_bytes", message.pk, position),
        )

    @display(description="MessageId")
    def identity(self, message: Message) -> str:
        return markup.isolated(message.message_id)

    @display(description="ConversationId")
    def conversation(self, message: AnyMessage) -> str:
        """With a link to the order that it has a place in."""
        order = self.order_of(message)
        return markup.link_to(order) if order else markup.isolated(message.conversation_id)

    def order_of(self, message: AnyMessage) -> Model | None:
        raise NotImplementedError

    @display(description="RefToMessageId")
    def refers_to(self, message: Message) -> str:
        return markup.trace_link(message.ref_to_message_id)

    @display(description="Header document")
    def header_document(self, message: Message) -> str:
        address = self.content_url("header", message.pk)
        return format_html('<a href="{}" class="text-link">view</a>', address)

    @display(description="Partner")
    def partner(self, message: Message) -> str:
        return markup.link_to(message.link, message.link.partner)

    @display(description="Number")
    def number(self, message: Message) -> int | str:
        return markup.number_of(message)

    @display(description="State")
    def status(self, message: Message) -> str:
        return markup.state_badge(message)

    @display(description="ServiceInterface / Action")
    def purpose(self, message: Message) -> str:
        return markup.isolated(f"{message.service_interface} / {message.action}")


def _timeline(message: Message) -> Table:
    """Repeated events are one row, with their count."""
    rows = [_timeline_row(moment) for moment in folded(trace_of_row(message))]
    return Table("Timeline", TIMELINE_HEADERS, rows, "No events.")


def _timeline_row(moment: Moment) -> tuple[str, ...]:
    return (
        markup.time_of(moment.at),
        moment.event,
        moment.to_state or markup.DASH,
        moment.actor,
        markup.verbatim(moment.detail),
    )
