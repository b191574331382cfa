"""Messages from partners: list, and the page of one."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.headline import ALARM, Headline
from msh.admin.framework.pages import Table
from msh.models import InboundConversation, InboundMessage, InboundPayload, InboundState

from .message import MessageAdmin
from .undelivered import Standstill, why_not_delivered

_SENTENCES = {
    InboundState.ACCEPTED: "Stored and acknowledged.",
    InboundState.HELD: (
        "Stored and acknowledged. An earlier message of its conversation is missing."
    ),
    InboundState.DELIVERED: "Delivered to the application.",
    InboundState.REJECTED: "The application rejected it. It is not delivered again.",
    InboundState.PARKED: "Stored and acknowledged. Messages behind it are delivered without it.",
    InboundState.ROUTED: "Stored. It is forwarded when it is acknowledged.",
    InboundState.WITHHELD: "Stored. It is to be forwarded, and is acknowledged after that.",
    InboundState.FORWARDING: "Forwarded. The next MSH has not acknowledged it yet.",
    InboundState.FORWARDED: "Forwarded, and acknowledged by the next MSH.",
}


@admin.register(InboundMessage)
class InboundMessageAdmin(MessageAdmin[InboundMessage]):
    direction = "inbound"
    list_display = ("in_list", "partner", "number", "status", "received", "delivered")
    payload_permissions = ("msh.view_inboundmessage", "msh.view_payload_inboundmessage")
    in_head = (
        "partner",
        "number",
        "purpose",
        "conversation",
        "received",
        "delivered",
        "duplicates",
    )
    fields = ("identity", "agreement", "semantics", "header_document", "refers_to", "sent")

    def page_context(self, request: HttpRequest, row: InboundMessage) -> dict[str, object]:
        waits = _waiting(request, row)
        return {"headline": self._head(row, waits), "jumps": waits.jumps if waits else ()}

    def _head(self, message: InboundMessage, waits: Standstill | None) -> Headline:
        sentence: str = _SENTENCES[InboundState(message.state)]
        decided = message.deliveries.select_related("consumer").waiting_for_operator().first()
        if waits:
            sentence = format_html("{} {}", sentence, waits.why)
        elif decided:
            page = markup.link_to(decided, f"the delivery to {decided.consumer}")
            sentence = format_html("{} An operator decides on {}.", sentence, page)
        return Headline(
            badge=self.status(message),
            sentence=sentence,
            advice=waits.ask if waits else "",
            tone=ALARM if decided or (waits and waits.jumps) else "",
            facts=self.facts(message, self.in_head),
            live=waits is not None,
        )

    def get_queryset(self, request: HttpRequest) -> QuerySet[InboundMessage]:
        messages: QuerySet[InboundMessage] = super().get_queryset(request)
        related = messages.select_related("link__partner", "agreement")
        return related.defer("header", "content_digest")

    def payloads(self, message: InboundMessage) -> QuerySet[InboundPayload]:
        return InboundPayload.objects.filter(message=message).defer("content")

    def order_of(self, message: InboundMessage) -> InboundConversation | None:
        return message.ordered_in

    def tables(self, request: HttpRequest, row: InboundMessage) -> list[Table]:
        return [_deliveries(row), *super().tables(request, row)]

    @display(description="Sent at")
    def sent(self, message: InboundMessage) -> str:
        """As its partner says: any time at all."""
        return markup.time_of(message.sent_at)

    @display(description="Received")
    def received(self, message: InboundMessage) -> str:
        return markup.time_of(message.received_at)

    @display(description="Delivered")
    def delivered(self, message: InboundMessage) -> str:
        return markup.time_of(message.delivered_at)


def _waiting(request: HttpRequest, message: InboundMessage) -> Standstill | None:
    """What keeps it from our application; None if it has it, or never gets it from here."""
    waits = message.state in (InboundState.ACCEPTED, InboundState.HELD)
    return why_not_delivered(request, message) if waits else None


def _deliveries(message: InboundMessage) -> Table:
    """Each links to its page, which has the actions."""
    deliveries = message.deliveries.select_related("consumer")
    rows = [
        (
            markup.link_to(one, one.consumer),
            markup.state_badge(one),
            one.attempt,
            markup.time_of(one.started_at),
            markup.time_of(one.ended_at),
            markup.isolated(one.external_id),
            markup.verbatim(one.detail),
        )
        for one in deliveries
    ]
    headers = ("Consumer", "State", "Attempt", "Started", "Ended", "External id", "Last error")
    return Table("Deliveries", headers, rows, "Not delivered to any consumer yet.")
