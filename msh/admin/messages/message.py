"""Base class of the pages of outbound and inbound messages."""

from collections.abc import Iterable, Sequence
from html import unescape
from typing import Any, TypeVar, cast

from django.contrib.admin.utils import display_for_field, flatten, label_for_field
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html, strip_tags
from django.utils.safestring import SafeString
from unfold.decorators import display

from msh.admin.framework import headline, markup
from msh.admin.framework.found_by import found_messages, tables_of_message
from msh.admin.framework.headline import Headline
from msh.admin.framework.key_column import KeyColumn
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.admin.framework.timeline import timeline_of
from msh.models import InboundMessage, OutboundMessage
from msh.models.message import MessageQuerySet

from .content import ContentPages, Message
from .search import SEARCH_FILTERS

AnyMessage = TypeVar("AnyMessage", OutboundMessage, InboundMessage)


class MessageAdmin(KeyColumn, ContentPages, LargeTableAdmin[AnyMessage]):
    """Search by ids and filters; a page with timeline and payloads; subpages with the content."""

    list_filter: Sequence[Any] = SEARCH_FILTERS
    list_filter_submit = True
    list_display_links = ("in_list",)
    search_fields = ("message_id", "conversation_id")
    search_help_text = "Complete MessageId, ConversationId or business key"

    def search(
        self, request: HttpRequest, rows: QuerySet[AnyMessage], term: str
    ) -> QuerySet[AnyMessage]:
        keys = found_messages(request, self.direction, term)
        return cast("MessageQuerySet[AnyMessage]", rows).with_id(term, keys)

    change_form_outer_before_template = headline.TEMPLATE
    change_form_outer_after_template = None

    def head(self, request: HttpRequest, message: AnyMessage) -> Headline:
        raise NotImplementedError

    def page_context(self, request: HttpRequest, row: AnyMessage) -> dict[str, object]:
        return {"headline": self.head(request, row)}

    def facts(self, message: AnyMessage, names: Sequence[str]) -> list[tuple[str, object]]:
        labels = (str(label_for_field(name, type(message), self)) for name in names)
        return [
            (f"{label[:1].upper()}{label[1:]}", self.fact(message, name))
            for label, name in zip(labels, names, strict=True)
        ]

    def fact(self, message: AnyMessage, name: str) -> object:
        """Return what the page shows for a method of this class or for a field."""
        if method := getattr(self, name, None):
            return method(message)
        field: Any = self.opts.get_field(name)
        return display_for_field(getattr(message, name), field, markup.DASH)

    def get_fields(
        self, request: HttpRequest, obj: AnyMessage | None = None
    ) -> Sequence[str | Sequence[str]]:
        """The fields that have a value, in pairs."""
        names = [
            one
            for one in flatten(self.fields or ())
            if obj is None or self.fact(obj, one) not in ("", markup.DASH)
        ]
        return [tuple(names[i : i + 2]) for i in range(0, len(names), 2)]

    def payloads(self, message: AnyMessage) -> Iterable[Any]:
        """Its payload rows without their content, annotated with `size` in bytes."""
        raise NotImplementedError

    def tables(self, request: HttpRequest, row: AnyMessage) -> list[Table]:
        found_by: list[Table] = [
            one for find in tables_of_message for one in find(request, self.direction, row.pk)
        ]
        return [timeline_of(row), *found_by, self._payloads(request, row)]

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

    @display(description="Message")
    def in_list(self, message: Message) -> str:
        """In a cell that links to the message: links cannot be nested."""
        shown = '{}<div class="msh-note msh-clip" title="{}">{}</div>'
        purpose = self.purpose(message)
        one_line = markup.one_line(message.message_id)
        return format_html(shown, one_line, unescape(strip_tags(purpose)), purpose)

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
