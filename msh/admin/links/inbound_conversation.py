"""Conversations that we deliver in order: the number that is missing, and what is held."""

from typing import Any

from django.contrib import admin
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from unfold.decorators import display

from msh.admin.framework import markup
from msh.admin.framework.pages import Table
from msh.admin.framework.time_format import format_time
from msh.admin.messages.history import history_of_link
from msh.models import (
    Direction,
    InboundConversation,
    InboundLink,
    InboundMessage,
    InboundState,
)
from msh.protocol.flight.conversation import HELD_LIMIT
from msh.protocol.kinds import IncidentKind

from . import conversation_actions
from .conversation import FIRST_ROWS, ConversationAdmin, is_ordered, list_numbers
from .conversation_actions import count_of, value_of


@admin.register(InboundConversation)
class InboundConversationAdmin(ConversationAdmin[InboundConversation]):
    list_display = ("identity", "partner", "under", "status", "oldest", "call")
    fields = (("identity", "partner"), ("under", "next_message"), ("call", "last_at"))
    operator_actions = conversation_actions.IN
    incident = IncidentKind.PREDECESSOR_MISSING

    def get_queryset(self, request: HttpRequest) -> QuerySet[InboundConversation]:
        rows: QuerySet[InboundConversation] = with_held(super().get_queryset(request))
        return rows

    def waits(self, row: Any) -> bool:
        return bool(row.held_numbers)

    def sentence(self, row: InboundConversation) -> str:
        value = value_of(row)
        if value.held:
            wait = "waits" if len(value.held) == 1 else "wait"
            due = f"is opened at {format_time(row.due, timezone.now())} if it is still missing then"
            return (
                f"Number {value.lacks} is missing: {count_of(len(value.held))} {wait} for it."
                f" An incident {'was opened' if row.called else due}."
            )
        if value.next_number is None:
            return "None of its messages was delivered yet. It begins with number 0 and Reset."
        return f"Its messages are in order. Number {value.lacks} comes next."

    def numbers(self, row: Any) -> str:
        value = value_of(row)
        in_order = _in_order(row)
        delivered = next((one for one in in_order if one.delivered_at), None)
        said = "None of its messages was delivered yet."
        if delivered is not None:
            at = format_time(delivered.delivered_at, timezone.now())
            said = f"Delivered last: number {delivered.order_number}, at {at}."
        accepted = [one for one in reversed(in_order) if one.state == InboundState.ACCEPTED]
        if accepted:
            waits = list_numbers([one.order_number or 0 for one in accepted])
            said += f" Received in order, not delivered yet: {waits}."
        said += f" Next number expected from the partner: {value.lacks}."
        return f"{said} Held: {list_numbers(value.in_order)}." if value.held else said

    def tables(self, request: HttpRequest, row: Any) -> list[Table]:
        return [_held(row), _received(row), history_of_link(row.link.partner_id, Direction.IN)]

    @display(description="Next number")
    def next_message(self, row: InboundConversation) -> str:
        begins = " with Reset" if row.next_number is None else ""
        return f"{value_of(row).lacks}{begins}"

    @display(description="Oldest held")
    def oldest(self, row: Any) -> str:
        return markup.time_and_age(row.held_since) if row.held_since else markup.DASH

    @display(description="Incident")
    def call(self, row: InboundConversation) -> str:
        return call_of(row)


def with_held(conversations: Any) -> Any:
    """With the numbers that are held, at most as many as the protocol allows, and since when."""
    of_it = {"ordered_in": OuterRef("pk"), "state": InboundState.HELD}
    held = InboundMessage.objects.filter(**of_it).order_by()
    return conversations.annotate(
        held_numbers=ArraySubquery(held.values("order_number")),
        held_since=Subquery(held.order_by("received_at").values("received_at")[:1]),
    )


def call_of(row: InboundConversation) -> str:
    if row.called:
        return markup.badge("opened", "danger")
    return format_html("{}", markup.time_of(row.due))


def incomplete_conversations(link: InboundLink) -> list[Table]:
    """None if there is none and no agreement is ordered."""
    waiting = InboundConversation.objects.waiting().filter(link=link).select_related("agreement")
    rows = [
        (
            markup.link_to(one),
            markup.link_to(one.agreement, one.agreement.tpa_id),
            value_of(one).lacks,
            len(one.held_numbers),
            markup.time_and_age(one.held_since) if one.held_since else markup.DASH,
            call_of(one),
        )
        for one in with_held(waiting)[:FIRST_ROWS]
    ]
    if not rows and not is_ordered(link.partner):
        return []
    headers = (
        "ConversationId",
        "TPAId",
        "Missing number",
        "Held",
        "Oldest held",
        "Incident",
    )
    more = markup.list_url(InboundConversation, link__partner__id__exact=link.partner_id)
    return [Table("Conversations with a missing message", headers, rows, "None.", more)]


def _in_order(row: InboundConversation) -> list[InboundMessage]:
    """The newest that are not held, the last in order first. One that was held has an older id than
    what came meanwhile, and there are at most so many."""
    of_it: Any = InboundMessage.objects.in_conversation(row.conversation_id).filter(ordered_in=row)
    newest = of_it.exclude(state=InboundState.HELD).defer("header").order_by("-pk")
    return sorted(newest[: FIRST_ROWS + HELD_LIMIT], key=lambda one: -(one.turn or one.pk))


def _received(row: InboundConversation) -> Table:
    rows = [
        (
            markup.link_to(message),
            markup.number_of(message),
            markup.state_badge(message),
            markup.service_and_action(message),
            markup.time_of(message.received_at),
            markup.time_of(message.delivered_at),
        )
        for message in _in_order(row)[:FIRST_ROWS]
    ]
    headers = (
        *("MessageId", "Number", "State", "ServiceInterface / Action", "Received"),
        "Delivered",
    )
    more = markup.list_url(InboundMessage, q=row.conversation_id)
    return Table("Received in order, last first", headers, rows, "None.", more)


def _held(row: Any) -> Table:
    """The lowest number first."""
    lowest = value_of(row).in_order[:FIRST_ROWS]
    held = InboundMessage.objects.filter(ordered_in=row, state=InboundState.HELD).defer("header")
    by_number = {one.order_number: one for one in held.filter(order_number__in=lowest)}
    rows = [
        (
            markup.link_to(message),
            number,
            markup.service_and_action(message),
            markup.time_of(message.received_at),
        )
        for number in lowest
        if (message := by_number.get(number))
    ]
    headers = ("MessageId", "Number", "ServiceInterface / Action", "Received")
    more = markup.list_url(InboundMessage, q=row.conversation_id)
    return Table("Held, lowest number first", headers, rows, "Nothing is held.", more)
