"""Conversations in order: the page of one, and those on the page of a link that need attention."""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.actions import Row
from msh.admin.framework.pages import LargeTableAdmin, Table
from msh.flows.operations.change_flight import flight_of
from msh.models import (
    InboundConversation,
    InboundLink,
    InboundMessage,
    InboundState,
    OutboundConversation,
    OutboundLink,
    OutboundMessage,
    shown_state,
)
from msh.protocol.flight.numbering import NumberingState

from . import conversation_actions

FIRST_ROWS = 10


class ConversationAdmin(LargeTableAdmin[Row]):
    search_fields = ("conversation_id",)
    search_help_text = "Complete ConversationId"
    list_display = ("identity", "partner", "agreement", "state_now", "next_number")
    fields = (
        ("identity", "partner"),
        ("agreement", "state_now"),
        ("next_number", "all_messages"),
    )
    list_filter = ()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Row]:
        rows: QuerySet[Row] = super().get_queryset(request)
        return rows.select_related("link__partner", "agreement__partner")

    @display(description="ConversationId")
    def identity(self, row: Any) -> str:
        return markup.isolated(row.conversation_id)

    @display(description="Partner")
    def partner(self, row: Any) -> str:
        return markup.link_to(row.link, row.link.partner)

    @display(description="State")
    def state_now(self, row: Any) -> str:
        raise NotImplementedError


@admin.register(OutboundConversation)
class OutboundConversationAdmin(ConversationAdmin[OutboundConversation]):
    operator_actions = conversation_actions.OUT

    @display(description="State")
    def state_now(self, row: OutboundConversation) -> str:
        variant = "danger" if row.state == NumberingState.STOPPED else "info"
        return markup.badge(row.state, variant)

    @display(description="Messages")
    def all_messages(self, row: OutboundConversation) -> str:
        return _messages(OutboundMessage, row.conversation_id)

    def tables(self, request: HttpRequest, row: OutboundConversation) -> list[Table]:
        about = {"agreement": row.agreement_id}
        stopping = OutboundMessage.objects.filter(link=row.link_id, **about)
        found = stopping.filter(message_id__in=row.stopped_by).order_by("pk")
        joined = found.select_related("agreement", "flight").annotate(shown=shown_state())
        shown: QuerySet[Any] = joined.defer("head")[:FIRST_ROWS]
        cells = [
            (markup.link_to(one), _number(one), one.shown, markup.time_of(one.submitted_at))
            for one in shown
        ]
        headers = ("MessageId", "MessageOrder", "State", "Submitted")
        return [Table("Stopped by", headers, cells, "Nothing stops it.")]


def _number(message: Any) -> object:
    flight = flight_of(message)
    number = message.order_number if flight is None else flight.number
    return markup.DASH if number is None else number


@admin.register(InboundConversation)
class InboundConversationAdmin(ConversationAdmin[InboundConversation]):
    operator_actions = conversation_actions.IN

    @display(description="State")
    def state_now(self, row: InboundConversation) -> str:
        if row.called:
            return markup.badge("a message is missing", "danger")
        return markup.badge("waits for a message", "warning") if row.due else "in order"

    @display(description="Messages")
    def all_messages(self, row: InboundConversation) -> str:
        return _messages(InboundMessage, row.conversation_id)

    def tables(self, request: HttpRequest, row: InboundConversation) -> list[Table]:
        held = row.messages.filter(state=InboundState.HELD).order_by("order_number")
        cells = [
            (markup.link_to(one), one.order_number, markup.time_of(one.received_at))
            for one in held.defer("header")[:FIRST_ROWS]
        ]
        headers = ("MessageId", "MessageOrder", "Received")
        return [Table("Held, lowest number first", headers, cells, "No message is held.")]


def _messages(model: type[InboundMessage | OutboundMessage], conversation_id: str) -> str:
    url = markup.list_url(model, q=conversation_id)
    return format_html('<a href="{}" class="text-link">show all</a>', url)


def stopped_conversations(link: OutboundLink) -> list[Table]:
    """Of a link to a partner; none if there is none."""
    stopped = link.conversations.filter(state=NumberingState.STOPPED).order_by("pk")
    rows = [
        (markup.link_to(one), one.next_number, ", ".join(map(str, one.stopped_by)) or markup.DASH)
        for one in stopped[:FIRST_ROWS]
    ]
    headers = ("ConversationId", "Next number", "Stopped by")
    return [Table("Conversations that stand still", headers, rows, "")] if rows else []


def incomplete_conversations(link: InboundLink) -> list[Table]:
    """Of a link from a partner; none if there is none."""
    waiting = link.conversations.filter(Q(due__isnull=False) | Q(called=True)).order_by("pk")
    rows = [
        (markup.link_to(one), one.next_number, markup.time_of(one.due), "yes" if one.called else "")
        for one in waiting[:FIRST_ROWS]
    ]
    headers = ("ConversationId", "Missing number", "Operators are called at", "Were called")
    return [Table("Conversations with a missing message", headers, rows, "")] if rows else []
