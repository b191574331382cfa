"""What the pages of outbound and inbound messages share."""

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from unfold.contrib.filters.admin import ChoicesDropdownFilter, RelatedDropdownFilter
from unfold.decorators import display

from msh.models import InboundMessage, OutboundMessage

from . import cells
from .base import EndlessAdmin
from .tables import Table
from .timeline import timeline

Message = OutboundMessage | InboundMessage


class MessageAdmin(EndlessAdmin):
    """Found by its ids; told from submit to the end; its payloads named, not shown."""

    list_filter = (
        ("state", ChoicesDropdownFilter),
        ("link__partner", RelatedDropdownFilter),
        ("semantics", ChoicesDropdownFilter),
    )
    search_fields = ("message_id", "conversation_id")
    search_help_text = "MessageId or ConversationId, whole"

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
